// Bands of weights times eight rows, both in shared memory, by the warps of a block.
#pragma once

#include "linear_cut.cuh"

#define STREAM_WARPS (BAND_THREADS / 32)
// Links that a warp multiplies by at once.
#define LINKS_TOGETHER 6

// Where a warp's lane finds its fragments of a step of rows: odd steps (links, of one piece) stand turned by 64 bytes, so
// that lanes of neighbouring steps write to different banks.
template <int FORMAT>
__device__ __forceinline__ int turned(int lane, int step) {
    return lane ^ (FORMAT == SPLIT ? step : step / STEPS) % 2 * 4;
}

// Operands of one link of eight rows and of one band of weights, or two.
struct LinkOperands {
    uint4 low, high, right;

    template <int FORMAT>
    __device__ __forceinline__ void load(const uint4* low_band, const uint4* high_band, const uint4* values, int link, int piece) {
        int lane = threadIdx.x % 32, place = (link * Pieces<FORMAT>::COUNT + piece) * 32;
        low = low_band[place + lane];
        high = high_band ? high_band[place + lane] : make_uint4(0, 0, 0, 0);
        right = values[place + turned<FORMAT>(lane, link * STEPS + piece)];
    }
};

// Multiplies one band of weights, or two, by eight rows; `take(link, chain)` gets the sums of each link, in order: chains of
// some links are made side by side.
template <int FORMAT, typename Take>
__device__ __forceinline__ void multiply_links(const uint4* low, const uint4* high, const uint4* values, int start, int end,
                                               Take take) {
    const int PIECES = Pieces<FORMAT>::COUNT, TOGETHER = LINKS_TOGETHER;
#pragma unroll 1
    for (int first = start; first < end; first += TOGETHER) {
        float chains[TOGETHER][4];
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            chains[next][0] = chains[next][1] = chains[next][2] = chains[next][3] = 0.0f;
        }
        // One after the other: registers for both at once spill with some compilers, which costs more (0.4 us a launch).
#pragma unroll 1
        for (int piece = 0; piece < PIECES; piece++) {
            LinkOperands operands[TOGETHER];
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                int link = first + next < end ? first + next : end - 1;
                operands[next].template load<FORMAT>(low, high, values, link, piece);
            }
#pragma unroll
            for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
#pragma unroll
                for (int next = 0; next < TOGETHER; next++) {
                    const LinkOperands& own = operands[next];
                    multiply_round<FORMAT>(round, chains[next], own.low, own.high, own.right);
                }
            }
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            if (first + next < end) take(first + next, chains[next]);
        }
    }
}

// The same with chains of many links, each with its first link: the operands of the next are on their way meanwhile.
template <int FORMAT, typename Take>
__device__ __forceinline__ void multiply_chains(const uint4* low, const uint4* high, const uint4* values, int start, int end,
                                                Take take) {
    const int CHAIN = Pieces<FORMAT>::CHAIN, TOGETHER = Pieces<FORMAT>::TOGETHER;
    LinkOperands operands[TOGETHER], next[TOGETHER];
    // Behind the last link there are zeros, which leave a sum as it is.
    auto load = [&](LinkOperands (&to)[TOGETHER], int link) {
#pragma unroll
        for (int place = 0; place < TOGETHER; place++) {
            to[place].template load<FORMAT>(low, high, values, link + place < end ? link + place : end - 1, 0);
            if (link + place >= end) to[place].right = make_uint4(0, 0, 0, 0);
        }
    };
    if (start < end) load(operands, start);
#pragma unroll 1
    for (int first = start; first < end; first += CHAIN) {
        float chain[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int chain_end = first + CHAIN < end ? first + CHAIN : end;
#pragma unroll 2
        for (int link = first; link < chain_end; link += TOGETHER) {
            load(next, link + TOGETHER);
#pragma unroll
            for (int place = 0; place < TOGETHER; place++) {
#pragma unroll
                for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
                    const LinkOperands& own = operands[place];
                    multiply_round<FORMAT>(round, chain, own.low, own.high, own.right);
                }
                operands[place] = next[place];
            }
        }
        take(first, chain);
    }
}

// As either of them does it for a format.
template <int FORMAT, typename Take>
__device__ __forceinline__ void multiply_in_chains(const uint4* low, const uint4* high, const uint4* values, int start, int end,
                                                   Take take) {
    if constexpr (Pieces<FORMAT>::CHAIN == 1) {
        multiply_links<FORMAT>(low, high, values, start, end, take);
    } else {
        multiply_chains<FORMAT>(low, high, values, start, end, take);
    }
}

// Where a lane's results stand among those of a band, `[columns, rows]`: two rows of one column.
__device__ __forceinline__ float2* own_results(float* band) {
    return reinterpret_cast<float2*>(band + threadIdx.x % 32 * 2);
}

