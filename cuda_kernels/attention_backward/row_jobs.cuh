// D and LSE in base 2 by the warp that converts dQ: jobs of one tile of queries each, taken from a counter.
//
// The workspace is that of dq_workspace.cuh, with two counters more for each head, before the sums: of jobs that are
// done, and of tiles that are converted. All are 0 between launches.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/dq_workspace.cuh>
#include <attention_backward/persistent_tiles.cuh>
#include <ptx/atom.cuh>
#include <ptx/shfl.cuh>

struct RowJobParams {
  PersistentParams persistent;
  TensorMap o;
  int tiles, jobs;       // of queries of a head, of all heads
  int64_t heads_offset;  // of the counters of heads in the workspace, in bytes
};

inline int64_t row_sums_offset(const AttentionBackwardArgs& args) {
  const int64_t bytes = static_cast<int64_t>(args.batch) * args.heads * 8;
  return sums_offset(args) + (bytes + COUNTER_BYTES - 1) / COUNTER_BYTES * COUNTER_BYTES;
}
inline int64_t row_workspace_bytes(const AttentionBackwardArgs& args) {
  return row_sums_offset(args) + static_cast<int64_t>(args.batch) * args.heads * args.scratch_rows * HEAD_DIM * 4;
}
inline Error plan(RowJobParams& params) {
  AttentionBackwardArgs& args = params.persistent.tma.args;
  params.tiles = ceil_div(args.seq_q, BLOCK_M);
  params.jobs = params.tiles * args.heads * args.batch;
  params.heads_offset = sums_offset(args);
  args.dq_sums = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + row_sums_offset(args));
  // The map of O is made as that of dO.
  TmaParams of_o{args};
  of_o.args.d_o = args.o, of_o.args.d_o_stride = args.o_stride;
  if (const Error error = encode(of_o)) return error;
  params.o = of_o.d_o;
  return plan(params.persistent);
}

DEVICE uint32_t* jobs_done(const RowJobParams& params, int batch, int head) {
  const AttentionBackwardArgs& args = params.persistent.tma.args;
  return reinterpret_cast<uint32_t*>(static_cast<char*>(args.workspace) + params.heads_offset) +
         (batch * args.heads + head) * 2;
}
// Returns once D and LSE of all rows of a head can be copied.
DEVICE void wait_for_rows(const RowJobParams& params, int batch, int head) {
  while (atom_add(jobs_done(params, batch, head), 0) != static_cast<uint32_t>(params.tiles)) {
  }
  fence_acq_rel_gpu();
  fence_proxy_async();
}
// One thread counts a converted tile of a head. After the last one every block has waited for the head's rows.
DEVICE void count_conversion(const RowJobParams& params, const DqTile& at) {
  const AttentionBackwardArgs& args = params.persistent.tma.args;
  const int unseen = CAUSAL && args.seq_q > args.seq_kv ? (args.seq_q - args.seq_kv) / BLOCK_M : 0;
  uint32_t* done = jobs_done(params, at.batch, at.head);
  const uint32_t last = params.tiles - unseen - 1;
  if (atom_inc(done + 1, last) == last) atom_exch(done, 0);
}

// How many jobs come first that a head of queries needs. Their order is that in which blocks need them: the first query
// heads of all heads of K and V, then the second ones.
DEVICE int jobs_needed(const RowJobParams& params, int batch, int head) {
  const AttentionBackwardArgs& args = params.persistent.tma.args;
  const int group = args.heads / args.heads_kv, heads_kv = args.heads_kv * args.batch;
  return (head % group * heads_kv + batch * args.heads_kv + head / group + 1) * params.tiles;
}

struct alignas(16) EightNumbers {
  Element at[8];
};

// The jobs of a warp.
struct RowJobs {
  int taken = 0;  // so many jobs are taken by some block; one more than there are once the warp has been told so

