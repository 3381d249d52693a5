// Loads before products: since producer_consumer a warp of its own loads the tiles of a step long before, and consumers
// wait for Q and for dO where each is multiplied. The Triton kernel has no such warp: it loads both at the beginning of
// a step. Builds on next_tile, and is the same program.
#include <attention_backward/hopper/next_tile.cu>
