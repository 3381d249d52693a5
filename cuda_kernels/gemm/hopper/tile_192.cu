// Tiles of 128 x 192, three quarters of the parent's: 3072 x 3072 has 384 of them, which fill 132 multiprocessors three
// times to 97%, where 288 of 128 x 256 fill them to 73%. Each product reads more bytes, from L2 and in wgmma.
// Builds on cluster_multicast; changes the tile.
#include <gemm/hopper/cluster_multicast.cu>
