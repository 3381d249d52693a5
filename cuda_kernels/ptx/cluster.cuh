// Clusters: co-scheduled blocks that see each other's shared memory. PTX ISA 9.7.13.3: barrier.cluster; 9.7.9.23: mapa.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// PTX ISA, special registers: %cluster_ctarank, %cluster_nctarank.
DEVICE int cluster_ctarank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DEVICE int cluster_nctarank() {
  int blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

// Maps `address`, a shared address of this block, to the same place in the shared memory of block `rank`.
DEVICE uint32_t mapa(uint32_t address, int rank) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// Every thread of every block in the cluster arrives, then waits.
DEVICE void barrier_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// `address` comes from mapa; T is 4 bytes wide.
template <class T>
DEVICE T ld_shared_cluster(uint32_t address) {
  static_assert(sizeof(T) == 4);
  uint32_t bits;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
  return reinterpret_cast<const T&>(bits);
}

template <class T>
DEVICE void st_shared_cluster(uint32_t address, const T& value) {
  static_assert(sizeof(T) == 4);
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(reinterpret_cast<const uint32_t&>(value))
               : "memory");
}

// mbarrier.arrive (9.7.13.15) on another block's barrier (`barrier` comes from mapa) that publishes no writes: enough
// on this hardware where wgmma.wait_group has returned, so reads of the buffer are complete; by PTX's memory model a
// relaxed arrival orders nothing. It is one SYNCS in SASS, as it is without .relaxed.cluster. mbarrier_arrive_cluster,
// a release at cluster scope, adds a fence of the GPU (MEMBAR.ALL.GPU).
DEVICE void mbarrier_arrive_relaxed_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// launch_kernel with clusters of `cluster` blocks; each grid dimension must be a multiple of the cluster's.
template <auto kernel, class Params>
Error launch_kernel_cluster(Grid grid, Grid cluster, int threads, int shared_bytes, void* stream,
                            const Params& params) {
  static const Error allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, params);
}
