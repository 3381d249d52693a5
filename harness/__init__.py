"""Checks, times, inspects and reports kernels, a user's own too; and the flagship of them as a plain function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api import bench, check

if TYPE_CHECKING:
    from torch import Tensor


__all__ = ["bench", "check", "flash_attention", "register_flash_attention"]


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(scale * q k^T) v on a Hopper GPU, by the ladder's flagship: (o, lse).

    q: (batch, heads, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim), of one dtype, fp16 or bf16, head_dim
    64, 128 or 256, heads a multiple of heads_kv, the last dimension contiguous and the other strides multiples of 16
    bytes. `causal` is aligned bottom right: query i sees key j when j <= i + seq_kv - seq_q. `scale`: head_dim ** -0.5
    where it is None.
    o: the shape, dtype and storage order of q. lse: (batch, heads, seq_q) fp32, the natural logarithm of the sum of
    exp(scale * q.k); -inf, and 0 in o, for a row that sees no key. Forward only.

    Launched on the current stream of q's device, without waiting for it. The first call for a dtype, head_dim, mask and
    class of length builds a kernel, or finds it in the build folder; later calls look it up.

    Raises TypeError and ValueError that name argument, what was got and what is expected; Unsupported and CompileError
    where no kernel can be built; LaunchError with CUDA's own words.
    """
    from harness.variants.flash_attention import attend

    return attend(q, k, v, causal=causal, scale=scale)


def register_flash_attention() -> str:
    """Offers the flagship to PyTorch (2.13 or newer) as an implementation of scaled_dot_product_attention's flash
    backend, and returns its name there: torch.nn.attention.activate_flash_attention_impl("twinkernels") puts it in
    place, restore_flash_attention_impl() takes it away.

    It does what `flash_attention` does, forward only. A call with dropout, with a gradient to come, or causal with
    lengths that differ (SDPA aligns its mask top left) raises NotImplementedError. Raises RuntimeError where torch has
    no registry for it.
    """
    from harness.variants import sdpa

    return sdpa.register()
