// A ring of stages in shared memory that one thread fills and many empty (sm_90a, and the emulation).
//
// A stage is full when all bytes that were expected have come, and empty when all its readers have said so. Each has a
// barrier whose phases end in turn; who waits says which parity the phase that is to end has.
#pragma once

#include "plan.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(NOWCAST_SHIM)
#define HAS_PIPELINES 1
#else
#define HAS_PIPELINES 0
#endif

// Which of `STAGES` stages comes next, and the parity of the phase that it is in: in the first round nobody has yet to leave.
template <int STAGES>
struct RingPlace {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void pass() {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
};

// Where a matrix lies and which boxes of it are copied, as the copy engine wants it told: `CUtensorMap` of the driver.
struct alignas(64) Map {
    u64 words[16];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ __forceinline__ u32 shared_address(const void* place) {
    return (u32)__cvta_generic_to_shared(place);
}

__device__ __forceinline__ void prepare_barrier(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Lets the copy engine see the barriers; before the block meets.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect_bytes(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void wait_for_phase(u64* barrier, u32 parity) {
    asm volatile(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
        "@done bra over; bra again; over: }" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// Asks for a map before its first box is.
__device__ __forceinline__ void expect_map(const Map& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// A box of a matrix on its way, from a word of a row and from a row on; zeros where it reaches beyond the matrix.
__device__ __forceinline__ void send_box(void* to, const Map& map, int word, int row, u64* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(word), "r"(row), "r"(shared_address(barrier))
        : "memory");
}

// The same; what `passes` leaves the L2 cache first, since nobody asks for it again before all else has come through.
__device__ __forceinline__ void send_box(void* to, const Map& map, int word, int row, u64* barrier, bool passes) {
    // As `createpolicy.fractional` makes them for all bytes: evict_first and evict_normal.
    u64 policy = passes ? 0x12f0000000000000 : 0x1000000000000000;
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(word), "r"(row), "r"(shared_address(barrier)), "l"(policy)
        : "memory");
}

// Bytes on their way, a multiple of sixteen.
__device__ __forceinline__ void send_bytes(void* to, const void* from, u32 bytes, u64* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Whether this lane sends for its warp, all of which comes here. A loop of one lane would bring every address to the copy
// engine in a loop of its own; that of a whole warp has them where they are wanted.
__device__ __forceinline__ bool sends_for_warp() {
    u32 chosen;
    asm volatile("{ .reg .pred chosen; elect.sync _|chosen, 0xffffffff; selp.u32 %0, 1, 0, chosen; }" : "=r"(chosen));
    return chosen;
}

// Waits for the first `COUNT` threads of the block.
template <int COUNT>
__device__ __forceinline__ void meet_first_threads() {
    asm volatile("bar.sync 1, %0;" ::"n"(COUNT) : "memory");
}

// Registers of each thread of four warps, fewer or more than the kernel began with.
template <int COUNT>
__device__ __forceinline__ void give_registers_up() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
#endif
