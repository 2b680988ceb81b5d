// Enough of CUDA for a C++ compiler to build the kernels for this processor, so that tests run their arithmetic where
// no GPU is. One fiber stands for each thread of a block; blocks run one after the other. Barriers and shuffles switch
// fibers, from lane to lane until a whole warp waits for others, then to the next warp; a barrier that some threads never
// reach ends the process with a message. Races are found where `NOWCAST_RACES` is set: see races.cpp.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "races.h"

#define __global__
#define __device__
#define __constant__ static const
#define __shared__ static
#define __restrict__
#define __forceinline__ inline
#define __noinline__ inline
#define NOT_INSTRUMENTED __attribute__((no_sanitize("thread")))

struct float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}

struct float2 {
    float x, y;
};
inline float2 make_float2(float x, float y) {
    return float2{x, y};
}
struct uint2 {
    unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
    return uint2{x, y};
}
struct uint4 {
    unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}

struct Three {
    unsigned x, y, z;
};

#pragma GCC visibility push(hidden)
namespace shim {
extern Three grid_size, block_index, block_size, thread;
extern float4* dynamic_memory;
// Wait for all threads of the block, of the warp, or of the cluster.
void block_barrier();
void warp_barrier();
void cluster_barrier();
// The same place in the dynamic memory of a block of the cluster.
void* in_peer(void* place, unsigned peer);
// Waits for the first `count` threads of the block.
void first_threads_barrier(unsigned count);
// Waits until a phase of this parity has ended.
struct Phase;
void phase(const Phase* barrier, unsigned parity);
// Barriers for copies, and what is sent to them: see pipeline.cpp.
void prepare_phases(unsigned long long* barrier, int arrivals);
void arrive(unsigned long long* barrier, unsigned expected_bytes);
void wait_for_phase(unsigned long long* barrier, unsigned parity);
void send(void* to, const void* from, unsigned bytes, unsigned long long* barrier);
void send_box(void* to, const unsigned long long* map, int word, int row, unsigned long long* barrier);
// Copies that the thread waits for by their groups.
void copy_ahead(void* to, const void* from);
void end_copies();
void wait_for_copies(unsigned left);
// What all lanes of the warp hand over, once they have; theirs until they hand over something else.
const unsigned long long* exchange(unsigned long long word);
// A lane's part of products on tensor cores: see tensor_cores.h.
struct Factors;
// Returns when those of all lanes of the warp are multiplied.
void multiply_together(const Factors& factors);
// Runs `body(call)` for every thread of the grid, the blocks of a cluster side by side.
void run(const unsigned grid[3], unsigned threads, unsigned shared_bytes, void (*body)(const void*), const void* call,
         unsigned cluster = 1);
}  // namespace shim
#pragma GCC visibility pop

#define gridDim (shim::grid_size)
#define blockIdx (shim::block_index)
#define blockDim (shim::block_size)
#define threadIdx (shim::thread)

#define SHARED_MEMORY(name) float* name = reinterpret_cast<float*>(shim::dynamic_memory)

// The entry point that the tests call, and the size of its argument for them to compare. Each thread does `begin` first.
#define SHIM_KERNEL(name, Call, threads, cluster, begin)                                                               \
    static void name##_body(const Call& call);                                                                         \
    static void name##_thread(const void* call) {                                                                      \
        begin;                                                                                                         \
        name##_body(*static_cast<const Call*>(call));                                                                  \
    }                                                                                                                  \
    extern "C" const unsigned name##_call_size = sizeof(Call);                                                         \
    extern "C" const unsigned name##_most_threads = threads;                                                           \
    extern "C" void name(const unsigned* grid, unsigned block, unsigned shared_bytes, const void* call) {              \
        shim::run(grid, block, shared_bytes, name##_thread, call, cluster);                                            \
    }                                                                                                                  \
    static void name##_body(const Call& call)
#define KERNEL(name, Call, threads) SHIM_KERNEL(name, Call, threads, 1, wait_for_previous())
#define KERNEL_AHEAD(name, Call, threads, blocks) SHIM_KERNEL(name, Call, threads, 1, )

// Fixed shared memory is one for all blocks: kernels in clusters have none.
#define HAS_CLUSTERS
#define CAN_LIMIT_REGISTERS 1
#define LIMITED_KERNEL_IN_CLUSTER(name, Call, threads, registers, size) KERNEL_IN_CLUSTER(name, Call, threads, 1, size)
#define KERNEL_IN_CLUSTER(name, Call, threads, blocks, size) SHIM_KERNEL(name, Call, threads, size, )
inline void arrive_in_cluster() {
    shim::races::arrive_in_cluster();
}
inline void wait_in_cluster() {
    shim::cluster_barrier();
}
inline float* in_peer(float* place, int peer) {
    return static_cast<float*>(shim::in_peer(place, peer));
}
inline void wait_for_previous() {
    shim::races::wait_for_previous();
}

inline void __syncthreads() {
    shim::block_barrier();
}
inline void __syncwarp() {
    shim::warp_barrier();
}
template <typename T>
inline T __shfl_sync(unsigned, T value, int lane) {
    unsigned long long word = 0;
    memcpy(&word, &value, sizeof(T));
    memcpy(&value, shim::exchange(word) + lane, sizeof(T));
    return value;
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, int distance) {
    int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane >= distance ? lane - distance : lane);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int difference) {
    return __shfl_sync(mask, value, (threadIdx.x % 32) ^ difference);
}
// Blocks run one thread at a time.
template <typename Value, typename Change>
NOT_INSTRUMENTED inline Value change_at_once(Value* address, Change change) {
    shim::races::change_at_once(address, sizeof(Value));
    Value before = *address;
    *address = change(before);
    return before;
}
inline int atomicMin(int* address, int value) {
    return change_at_once(address, [=](int before) { return value < before ? value : before; });
}
inline int atomicMax(int* address, int value) {
    return change_at_once(address, [=](int before) { return value > before ? value : before; });
}
template <typename Value>
inline Value atomicAdd(Value* address, Value value) {
    return change_at_once(address, [=](Value before) { return before + value; });
}
inline unsigned __ballot_sync(unsigned, bool value) {
    const unsigned long long* values = shim::exchange(value);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; lane++) bits |= (unsigned)values[lane] << lane;
    return bits;
}

