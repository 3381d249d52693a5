// Two consumer warpgroups, and a tile of 128 x 256: each multiplies 64 rows by all 256 columns with one wgmma.
// Builds on producer_consumer; changes the tile and the number of consumers: BLOCK_N, STAGES and WARPS.
#include <gemm/hopper/producer_consumer.cu>
