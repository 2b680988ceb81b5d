// What four warps keep while they multiply chains of one link (f16 pairs) of a small tile.
#pragma once

#include "linear_warpgroup.cuh"
#include "pipeline.cuh"

// A tile, and the stages of its ring.
#define SPLIT_WEIGHT_BANDS 8
#define SPLIT_ROW_BANDS 12
#define SPLIT_STAGES 4

#if HAS_PIPELINES
// Adds chains while others multiply: those of a link while the next one's do, or, where registers are few, those of half of
// the rows while the other half's do.
template <bool IS_HALVED>
struct LinkWorker {
    static const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES;
    static const int PIECES = Pieces<SPLIT>::COUNT, LINK_SIZE = PIECES * 32, COUNT = IS_HALVED ? N / 2 : N;
    const uint4* ring;
    Place place;
    u64 *full, *empty;
    uint4 left[2][PIECES][2];
    float chains[2][COUNT][4];
    // Links so far.
    int turn;

    __device__ __forceinline__ LinkWorker(const uint4* stages, u64* barriers)
        : ring(stages), place(stages), full(barriers), empty(barriers + STAGES), turn(0) {}

    // The weights of a link, once they are there.
    template <int PARITY>
    __device__ __forceinline__ void load(int link) {
        wait_for_phase(full + link % STAGES, link / STAGES & 1);
        const uint4* from = ring + link % STAGES * BANDS * LINK_SIZE + threadIdx.x / 32 * 2 * LINK_SIZE + threadIdx.x % 32;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            left[PARITY][piece][0] = from[piece * 32];
            left[PARITY][piece][1] = from[LINK_SIZE + piece * 32];
        }
    }
    // Starts the chains of a link: of one half, or in one of two places.
    template <int PARITY, int WHICH>
    __device__ __forceinline__ void start(int link) {
        int first = IS_HALVED ? WHICH * COUNT : 0;
        Place rows = place + (link % STAGES * BANDS + SPLIT_WEIGHT_BANDS + first) * LINK_SIZE;
        start_in_groups<SPLIT, COUNT>(chains[WHICH], left[PARITY], rows);
    }
    template <int WHICH>
    __device__ __forceinline__ void add(float (&sums)[N][4]) const {
        const int FIRST = IS_HALVED ? WHICH * COUNT : 0;
#pragma unroll
        for (int index = 0; index < COUNT * 4; index++) sums[FIRST + index / 4][index % 4] += chains[WHICH][index / 4][index % 4];
    }
    // Gives a stage back.
    __device__ __forceinline__ void leave(int link) const {
        if (threadIdx.x % 32 == 0) arrive(empty + link % STAGES);
    }
    template <int PARITY>
    __device__ __forceinline__ void begin(int link) {
        load<PARITY>(link);
        start<PARITY, 0>(link);
        if constexpr (IS_HALVED) start<PARITY, 1>(link);
    }
    // Adds a link that was started, and starts the next, if any.
    template <int PARITY, bool IS_LAST>
    __device__ __forceinline__ void multiply(int link, float (&sums)[N][4]) {
        const int NEXT = 1 - PARITY, LEFT = IS_LAST ? 0 : 1, OWN = IS_HALVED ? 1 : PARITY;
        if constexpr (!IS_LAST) load<NEXT>(link + 1);
        if constexpr (IS_HALVED) {
            wait_for_groups<1>(chains[0]);
            add<0>(sums);
        }
        if constexpr (!IS_LAST) start<NEXT, 1 - OWN>(link + 1);
        wait_for_groups<LEFT>(chains[OWN]);
        leave(link);
        add<OWN>(sums);
        if constexpr (!IS_LAST && IS_HALVED) start<NEXT, 1>(link + 1);
    }
    // The sums of a part of so many links, which may be none.
    __device__ __forceinline__ void multiply_part(int links, float (&sums)[N][4]) {
#pragma unroll
        for (int index = 0; index < N * 4; index++) sums[index / 4][index % 4] = 0.0f;
        if (links == 0) return;
        begin<0>(turn);
        int end = turn + links;
#pragma unroll 1
        for (; turn + 2 < end; turn += 2) {
            multiply<0, false>(turn, sums);
            multiply<1, false>(turn + 1, sums);
        }
        if (turn + 1 < end) {
            multiply<0, false>(turn, sums);
            multiply<1, true>(turn + 1, sums);
        } else {
            multiply<0, true>(turn, sums);
        }
        turn = end;
    }
};
#endif
