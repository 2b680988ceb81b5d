// Enough of CUDA for a C++ compiler to build the kernels for this processor, so that tests run their arithmetic where
// no GPU is. One fiber stands for each thread of a block; blocks run one after the other. Barriers and shuffles switch
// fibers; a barrier that some threads never reach ends the process with a message. Races are not found.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define __global__
#define __device__
#define __shared__ static
#define __restrict__
#define __forceinline__ inline

struct float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}

struct Three {
    unsigned x, y, z;
};

namespace shim {
extern Three grid_size, block_index, block_size, thread;
extern float4* dynamic_memory;
// Wait for all threads of the block, or of the warp.
void block_barrier();
void warp_barrier();
// The place of a value that the threads of a warp exchange.
unsigned& exchanged(unsigned lane);
// Runs `body(call)` for every thread of the grid.
void run(const unsigned grid[3], unsigned threads, unsigned shared_bytes, void (*body)(const void*), const void* call);
}  // namespace shim

#define gridDim (shim::grid_size)
#define blockIdx (shim::block_index)
#define blockDim (shim::block_size)
#define threadIdx (shim::thread)

#define SHARED_MEMORY(name) float* name = reinterpret_cast<float*>(shim::dynamic_memory)

// The entry point that the tests call, and the size of its argument for them to compare.
#define KERNEL(name, Call, threads)                                                                                    \
    static void name##_body(const Call& call);                                                                         \
    static void name##_thread(const void* call) {                                                                      \
        name##_body(*static_cast<const Call*>(call));                                                                  \
    }                                                                                                                  \
    extern "C" const unsigned name##_call_size = sizeof(Call);                                                         \
    extern "C" const unsigned name##_most_threads = threads;                                                           \
    extern "C" void name(const unsigned* grid, unsigned block, unsigned shared_bytes, const void* call) {              \
        shim::run(grid, block, shared_bytes, name##_thread, call);                                                     \
    }                                                                                                                  \
    static void name##_body(const Call& call)

#define KERNEL_AHEAD(name, Call, threads, blocks) KERNEL(name, Call, threads)
inline void wait_for_previous() {}

inline void __syncthreads() {
    shim::block_barrier();
}
inline void __syncwarp() {
    shim::warp_barrier();
}
inline float __shfl_sync(unsigned, float value, int lane) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    shim::exchanged(threadIdx.x % 32) = bits;
    shim::warp_barrier();
    bits = shim::exchanged(lane);
    shim::warp_barrier();
    memcpy(&value, &bits, 4);
    return value;
}
// Blocks run one thread at a time.
inline int atomicMin(int* address, int value) {
    int before = *address;
    if (value < before) *address = value;
    return before;
}
inline float __shfl_xor_sync(unsigned mask, float value, int difference) {
    return __shfl_sync(mask, value, (threadIdx.x % 32) ^ difference);
}

template <typename To, typename From>
inline To same_bits(From from) {
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}
inline int __float_as_int(float value) {
    return same_bits<int>(value);
}
inline float __int_as_float(int value) {
    return same_bits<float>(value);
}
inline long long __double_as_longlong(double value) {
    return same_bits<long long>(value);
}
inline double __longlong_as_double(long long value) {
    return same_bits<double>(value);
}
using std::isfinite;
