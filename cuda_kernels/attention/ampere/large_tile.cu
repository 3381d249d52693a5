// 128 keys per iteration instead of 64: fewer iterations, so fewer barriers, rescales and loop overheads per score.
// Builds on xor_swizzle; changes the tile only, so it is the same program.
#include <attention/ampere/xor_swizzle.cu>
