// What four warps keep while they multiply long chains: sums in the registers of tensor cores, and a ring of stages that
// somebody fills.
//
// A stage has two links of each band of weights and of rows, so that a row of a box that is copied is a kilobyte. While
// one link multiplies, the weights of the next come to registers.
#pragma once

#include "linear_warpgroup.cuh"
#include "pipeline.cuh"

// Links of a stage, and from one of its bands to the next in pieces of sixteen bytes.
#define STAGE_LINKS 2
#define STAGE_BAND (STAGE_LINKS * 32)

#if HAS_PIPELINES
// Multiplies 64 of `WEIGHT_BANDS` bands of weights by `N` bands of rows. `refill()` is told whenever a stage was given back.
template <int FORMAT, int N, int WEIGHT_BANDS, int STAGES, typename Refill>
struct ChainWorker {
    // Stages that a chain covers at most.
    static const int BANDS = WEIGHT_BANDS + N, LONGEST = Pieces<FORMAT>::CHAIN / STAGE_LINKS;
    static_assert(Pieces<FORMAT>::TOGETHER == STAGE_LINKS, "parts are whole stages");

    const uint4* ring;
    Place place;
    u64 *full, *empty;
    Refill refill;
    RingPlace<STAGES> next;
    // Stages that are left to be multiplied.
    int stages;
    uint4 left[STAGE_LINKS][1][2], loaded[2];
    // As `copy_operand` wants it.
    u32 byte_order;
    float chain[N][4];

    __device__ __forceinline__ ChainWorker(const uint4* memory, u64* barriers, Refill filler)
        : ring(memory), place(memory), full(barriers), empty(barriers + STAGES), refill(filler), byte_order(0x3210 | (blockDim.y - 1)) {}

    // The weights of a link of the stage that is there.
    __device__ __forceinline__ void load(int link) {
        const uint4* weights = ring + next.stage * BANDS * STAGE_BAND + link * 32 + threadIdx.x / 32 * 2 * STAGE_BAND + threadIdx.x % 32;
        loaded[0] = weights[0];
        loaded[1] = weights[STAGE_BAND];
    }
    // Puts them where a product reads them, once that of the stage before is done.
    __device__ __forceinline__ void take(int link) {
        left[link][0][0] = copy_operand(loaded[0], byte_order);
        left[link][0][1] = copy_operand(loaded[1], byte_order);
    }
    __device__ __forceinline__ void start(int link, bool continues, float (&sums)[N][4]) {
        Place rows = place + next.stage * BANDS * STAGE_BAND + link * 32 + WEIGHT_BANDS * STAGE_BAND;
        start_in_groups<FORMAT, N, STAGE_BAND>(sums, left[link], rows, continues);
    }
    // Gives a stage back.
    __device__ __forceinline__ void leave(int which) {
        if (threadIdx.x % 32 == 0) arrive(empty + which);
    }
    // Waits for the first link of a stage.
    __device__ __forceinline__ void open() {
        wait_for_phase(full + next.stage, next.parity);
        load(0);
    }
    // Before the first chain of some stages, at least one.
    __device__ __forceinline__ void begin(int count) {
        stages = count;
        open();
    }
    // The sums of a chain of some stages, at least one.
    __device__ __forceinline__ void multiply_chain(int length, float (&sums)[N][4]) {
        stages -= length;
        take(0);
        start(0, false, sums);
        load(1);
        take(1);
        start(1, true, sums);
        int before = next.stage;
#pragma unroll 1
        for (; length > 1; length--) {
            next.pass();
            wait_for_phase(full + next.stage, next.parity);
            load(0);
            wait_for_groups<1>();
            take(0);
            start(0, true, sums);
            load(1);
            wait_for_groups<1>();
            leave(before);
            take(1);
            start(1, true, sums);
            refill();
            before = next.stage;
        }
        next.pass();
        // The next chain begins as soon as this one is added.
        if (stages > 0) open();
        wait_for_groups<0>(sums);
        leave(before);
        refill();
    }
    // The sums of a part of some stages, at least one. The first chain is made in their place where the compiler has
    // registers to follow that.
    __device__ __forceinline__ void multiply_part(int length, float (&sums)[N][4]) {
        const bool IN_PLACE = N <= 12;
        auto chain_length = [&] { return length < LONGEST ? length : LONGEST; };
        if (IN_PLACE) {
            multiply_chain(chain_length(), sums);
            length -= LONGEST;
        } else {
            clear(sums);
        }
#pragma unroll 1
        for (; length > 0; length -= LONGEST) {
            multiply_chain(chain_length(), chain);
            add(sums, chain);
        }
    }

    static __device__ __forceinline__ void add(float (&to)[N][4], const float (&from)[N][4]) {
#pragma unroll
        for (int index = 0; index < N * 4; index++) to[index / 4][index % 4] += from[index / 4][index % 4];
    }
    static __device__ __forceinline__ void clear(float (&sums)[N][4]) {
#pragma unroll
        for (int index = 0; index < N * 4; index++) sums[index / 4][index % 4] = 0.0f;
    }
};

// Stages of a part.
__device__ inline int stages_of_part(int part, int links) {
    int stages = (links + STAGE_LINKS - 1) / STAGE_LINKS;
    return stages * (part + 1) / PARTS - stages * part / PARTS;
}
#endif
