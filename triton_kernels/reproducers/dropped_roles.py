"""Triton 3.6 to 3.9, sm_90: an if around a tensor in a loop drops the roles that warp_specialize=True asks for.

    python dropped_roles.py        # needs no GPU

The compiler prints no message. An if around a scalar becomes a select, and the loop keeps its roles.
"""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a_ptr, b_ptr, c_ptr, depth, FORM: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [4096, depth], [depth, 1], [128, 64])
    b_desc = tl.make_tensor_descriptor(b_ptr, [depth, 128], [128, 1], [64, 128])
    c_desc = tl.make_tensor_descriptor(c_ptr, [4096, 128], [128, 1], [128, 128])
    first = tl.program_id(0) * 128
    c = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, depth, 64, warp_specialize=True):
        if FORM == "scalar":
            factor = 1.0
            if k > 64:
                factor = 0.5
            c *= factor
        if FORM == "tensor":
            factor = 0.5
            if k > 64:
                c *= factor
        c = tl.dot(a_desc.load([first, k]), b_desc.load([k, 0]), c)
    c_desc.store([first, 0], c.to(tl.float16))


def build(form):
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16"), "depth": "i32", "FORM": "constexpr"}
    source = ASTSource(product, signature, {"FORM": form}, {(i,): [["tt.divisibility", 16]] for i in range(4)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form, what in {"": "no if", "scalar": "if around a scalar", "tensor": "if around a tensor"}.items():
        warps = build(form).metadata.num_warps
        print(f"{what}: {warps} warps, {'roles' if warps > 4 else 'no roles'}")
