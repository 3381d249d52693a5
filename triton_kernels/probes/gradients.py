"""Core Triton, the loop of attention's backward pass: are products in flight under its arithmetic, and has it roles?"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "next scores", "rotated", "roles", "4 warps", "roles of 4 warps", "atomics", "roles and atomics")


@triton.jit
def gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, lse_ptr, dots_ptr, queries,
    FORM: tl.constexpr, ROLES: tl.constexpr, ATOMICS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    q_desc = tl.make_tensor_descriptor(q_ptr, [queries, 64], [64, 1], [64, 64])
    do_desc = tl.make_tensor_descriptor(do_ptr, [queries, 64], [64, 1], [64, 64])
    k_desc = tl.make_tensor_descriptor(k_ptr, [KEYS, 64], [64, 1], [KEYS, 64])
    v_desc = tl.make_tensor_descriptor(v_ptr, [KEYS, 64], [64, 1], [KEYS, 64])
    dq_desc = tl.make_tensor_descriptor(dq_ptr, [queries, 64], [64, 1], [64, 64])
    k, v = k_desc.load([0, 0]), v_desc.load([0, 0])
    dk, dv = tl.zeros((KEYS, 64), tl.float32), tl.zeros((KEYS, 64), tl.float32)
    s = tl.dot(k, tl.trans(q_desc.load([0, 0])))
    for start in tl.range(0, queries, 64, warp_specialize=ROLES):
        row = start + tl.arange(0, 64)
        lse, dots = tl.load(lse_ptr + row)[None, :], tl.load(dots_ptr + row)[None, :]
        q, do = q_desc.load([start, 0]), do_desc.load([start, 0])
        if FORM == "rotated":  # everything that reads S of the next step comes behind the wait for dP of that step
            dp = tl.dot(v, tl.trans(do))
            p = s - lse
            s = tl.dot(k, tl.trans(q_desc.load([start + 64, 0])))
            p = tl.math.exp2(p)
        elif FORM == "next scores":  # S of the next step comes first
            next_s = tl.dot(k, tl.trans(q_desc.load([start + 64, 0])))
            p = tl.math.exp2(s - lse)
            dp = tl.dot(v, tl.trans(do))
            s = next_s
        else:  # the exponentials come before dP
            s = tl.dot(k, tl.trans(q))
            p = tl.math.exp2(s - lse)
            dp = tl.dot(v, tl.trans(do))
        ds = (p * (dp - dots)).to(q.dtype)
        dv, dk = tl.dot(p.to(do.dtype), do, dv), tl.dot(ds, q, dk)
        dq = tl.dot(tl.trans(ds), k)
        if ATOMICS:
            tl.atomic_add(dq_ptr + row[:, None] * 64 + tl.arange(0, 64), dq, sem="relaxed")
        else:
            dq_desc.atomic_add([start, 0], dq)
    at = tl.arange(0, KEYS)[:, None] * 64 + tl.arange(0, 64)
    tl.store(dk_ptr + at, dk)
    tl.store(dv_ptr + at, dv)


def build(form):
    signature = {
        **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "do_ptr"), "*bf16"),
        **dict.fromkeys(("dq_ptr", "dk_ptr", "dv_ptr", "lse_ptr", "dots_ptr"), "*fp32"),
        "queries": "i32",
    }
    atomics = form.endswith("atomics")
    constants = {"FORM": form, "ROLES": form.startswith("roles"), "ATOMICS": atomics, "KEYS": 64 if atomics else 128}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
    source = ASTSource(gradients, {**signature, **dict.fromkeys(constants, "constexpr")}, constants, attrs)
    options = {"num_warps": 4 if atomics or form.endswith("4 warps") else 8, "num_stages": 3}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error, flush=True)
            continue
        text = kernel.asm["ttgir"]
        order = r"scf\.for|scf\.yield|warp_group_dot |pendings = \d+|math\.exp2|async_tma_reduce|async_tma_store_wait"
        added = re.findall(r"cp\.reduce\S+|\b(?:atom|red)\.\S+", kernel.asm["ptx"])
        print(form, "warps", kernel.metadata.num_warps, *re.findall(order, text), *added, flush=True)
