// Loads before products: here a warp of the producer asks for the tiles of a step long before, since producer_consumer,
// and consumers wait for Q and for dO where each is multiplied. The Triton kernel has no such warp, and loads both at
// once. Builds on next_tile, and is the same program.
#include <attention_backward/hopper/next_tile.cu>
