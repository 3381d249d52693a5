// Descriptors of K and V made by the host, O stored from registers: CUDA's kernels have had both since the first rung.
// The Triton kernel of producer_consumer makes all descriptors itself, and its O takes the shared memory of a stage of
// K and V. Builds on producer_consumer, and is the same program.
#include <attention/hopper/producer_consumer.cu>
