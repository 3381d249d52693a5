// What pays of all that the ladder tried, at each head_dim, mask and class of length: one of two schedules, at a tile
// of its own. Builds on own_diagonal and every rung that was faster than its parent. Takes any lengths and strides.
//
// Which techniques a schedule has follows from head_dim and mask, at its top. Which schedule and which tile a problem
// gets is looked up by head_dim, mask and class of length, in the table that `twinkernels tune` fills.
#ifdef ATTENTION_FUSED_SWITCH
#include <hopper/schedules/across_tiles.cu>
#else
#include <hopper/schedules/tile_by_tile.cu>
#endif
