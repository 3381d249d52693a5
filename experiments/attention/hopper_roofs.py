"""How much can a multiprocessor do in one clock, and how much of that can attention use?

Small kernels whose data is in registers and shared memory from the start measure the limits: products alone, by wgmma
and by mma.sync; exponentials alone; both at once; fp32 additions, multiply-adds, maxima and polynomial exponentials
beside products, and additions whose warp waits now and then; the softmax of 64 queries by 128 keys, alone and beside
products; and the main loop of attention without loads, with all of its exponentials, with none, and with a part of them
on the FMA pipe. cuBLAS multiplies in the same run. Rates are per clock of the multiprocessor, which the kernels read
themselves.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention import roofs

EXPERIMENT = Experiment(
    backends=("cuda",),
    peers=(),
    modes=(),
    roofs=(
        *(roofs.products(head_dim) for head_dim in (64, 128)),
        roofs.mma_sync(),
        *(roofs.exponentials(beside) for beside in (None, 64, 128)),
        *(roofs.polynomials(beside) for beside in (None, 64, 128)),
        *(roofs.additions(beside, groups) for groups in (2, 1) for beside in (None, 64, 128)),
        *(roofs.waiting_additions(beside) for beside in (None, 64, 128)),
        *(roofs.multiply_adds(beside, groups) for groups in (2, 1) for beside in (None, 64, 128)),
        *(roofs.maxima(beside) for beside in (None, 128)),
        *(roofs.softmax(head_dim, groups) for head_dim in (64, 128) for groups in (1, 2, 3)),
        *(roofs.softmax(head_dim, groups, beside=True) for head_dim in (64, 128) for groups in (1, 2)),
        *(
            roofs.loop(head_dim, groups, polynomial)
            for head_dim, groups in ((64, 3), (128, 2))
            for polynomial in (None, 0, 1, 2, 4)
        ),
        roofs.matmul(),
    ),
)
