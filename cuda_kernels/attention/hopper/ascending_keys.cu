// Keys in ascending order: CUDA's kernels have gone from key 0 up to the diagonal since the first rung. The Triton
// kernels go down from the diagonal, at which two tiles of queries that begin together are not at the same keys. Builds
// on flagship, and is the same program.
#include <attention/hopper/flagship.cu>
