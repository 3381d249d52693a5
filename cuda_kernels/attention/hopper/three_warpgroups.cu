// A third consumer warpgroup: 192 query rows share each K and V, and one more softmax can overlap with other products.
// Builds on producer_consumer; changes the tile only, so it is the same program.
#include <attention/hopper/producer_consumer.cu>
