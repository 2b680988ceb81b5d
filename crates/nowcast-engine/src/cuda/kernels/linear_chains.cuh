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
    u64 *full, *empty;
    Refill refill;
    // The stage that comes next, and the parity of its phase.
    int stage, parity;
    uint4 left[STAGE_LINKS][1][2];
    float chain[N][4];

    __device__ __forceinline__ ChainWorker(const uint4* stages, u64* barriers, Refill filler)
        : ring(stages), full(barriers), empty(barriers + STAGES), refill(filler), stage(0), parity(0) {}

    // Starts the product of a link of the stage that is there, once that of the stage before is done.
    __device__ __forceinline__ void start(int link, bool continues) {
        const uint4* here = ring + stage * BANDS * STAGE_BAND + link * 32;
        const uint4* weights = here + threadIdx.x / 32 * 2 * STAGE_BAND + threadIdx.x % 32;
        left[link][0][0] = weights[0];
        left[link][0][1] = weights[STAGE_BAND];
        start_in_groups<FORMAT, N, STAGE_BAND>(chain, left[link], here + WEIGHT_BANDS * STAGE_BAND, continues);
    }
    __device__ __forceinline__ void pass() {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
    // Gives the stage before back.
    __device__ __forceinline__ void leave() {
        if (threadIdx.x % 32 == 0) arrive(empty + (stage > 0 ? stage - 1 : STAGES - 1));
    }
    // The sums of a chain of some stages, at least one, in `chain`.
    __device__ __forceinline__ void multiply_chain(int length) {
        wait_for_phase(full + stage, parity);
        start(0, false);
        start(1, true);
#pragma unroll 1
        for (; length > 1; length--) {
            pass();
            wait_for_phase(full + stage, parity);
            wait_for_groups<1>();
            start(0, true);
            wait_for_groups<1>();
            leave();
            start(1, true);
            refill();
        }
        pass();
        wait_for_groups<0>(chain);
        leave();
        refill();
    }
    // The sums of a part of some stages, which may be none.
    __device__ __forceinline__ void multiply_part(int length, float (&sums)[N][4]) {
        clear(sums);
#pragma unroll 1
        for (; length > 0; length -= LONGEST) {
            multiply_chain(length < LONGEST ? length : LONGEST);
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
