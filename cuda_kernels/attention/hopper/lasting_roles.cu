// Roles that last for many tiles of queries: CUDA's blocks have had roles since producer_consumer, and since persistent
// the producer has loaded the next tile while the others finish this one. The Triton kernel of persistent has no roles.
// Builds on persistent, and is the same program.
#include <attention/hopper/persistent.cu>
