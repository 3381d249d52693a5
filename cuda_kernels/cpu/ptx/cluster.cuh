// CPU twin of cuda_kernels/ptx/cluster.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/cluster.h>
#include <runtime/mbarrier.h>

DEVICE int cluster_ctarank() { return cpu::current().block->rank; }
DEVICE int cluster_nctarank() { return static_cast<int>(cpu::current().cluster->blocks.size()); }

DEVICE uint32_t mapa(uint32_t address, int rank) { return cpu::cluster_address(address, rank); }

DEVICE void barrier_cluster_arrive(Where where = Where::current()) {
  cpu::barrier_cluster_arrive("barrier_cluster_arrive", where);
}
DEVICE void barrier_cluster_wait(Where where = Where::current()) {
  cpu::barrier_cluster_wait("barrier_cluster_wait", where);
}

template <class T>
DEVICE T ld_shared_cluster(uint32_t address, Where where = Where::current()) {
  static_assert(sizeof(T) == 4);
  return cpu::load<T>(cpu::shared_load(address | cpu::IN_CLUSTER, sizeof(T), "ld_shared_cluster", where));
}

template <class T>
DEVICE void st_shared_cluster(uint32_t address, const T& value, Where where = Where::current()) {
  static_assert(sizeof(T) == 4);
  cpu::shared_store(address | cpu::IN_CLUSTER, &value, sizeof(T), "st_shared_cluster", where);
}

DEVICE void mbarrier_arrive_relaxed_cluster(uint32_t barrier, Where where = Where::current()) {
  cpu::mbarrier_arrive(barrier | cpu::IN_CLUSTER, 0, true, "mbarrier_arrive_relaxed_cluster", where,
                       cpu::Order::relaxed);
}

template <auto kernel, class Params>
Error launch_kernel_cluster(Grid grid, Grid cluster, int threads, int shared_bytes, void* stream,
                            const Params& params) {
  const auto call = [](const void* bytes) { kernel(*static_cast<const Params*>(bytes)); };
  return cpu::launch_grid({{grid.x, grid.y, grid.z},
                           {cluster.x, cluster.y, cluster.z},
                           threads,
                           static_cast<uint32_t>(shared_bytes),
                           call,
                           &params});
}
