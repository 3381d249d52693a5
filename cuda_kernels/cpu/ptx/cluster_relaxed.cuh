// CPU twin of cuda_kernels/ptx/cluster_relaxed.cuh. Laxer than PTX: here the arrival publishes what came before it.
#pragma once

#include <ptx/cluster.cuh>

DEVICE void barrier_cluster_arrive_relaxed(Where where = Where::current()) {
  cpu::barrier_cluster_arrive("barrier_cluster_arrive_relaxed", where);
}
