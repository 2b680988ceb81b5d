// Blocks that run side by side and write to each other's shared memory, from architecture 9.0 on.
#pragma once

#include "plan.cuh"

#ifndef NOWCAST_SHIM
#if __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS
#define CLUSTER_OF(size) __cluster_dims__(size, 1, 1)
#else
#define CLUSTER_OF(size)
#endif

// As many registers for a thread as are asked for, from CUDA 12.4 on; before, as many as leave room for so many blocks.
#define CAN_LIMIT_REGISTERS (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204)
#if CAN_LIMIT_REGISTERS
#define LIMITED_TO(registers, threads) __maxnreg__(registers)
#else
#define LIMITED_TO(registers, threads) __launch_bounds__(threads, 65536 / ((threads) * (registers)))
#endif

#define BOUND_KERNEL_IN_CLUSTER(name, Call, size, bounds)                                                              \
    static __device__ __forceinline__ void name##_body(const Call& call);                                              \
    extern "C" __global__ void CLUSTER_OF(size) bounds name(const __grid_constant__ Call call) {                       \
        let_next_start();                                                                                              \
        name##_body(call);                                                                                             \
    }                                                                                                                  \
    static __device__ __forceinline__ void name##_body(const Call& call)
// As `KERNEL_AHEAD`, in clusters of `size` blocks, of which grids are multiples.
#define KERNEL_IN_CLUSTER(name, Call, threads, blocks, size)                                                           \
    BOUND_KERNEL_IN_CLUSTER(name, Call, size, __launch_bounds__(threads, blocks))
// The same, with so many registers for each thread.
#define LIMITED_KERNEL_IN_CLUSTER(name, Call, threads, registers, size)                                                \
    BOUND_KERNEL_IN_CLUSTER(name, Call, size, LIMITED_TO(registers, threads))

#ifdef HAS_CLUSTERS
// All threads of all blocks of the cluster arrive, then wait; what they wrote before is there then.
__device__ __forceinline__ void arrive_in_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_in_cluster() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same place in the shared memory of a block of the cluster.
__device__ __forceinline__ float* in_peer(float* place, int peer) {
    float* other;
    asm("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(place), "r"(peer));
    return other;
}

// Sends sixteen bytes to the same place in the shared memory of a block of the cluster, whose barrier counts them.
__device__ __forceinline__ void send_to_peer(float4* place, u64* barrier, int peer, const float (&values)[4]) {
    asm volatile(
        "{ .reg .b32 to, counter; mapa.shared::cluster.u32 to, %0, %2; mapa.shared::cluster.u32 counter, %1, %2;"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%3, %4, %5, %6}, [counter]; }" ::"r"(
            (u32)__cvta_generic_to_shared(place)),
        "r"((u32)__cvta_generic_to_shared(barrier)), "r"(peer), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3])
        : "memory");
}
#endif
#endif