// A warp's sums of one part of the links take the place of the weights that it alone has read: two kernels share a
// multiprocessor, and the weights of a large one leave little room.
__device__ __forceinline__ void leave_sums(uint4* low, bool has_high, int band_size, const float (&sums)[4]) {
    float* place = reinterpret_cast<float*>(low);
    *own_results(place) = make_float2(sums[0], sums[1]);
    if (has_high) *own_results(place + band_size * 4) = make_float2(sums[2], sums[3]);
}

// Every warp multiplies one part of the links of some bands, pair by pair.
template <int FORMAT>
__device__ __forceinline__ void multiply_pairs(uint4* weights, int bands, int links, const uint4* values) {
    const int LINK_SIZE = Pieces<FORMAT>::COUNT * 32;
    int warp = threadIdx.x / 32, part = warp % PARTS, band_size = links * LINK_SIZE;
    int start = part_start<FORMAT>(part, links), end = part_start<FORMAT>(part + 1, links);
#pragma unroll 1
    for (int band = warp / PARTS * 2; band < bands; band += STREAM_WARPS / PARTS * 2) {
        uint4* low = weights + band * band_size;
        bool has_high = band + 1 < bands;
        float totals[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        auto add = [&](int, const float(&chain)[4]) {
#pragma unroll
            for (int which = 0; which < 4; which++) totals[which] += chain[which];
        };
        multiply_in_chains<FORMAT>(low, has_high ? low + band_size : nullptr, values, start, end, add);
        __syncwarp();
        // Where links stay together, parts may be empty, and have no place then.
        if (Pieces<FORMAT>::TOGETHER > 1 && start == end) continue;
        leave_sums(low + start * LINK_SIZE, has_high, band_size, totals);
    }
}

// The same for chains of many links and for more bands: a chain waits for itself at every step, so that two pairs side by
// side take no longer than one.
template <int FORMAT>
__device__ __forceinline__ void multiply_side_by_side(uint4* weights, int bands, int links, const uint4* values) {
    const int CHAIN = Pieces<FORMAT>::CHAIN, PAIRS = 2, SIDE_BY_SIDE = 2 * PAIRS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % PARTS, band_size = links * 32;
    int start = part_start<FORMAT>(part, links), end = part_start<FORMAT>(part + 1, links);
    // Half of the warps take half of the bands.
    int half = (bands + 1) / 2, last = warp < PARTS ? half : bands;
#pragma unroll 1
    for (int band = warp / PARTS * half; band < last && start < end; band += SIDE_BY_SIDE) {
        uint4* own = weights + band * band_size;
        int count = last - band;
        float totals[PAIRS][4] = {};
#pragma unroll 1
        for (int first = start; first < end; first += CHAIN) {
            int chain_end = first + CHAIN < end ? first + CHAIN : end;
            float chains[PAIRS][4] = {};
#pragma unroll 2
            for (int link = first; link < chain_end; link++) {
                uint4 right = values[link * 32 + turned<FORMAT>(lane, link * STEPS)], left[SIDE_BY_SIDE];
#pragma unroll
                for (int which = 0; which < SIDE_BY_SIDE; which++) {
                    left[which] = which < count ? own[which * band_size + link * 32 + lane] : make_uint4(0, 0, 0, 0);
                }
#pragma unroll
                for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
#pragma unroll
                    for (int pair = 0; pair < PAIRS; pair++) {
                        multiply_round<FORMAT>(round, chains[pair], left[pair * 2], left[pair * 2 + 1], right);
                    }
                }
            }
#pragma unroll
            for (int place = 0; place < PAIRS * 4; place++) totals[place / 4][place % 4] += chains[place / 4][place % 4];
        }
        __syncwarp();
        uint4* place = own + start * 32;
        leave_sums(place, count > 1, band_size, totals[0]);
        if (count > 2) leave_sums(place + 2 * band_size, count > 3, band_size, totals[1]);
    }
}

// The sum of the parts that warps have left in the place of a band's weights, of a thread's row and column.
template <int FORMAT>
__device__ __forceinline__ float total_of_parts(const uint4* band, int links) {
    const float* place = reinterpret_cast<const float*>(band) + threadIdx.x % BAND * BAND + threadIdx.x / BAND % BAND;
    auto is_empty = [&](int part) {
        return Pieces<FORMAT>::TOGETHER > 1 && part_start<FORMAT>(part, links) == part_start<FORMAT>(part + 1, links);
    };
    float sum = is_empty(0) ? 0.0f : place[0];
#pragma unroll
    for (int next = 1; next < PARTS; next++) {
        if (!is_empty(next)) sum += place[part_start<FORMAT>(next, links) * Pieces<FORMAT>::COUNT * 128];
    }
    return sum;
}