inline float short_power_of_two(float x) {
    return std::exp2(x);
}
inline float short_inverse(float x) {
    return 1.0f / x;
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
using std::isinf;
inline double rsqrt(double value) {
    return 1.0 / std::sqrt(value);
}

// Bits of the nearest f16, ties to even.
inline unsigned bits_of_f16(float value) {
    unsigned sign = same_bits<unsigned>(value) >> 16 & 0x8000u;
    float size = std::fabs(value);
    if (!(size < 65520.0f)) return sign | (value != value ? 0x7e00u : 0x7c00u);
    // Subnormal ones are multiples of 2^-24.
    if (size < 0x1p-14f) return sign | (unsigned)std::nearbyint(size * 0x1p24f);
    unsigned bits = same_bits<unsigned>(size) - (112u << 23);
    return sign | ((bits + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

inline float value_of_f16(unsigned word) {
    unsigned bits = word & 0x7fffu;
    float size = bits < 0x400u    ? (float)bits * 0x1p-24f
                 : bits < 0x7c00u ? same_bits<float>((bits << 13) + (112u << 23))
                                  : same_bits<float>((bits << 13) | 0x7f800000u);
    return word & 0x8000u ? -size : size;
}

inline float2 values_of_f16(unsigned word) {
    return make_float2(value_of_f16(word & 0xffffu), value_of_f16(word >> 16));
}

inline unsigned bits_of_bf16(float value) {
    unsigned bits = same_bits<unsigned>(value);
    return value != value ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

template <typename Word>
inline void store_if(bool is_wanted, Word* to, Word word) {
    if (is_wanted) *to = word;
}
inline float4 load_four_if(bool is_wanted, const float* from) {
    return is_wanted ? *reinterpret_cast<const float4*>(from) : float4{};
}
inline uint4 load_once(const uint4* from) {
    return *from;
}
inline float load_if(bool is_wanted, const float* from) {
    return is_wanted ? *from : 0.0f;
}

// Four of the bytes of two words, named by the lower digits of a number.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
    unsigned long long all = (unsigned long long)high << 32 | low;
    unsigned word = 0;
    for (unsigned byte = 0; byte < 4; byte++) word |= (unsigned)(all >> (which >> 4 * byte & 7) * 8 & 0xff) << 8 * byte;
    return word;
}

// `format` 2 is bf16, as `Format` in fragments.cuh.
template <int FORMAT>
inline unsigned nearest_pair(float first, float second) {
    return FORMAT == 2 ? bits_of_bf16(first) | bits_of_bf16(second) << 16 : bits_of_f16(first) | bits_of_f16(second) << 16;
}

template <int FORMAT>
inline float half_value(unsigned word, int half) {
    word >>= 16 * half;
    return FORMAT == 2 ? same_bits<float>(word << 16) : value_of_f16(word & 0xffffu);
}

// A barrier for copies. See pipeline.cpp.
inline void prepare_barrier(unsigned long long* barrier, int arrivals) {
    shim::prepare_phases(barrier, arrivals);
}
inline void publish_barriers() {}
inline void arrive(unsigned long long* barrier) {
    shim::arrive(barrier, 0);
}
inline void expect_bytes(unsigned long long* barrier, unsigned bytes) {
    shim::arrive(barrier, bytes);
}
inline void wait_for_phase(unsigned long long* barrier, unsigned parity) {
    shim::wait_for_phase(barrier, parity);
}
inline void send_to_peer(float4* place, unsigned long long* barrier, int peer, const float (&values)[4]) {
    void *to = shim::in_peer(place, peer), *counter = shim::in_peer(barrier, peer);
    shim::send(to, values, sizeof(float4), static_cast<unsigned long long*>(counter));
}
inline void send_bytes(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
    shim::send(to, from, bytes, barrier);
}
inline bool sends_for_warp() { return threadIdx.x % 32 == 0; }
template <typename Map>
inline void expect_map(const Map&) {}
template <typename Map>
inline void send_box(void* to, const Map& map, int word, int row, unsigned long long* barrier, bool = false) {
    shim::send_box(to, map.words, word, row, barrier);
}
template <int COUNT>
inline void meet_first_threads() {
    shim::first_threads_barrier(COUNT);
}
template <int COUNT>
inline void give_registers_up() {}
template <int COUNT>
inline void take_registers() {}

inline void kept_for_later(const float* place, int count) {
    shim::races::keep_for_later(place, count * sizeof(float));
}
inline void reads_are_used(bool are_used) {
    shim::races::use_reads(are_used);
}
inline void expect(const void*) {}
template <typename Value>
inline void known_now(Value) {}
inline void ask_now() {}

inline void copy_ahead(void* to, const void* from) {
    shim::copy_ahead(to, from);
}
inline void end_copies() {
    shim::end_copies();
}
template <int LEFT>
inline void wait_for_copies() {
    shim::wait_for_copies(LEFT);
}

#include "tensor_cores.h"