  // Takes a job and does it; `copies` counts uses of the buffer at `smem`, which `full` guards.
  DEVICE void take(const RowJobParams& params, uint32_t smem, uint32_t full, int& copies) {
    const AttentionBackwardArgs& args = params.persistent.tma.args;
    const int lane = tid_x() % WARP_SIZE, heads_kv = args.heads_kv * args.batch;
    int job = 0;
    if (lane == 0)  // back to 0 once every block has been told that none is left
      job = atom_inc(static_cast<uint32_t*>(args.workspace) + 1, params.jobs + params.persistent.blocks - 1);
    job = shfl_idx(job, 0);
    taken = job + 1;
    if (job >= params.jobs) return;
    const int place = job / params.tiles, row = job % params.tiles * BLOCK_M, pair = place % heads_kv;
    const int batch = pair / args.heads_kv;
    const int head = pair % args.heads_kv * (args.heads / args.heads_kv) + place / heads_kv;
    if (lane == 0) {
      mbarrier_arrive_expect_tx(full, 2 * Q_BYTES);
      load_tile<BLOCK_M>(smem, params.o, row, head, batch, full);
      load_tile<BLOCK_M>(smem + Q_BYTES, params.persistent.tma.d_o, row, head, batch, full);
    }
    wait(full, copies++ % 2);
    const Head at(args, batch, head);
    const bool is_seen = last_key(args, row + BLOCK_M - 1) >= 0;
#pragma unroll 1
    for (int i = lane; i < BLOCK_M; i += WARP_SIZE) {
      float dot = 0.f;
#pragma unroll 1
      for (int col = 0; col < HEAD_DIM; col += 8) {
        const uint32_t place = slab_address<BLOCK_M>(smem, i, col);
        const auto o = ld_shared<EightNumbers>(place), d_o = ld_shared<EightNumbers>(place + Q_BYTES);
#pragma unroll
        for (int j = 0; j < 8; ++j) dot += cvt_f32(o.at[j]) * cvt_f32(d_o.at[j]);
      }
      const bool exists = row + i < args.seq_q;
      const float lse = exists ? ld_global<float>(at.lse(args) + row + i) : -INFINITY_F32;
      st_global(at.dots(args) + row + i, dot);
      st_global(at.lse_log2(args) + row + i, lse == -INFINITY_F32 ? INFINITY_F32 : lse * LOG2_E);
      if (exists && !is_seen)  // no tile of keys adds to dQ here
        for (int col = 0; col < HEAD_DIM; col += 8)
          st_global(at.dq(args) + (row + i) * args.dq_stride.seq + col, make_uint4(0, 0, 0, 0));
    }
    fence_proxy_async();  // copies read what was written, and the next one overwrites what was read
    bar_warp_sync();
    if (lane == 0) {
      fence_acq_rel_gpu();
      atom_add(jobs_done(params, batch, head), 1);
    }
  }
  // Takes jobs until so many are taken, or all.
  DEVICE void take_until(int goal, const RowJobParams& params, uint32_t smem, uint32_t full, int& copies) {
    while (taken < goal && taken <= params.jobs) take(params, smem, full, copies);
  }
};

// Messages from the two warps that add dQ to the one that converts it, one for each addition.
struct Messages {
  static constexpr int COUNT = 8;  // that the reader may be behind
  uint32_t full, empty;
  int count = 0;

  DEVICE void init() const {
    for (int i = 0; i < COUNT; ++i) mbarrier_init(full + i * 8, 2), mbarrier_init(empty + i * 8, 1);
  }
  DEVICE void send() {
    const int at = count % COUNT * 8;
    wait(empty + at, count++ / COUNT % 2 ^ 1);  // passes immediately in the first round
    mbarrier_arrive(full + at);
  }
  DEVICE void receive() {
    const int at = count % COUNT * 8;
    wait(full + at, count++ / COUNT % 2);
    mbarrier_arrive(empty + at);
  }
};
