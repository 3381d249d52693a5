// As many query rows or keys as registers hold: 192x80 and 128x176 at head_dim 128, 128x80 at head_dim 256. Builds on
// pingpong; changes the tile only, so it is the same program.
#include <attention/hopper/pingpong.cu>
