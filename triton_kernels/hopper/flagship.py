"""The fastest attention of this ladder in core Triton: a program for each head_dim, at tiles of its own.

Builds on wgmma and integer_max; head_dim 64 takes integer_max, and the others wgmma, where that pays nothing. Later
rungs express the order of the products, persistent blocks and lazy rescaling; the note on this rung tells what each
reaches at its best tile. The rest of the CUDA flagship has no counterpart in the language: turns between warpgroups, a
release that depends on the row maxima, a loop that ends at each warpgroup's own diagonal, and tensors of 80 keys.
"""

from triton_kernels.hopper import integer_max, wgmma

PROGRAMS = {64: integer_max, 128: wgmma, 256: wgmma}
"""head_dim -> the rung whose program it is."""


class Table:
    """A twin that is another rung's at each head_dim. `kernel`: that of most."""

    kernel = wgmma.twin.kernel

    def specialize(self, problem, strides, tile, arch):
        return PROGRAMS[problem.head_dim].twin.specialize(problem, strides, tile, arch)

    def launch(self, q, k, v, o, lse, **options):
        return PROGRAMS[q.shape[3]].twin.launch(q, k, v, o, lse, **options)

    def workspace_bytes(self, problem):
        return PROGRAMS[problem.head_dim].twin.workspace_bytes(problem)


twin = Table()
