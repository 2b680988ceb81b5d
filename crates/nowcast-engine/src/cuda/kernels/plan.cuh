// What every kernel knows of its plan: how much of the capacity is live, and how rows are counted.
//
// Grids cover the capacity; live extents, seed and first sample are data that the host writes before a run, so one
// recorded graph serves every run. Arithmetic that the CPU device shares is written in the same order with the same
// roundings (contraction is off, every fused multiply-add is spelled out), so that digits agree.
#pragma once

#ifdef NOWCAST_SHIM
#include "shim/shim.h"
#else
// The next kernel may take its place as soon as all blocks of this one have theirs; it waits there.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernel before this one is done and its results are there. Every thread of every kernel calls it, so
// that done means that all kernels before are done too.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Sixteen bytes on their way from global to shared memory.
__device__ __forceinline__ void copy_ahead(void* to, const void* from) {
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all copies but those of the last `LEFT` groups are there.
template <int LEFT>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// What is written there now is for kernels behind: others of this one may read what stood there, and do not use it. For the
// emulation, which finds races.
__device__ __forceinline__ void kept_for_later(const float*, int) {}
// Whether what the thread reads from here on is used. For the emulation, too.
__device__ __forceinline__ void reads_are_used(bool) {}

// Asks for what will be read later.
__device__ __forceinline__ void expect(const void* place) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
}

// Loads that stand before are not put off until their results are needed.
__device__ __forceinline__ void ask_now() {
    asm volatile("" ::: "memory");
}

// Computed here, not where it is used first: behind a wait that it might precede.
__device__ __forceinline__ void known_now(int value) {
    asm volatile("" ::"r"(value));
}
__device__ __forceinline__ void known_now(long long value) {
    asm volatile("" ::"l"(value));
}
__device__ __forceinline__ void known_now(double value) {
    asm volatile("" ::"d"(value));
}
__device__ __forceinline__ void known_now(const void* value) {
    asm volatile("" ::"l"(value));
}

// One entry point with one structure as its argument; at most `threads` threads in a block, at least `blocks` of them on
// a multiprocessor. What it does before it waits for the kernel before it may only read weights, live extents and inputs,
// which are copied before all kernels, and what `Kernel::lets_next_start` in kernel.rs names.
#define KERNEL_AHEAD(name, Call, threads, blocks)                                                                      \
    static __device__ __forceinline__ void name##_body(const Call& call);                                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Call call) {            \
        let_next_start();                                                                                              \
        name##_body(call);                                                                                             \
    }                                                                                                                  \
    static __device__ __forceinline__ void name##_body(const Call& call)
// As above, for kernels that have nothing to do before.
#define KERNEL(name, Call, threads)                                                                                    \
    static __device__ __forceinline__ void name##_body(const Call& call);                                              \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Call call) {                    \
        let_next_start();                                                                                              \
        wait_for_previous();                                                                                           \
        name##_body(call);                                                                                             \
    }                                                                                                                  \
    static __device__ __forceinline__ void name##_body(const Call& call)
// Shared memory whose size the launch decides.
#define SHARED_MEMORY(name)                                                                                            \
    extern __shared__ float4 name##_memory[];                                                                          \
    float* name = reinterpret_cast<float*>(name##_memory)
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// The device's copy of a launch.
struct Live {
    int batch;
    int context;
    int samples;
    u32 first_sample;
    u32 seed_low;
    u32 seed_high;
    // How tokens are drawn from logits.
    float temperature;
    int top_k;
    double top_p;
    int both_filters;
    int reserved;
};

// A number of rows: a fixed factor times live extents.
struct Rows {
    int fixed;
    int batch;
    int samples;
    // Prepended tokens, or -1 where the context does not count.
    int context;
};

__device__ inline int count(const Rows& rows, const Live* live) {
    int product = rows.fixed;
    if (rows.batch) product *= live->batch;
    if (rows.samples) product *= live->samples;
    if (rows.context >= 0) product *= live->context + rows.context;
    return product;
}

// The place of this thread in a one-dimensional grid.
__device__ inline i64 thread_index() {
    return (i64)blockIdx.x * blockDim.x + threadIdx.x;
}

// Some pieces of the weights, `stride` apart, on their way to shared memory, for the whole block; all threads come here once.
// They leave the L2 cache first: nobody asks for them again before all others have passed, but for rows and instructions.
__device__ __forceinline__ void copy_block_ahead(uint4* to, const uint4* from, int pieces, int size, i64 stride, u64* arrived) {
#ifdef NOWCAST_SHIM
    if (threadIdx.x == 0) {
        prepare_barrier(arrived, 1);
        expect_bytes(arrived, pieces * size * 16);
        for (int piece = 0; piece < pieces; piece++) send_bytes(to + piece * size, from + piece * stride, size * 16, arrived);
    }
#elif __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        unsigned barrier = (unsigned)__cvta_generic_to_shared(arrived);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(pieces * size * 16) : "memory");
        u64 leaves_first;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(leaves_first));
        for (int piece = 0; piece < pieces; piece++) {
            unsigned address = (unsigned)__cvta_generic_to_shared(to + piece * size);
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                    address),
                "l"(from + piece * stride), "r"(size * 16), "r"(barrier), "l"(leaves_first)
                : "memory");
        }
    }
#else
    for (int index = threadIdx.x; index < pieces * size; index += blockDim.x) {
        copy_ahead(to + index, from + index / size * stride + index % size);
    }
    end_copies();
#endif
    __syncthreads();
}

// Waits for the share of the calling thread; a barrier of the block follows.
__device__ __forceinline__ void wait_for_block_copy(u64* arrived) {
#ifdef NOWCAST_SHIM
    wait_for_phase(arrived, 0);
#elif __CUDA_ARCH__ >= 900
    unsigned barrier = (unsigned)__cvta_generic_to_shared(arrived);
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@!done bra again; }" ::"r"(barrier)
        : "memory");
#else
    wait_for_copies<0>();
#endif
}

// The sum of lanes 0 to 15, in lane 0: the upper half is added to the lower until one is left.
__device__ inline float sum_in_halves(float value) {
    for (int half = 8; half > 0; half /= 2) value += __shfl_xor_sync(0xffffffffu, value, half);
    return value;
}

// The sum of all lanes up to each one.
template <typename Value>
__device__ __forceinline__ Value sum_up_to_lane(Value sum) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        Value before = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += before;
    }
    return sum;
}

__device__ inline float largest_of_warp(float value) {
    for (int half = 16; half > 0; half /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}
