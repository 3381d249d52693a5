// The schedule that a tuned tile names, compiled for that tile alone: one of the ladder's kernels, unchanged. The
// numbers are those of SCHEDULES in harness/operators/gemm/schedules.py.
#pragma once

#if GEMM_SCHEDULE == 1
#include <gemm/hopper/square_waves.cu>
#elif GEMM_SCHEDULE == 2
#include <gemm/hopper/tma_store_epilogue.cu>
#elif GEMM_SCHEDULE == 3
#include <gemm/hopper/cluster_multicast.cu>
#elif GEMM_SCHEDULE == 4
#include <gemm/hopper/stream_k.cu>
#elif GEMM_SCHEDULE == 5
#include <gemm/hopper/split_k.cu>
#elif GEMM_SCHEDULE == 6
#include <gemm/hopper/small_m.cu>
#elif GEMM_SCHEDULE == 7
#include <gemm/hopper/pingpong.cu>
#elif GEMM_SCHEDULE == 8
#include <gemm/hopper/producer_consumer.cu>
#elif GEMM_SCHEDULE == 9
#include <gemm/hopper/trailing_store.cu>
#elif GEMM_SCHEDULE == 13
#include <gemm/hopper/evict_first.cu>
#elif GEMM_SCHEDULE == 14
#include <gemm/hopper/overlapped_index.cu>
#elif GEMM_SCHEDULE == 15
#include <gemm/hopper/columns_320.cu>
#elif GEMM_SCHEDULE == 16
#include <gemm/hopper/evict_c_first.cu>
#else
#error "no schedule has this number"
#endif
