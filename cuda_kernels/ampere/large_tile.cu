// 128 keys a step instead of 64: fewer steps, so fewer barriers, rescales and loop overheads per score.
// Builds on xor_swizzle; changes the tile only, so it is the same program.
#include <ampere/xor_swizzle.cu>
