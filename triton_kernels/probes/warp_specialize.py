"""Core Triton: when does tl.range(warp_specialize=True) give warps roles, and what happens otherwise?"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("90", "90 off", "90 8 warps", "90 host", "90 host off", "90 causal", "90 causal off",
         "90 causal in one loop", "90 causal in one loop off", "90 causal in one loop, rows apart",
         "90 64 rows", "90 maxnreg 96", "90 maxnreg 160", "90 maxnreg 200", "90 3 stages",
         "100 host", "100 host off", "120 host", "120 host off")  # fmt: skip


@triton.jit
def attend(o, row_max, row_sum, q, k_desc, v_desc, begin, end, row, MASKED: tl.constexpr, SPECIALIZE: tl.constexpr):
    for start in tl.range(begin, end, 64, warp_specialize=SPECIALIZE):
        s = tl.dot(q, k_desc.load([start, 0]).T)
        if MASKED:
            s = tl.where(row[:, None] >= start + tl.arange(0, 64)[None, :], s, -1e6)
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p, rescale = tl.exp2(s - new_max[:, None]), tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        o = tl.dot(p.to(tl.float16), v_desc.load([start, 0]), o * rescale[:, None])
        row_max = new_max
    return o, row_max, row_sum


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, keys, DIM: tl.constexpr, ROWS: tl.constexpr, HOST: tl.constexpr,
              CAUSAL: tl.constexpr, ONE_LOOP: tl.constexpr, APART: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    if not HOST:  # given pointers, the kernel makes the descriptors
        q_desc = tl.make_tensor_descriptor(q_desc, [keys, DIM], [DIM, 1], [ROWS, DIM])
        k_desc = tl.make_tensor_descriptor(k_desc, [keys, DIM], [DIM, 1], [64, DIM])
        v_desc = tl.make_tensor_descriptor(v_desc, [keys, DIM], [DIM, 1], [64, DIM])
        o_desc = tl.make_tensor_descriptor(o_desc, [keys, DIM], [DIM, 1], [ROWS, DIM])
    first = tl.program_id(0) * ROWS
    if APART:  # the same number, in a value that is no descriptor's coordinate
        row = (tl.program_id(0).to(tl.int64) * ROWS).to(tl.int32) + tl.arange(0, ROWS)
    else:
        row = first + tl.arange(0, ROWS)
    row_max, row_sum = tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS,), tl.float32)
    o = tl.zeros((ROWS, DIM), tl.float32)
    q = q_desc.load([first, 0])
    end = first + ROWS if ONE_LOOP else first if CAUSAL else keys
    o, row_max, row_sum = attend(o, row_max, row_sum, q, k_desc, v_desc, 0, end, row, ONE_LOOP, SPECIALIZE)
    if CAUSAL:
        o, row_max, row_sum = attend(o, row_max, row_sum, q, k_desc, v_desc, end, end + ROWS, row, True, SPECIALIZE)
    o_desc.store([first, 0], (o / row_sum[:, None]).to(tl.float16))


def build(form):
    arch, host, dim = int(form.split()[0]), "host" in form, 128 if form.startswith("90") else 64
    rows = 64 if "64 rows" in form else 128
    boxes = {"q_desc": rows, "k_desc": 64, "v_desc": 64, "o_desc": rows}
    tensors = {name: f"tensordesc<fp16[{count},{dim}]>" if host else "*fp16" for name, count in boxes.items()}
    constants = {"DIM": dim, "ROWS": rows, "HOST": host, "CAUSAL": form.startswith("90 causal") and "loop" not in form,
                 "ONE_LOOP": "one loop" in form, "APART": "apart" in form, "SPECIALIZE": "off" not in form}  # fmt: skip
    signature = {**tensors, "keys": "i32", **dict.fromkeys(constants, "constexpr")}
    options = {"num_warps": 8 if "8 warps" in form else 4, "num_stages": 3 if "3 stages" in form else 2}
    if "maxnreg" in form:
        options["maxnreg"] = int(form.split()[-1])
    attrs = {(i,): [["tt.divisibility", 16]] for i in ((4,) if host else range(5))}
    source = ASTSource(attention, signature, constants, attrs)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


SHOWN = {
    "ttgir": r"memdesc<3x64x128|warp_group_dot .*tensor<64x64xf32|start = 64 : i32\} .*\n.*= tt\.splat %\w+",
    "ptx": r"setmaxnreg\S+\s+\d+|mbarrier\.(?:arrive|try_wait)\S*",
    "sass": r"USETMAXREG\S*|UTMALDG\S*",
}

if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error, flush=True)
            continue
        print(form, "warps", kernel.metadata.num_warps, flush=True)
        for text, pattern in SHOWN.items():
            print(*dict.fromkeys(re.findall(pattern, kernel.asm[text])), sep="\n", flush=True)
