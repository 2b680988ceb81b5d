// Products of some hundred rows: small tiles, two of them on a multiprocessor, and where these are few, clusters whose
// blocks share out the parts of the links.
//
// As in `linear_ring.cuh` one thread keeps a ring on its way, here one of the four warps that multiply: a warp more would
// cost registers. The sums take the ring's place; every block finishes a share of the rows with the sums of all.
#pragma once

#include "cluster.cuh"
#include "linear_chains.cuh"
#include "linear_ring.cuh"

#define SPLIT_THREADS 128
#define SPLIT_WEIGHT_BANDS 8
#define SPLIT_ROW_BANDS 12
#define SPLIT_STAGES 5

#if HAS_PIPELINES
// How four warps multiply the parts of a block.
template <int FORMAT>
struct SplitRing {
    static const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES;

    const uint4* ring;
    u64* full;
    // Own links, all links, own parts.
    int start, links, all_links, first_part, parts;

    // Adds the last part to `totals` and those before it to `before`; `refill(turn)` sends a stage.
    template <typename Refill>
    __device__ __forceinline__ void multiply(float (&before)[N][4], float (&totals)[N][4], Refill refill) const {
        if constexpr (FORMAT == SPLIT) {
            multiply_links(before, totals, refill);
        } else {
            multiply_chains(before, totals, refill);
        }
    }

    // Chains of many links.
    template <typename Refill>
    __device__ __forceinline__ void multiply_chains(float (&before)[N][4], float (&totals)[N][4], Refill refill) const {
        int turns = (links + STAGE_LINKS - 1) / STAGE_LINKS, sent = turns < STAGES ? turns : STAGES;
        auto send_next = [&] {
            if (sent < turns && threadIdx.x < 32) refill(sent);
            sent++;
        };
        ChainWorker<FORMAT, N, SPLIT_WEIGHT_BANDS, STAGES, decltype(send_next)> worker(ring, full, send_next);
#pragma unroll 1
        for (int part = first_part; part + 1 < first_part + parts; part++) {
            worker.multiply_part(stages_of_part(part, all_links), totals);
            worker.add(before, totals);
        }
        worker.multiply_part(stages_of_part(first_part + parts - 1, all_links), totals);
    }

    // Chains of one link. While one half of the rows multiplies, the chains of the other are added; the next link starts
    // before this one ends.
    template <typename Refill>
    __device__ __forceinline__ void multiply_links(float (&before)[N][4], float (&totals)[N][4], Refill refill) const {
        const int HALF = N / 2, PIECES = Pieces<FORMAT>::COUNT, LINK_SIZE = PIECES * 32;
        u64* empty = full + STAGES;
        float first[HALF][4], second[HALF][4];
        uint4 left[PIECES][2], next_left[PIECES][2];
        auto stage_of = [&](int link) { return ring + link % STAGES * BANDS * LINK_SIZE; };
        auto await = [&](int link, uint4 (&weights)[PIECES][2]) {
            wait_for_phase(full + link % STAGES, link / STAGES & 1);
            const uint4* from = stage_of(link) + threadIdx.x / 32 * 2 * LINK_SIZE + threadIdx.x % 32;
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                weights[piece][0] = from[piece * 32];
                weights[piece][1] = from[LINK_SIZE + piece * 32];
            }
        };
        auto start_half = [&](int link, int half, float (&chains)[HALF][4], const uint4 (&weights)[PIECES][2]) {
            start_in_groups<FORMAT, HALF>(chains, weights, stage_of(link) + (SPLIT_WEIGHT_BANDS + half * HALF) * LINK_SIZE);
        };
        auto add = [&](float (&sums)[N][4], int half, const float (&chains)[HALF][4]) {
#pragma unroll
            for (int index = 0; index < HALF * 4; index++) sums[half * HALF + index / 4][index % 4] += chains[index / 4][index % 4];
        };
        int part = first_part;
        // The sums of the parts so far. A block of one part never ends it here, but without the branch the compiler takes all
        // links for one stage of its pipeline, and finds no registers.
        auto end_part = [&](int link) {
            if (start + link == part_start<FORMAT>(part + 1, all_links)) {
#pragma unroll
                for (int index = 0; index < N * 4; index++) {
                    before[index / 4][index % 4] += totals[index / 4][index % 4];
                    totals[index / 4][index % 4] = 0.0f;
                }
                part++;
            }
        };
        auto multiply = [&](int link, const uint4 (&weights)[PIECES][2], uint4 (&next_weights)[PIECES][2]) {
            end_part(link);
            // The stage of the link before is free for another one.
            int next = link - 1 + STAGES;
            if (link > 0 && next < links) refill(next);
            start_half(link, 1, second, weights);
            await(link + 1, next_weights);
            wait_for_groups<1>(first);
            add(totals, 0, first);
            start_half(link + 1, 0, first, next_weights);
            wait_for_groups<1>(second);
            if (threadIdx.x % 32 == 0) arrive(empty + link % STAGES);
            add(totals, 1, second);
        };
        auto multiply_last = [&](int link, const uint4 (&weights)[PIECES][2]) {
            end_part(link);
            start_half(link, 1, second, weights);
            wait_for_groups<1>(first);
            add(totals, 0, first);
            wait_for_groups<0>(second);
            add(totals, 1, second);
        };
        await(0, left);
        start_half(0, 0, first, left);
        int link = 0;
#pragma unroll 1
        for (; link + 2 < links; link += 2) {
            multiply(link, left, next_left);
            multiply(link + 1, next_left, left);
        }
        if (link + 1 < links) {
            multiply(link, left, next_left);
            multiply_last(link + 1, next_left);
        } else {
            multiply_last(link, left);
        }
    }
};

// Tile: 64 weights, the inner index, times 96 rows. Grid: tiles, `BLOCKS` for each.
template <int FORMAT, int BLOCKS>
__device__ __forceinline__ void multiply_split_ring(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES;
    // Of a stage: one link of f16 pairs, two of the others.
    const int TOGETHER = Pieces<FORMAT>::TOGETHER, BAND_SIZE = TOGETHER * Pieces<FORMAT>::COUNT * 32;
    const int LINK_WORDS = Pieces<FORMAT>::COUNT * 128, WIDTH = SPLIT_WEIGHT_BANDS * BAND, ROWS = N * BAND, STRIDE = WIDTH + 4;
    const int OWN_PARTS = PARTS / BLOCKS, FINISHED_ROWS = ROWS / BLOCKS;
    static_assert(STAGES * BANDS * BAND_SIZE * 4 >= 2 * ROWS * STRIDE, "the sums take the ring's place");
    SHARED_MEMORY(memory);
    uint4* ring = reinterpret_cast<uint4*>(memory);
    float* row_scales = memory + STAGES * BANDS * BAND_SIZE * 4;
    u64* full = reinterpret_cast<u64*>(row_scales + ROWS);
    u64* empty = full + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            prepare_barrier(full + stage, 1);
            prepare_barrier(empty + stage, SPLIT_THREADS / 32);
        }
        publish_barriers();
    }
    __syncthreads();
    int tile = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS;
    int across = (call.end_band - call.first_band + SPLIT_WEIGHT_BANDS - 1) / SPLIT_WEIGHT_BANDS;
    int first_row_band = tile / across * N, first_row = first_row_band * BAND;
    int first_band = call.first_band + tile % across * SPLIT_WEIGHT_BANDS;
    int start = part_start<FORMAT>(rank * OWN_PARTS, call.links), links = part_start<FORMAT>((rank + 1) * OWN_PARTS, call.links) - start;
    int turns = (links + TOGETHER - 1) / TOGETHER;
    int rows = count(call.rows, call.live);
    // All blocks of the cluster leave together.
    if (first_row >= rows) return wait_for_previous();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto send_weights = [&](int turn) {
        u64* barrier = full + turn % STAGES;
        expect_bytes(barrier, BANDS * BAND_SIZE * 16);
        uint4* to = ring + turn % STAGES * BANDS * BAND_SIZE;
        send_box(to, ring_call.weights, start * LINK_WORDS + turn * BAND_SIZE * 4, first_band, barrier);
    };
    auto send_values = [&](int turn) {
        uint4* to = ring + (turn % STAGES * BANDS + SPLIT_WEIGHT_BANDS) * BAND_SIZE;
        send_box(to, ring_call.values, start * LINK_WORDS + turn * BAND_SIZE * 4, first_row_band, full + turn % STAGES);
    };
    int ahead = turns < STAGES ? turns : STAGES;
    // Weights need not wait for the kernel before.
    for (int turn = 0; turn < ahead && threadIdx.x == 0; turn++) send_weights(turn);
    wait_for_previous();
    for (int turn = 0; turn < ahead && threadIdx.x == 0; turn++) send_values(turn);
    int tile_rows = rows - first_row < ROWS ? rows - first_row : ROWS;
    if ((int)threadIdx.x < tile_rows) row_scales[threadIdx.x] = scale_at(call, first_row + threadIdx.x);
    float totals[N][4], before[N][4];
#pragma unroll
    for (int index = 0; index < N * 4; index++) totals[index / 4][index % 4] = before[index / 4][index % 4] = 0.0f;
    auto refill = [&](int turn) {
        wait_for_phase(empty + turn % STAGES, (turn / STAGES - 1) & 1);
        if (threadIdx.x == 0) send_weights(turn), send_values(turn);
    };
    SplitRing<FORMAT> own = {ring, full, start, links, call.links, rank * OWN_PARTS, OWN_PARTS};
    own.multiply(before, totals, refill);
    // The first block's sum is that of all its parts; another's two parts are added by whoever finishes.
    __syncthreads();
#pragma unroll
    for (int index = 0; index < N * 4; index++) {
        int row = index / 4 * BAND + lane % 4 * 2 + index % 2;
        int column = (warp * 2 + index % 4 / 2) * BAND + lane / 4;
        float sum = totals[index / 4][index % 4], earlier = before[index / 4][index % 4];
        if (OWN_PARTS > 1 && rank == 0) sum = earlier + sum;
        if (OWN_PARTS > 1 && rank > 0) memory[(ROWS + row) * STRIDE + column] = earlier;
        memory[row * STRIDE + column] = sum;
    }
    const int DEPTH = BLOCKS == 2 ? 3 : BLOCKS;
    int own_row = rank * FINISHED_ROWS;
    int own_rows = tile_rows - own_row < FINISHED_ROWS ? tile_rows - own_row : FINISHED_ROWS;
    Sums<DEPTH> sums = {{}, row_scales + own_row, first_row + own_row, own_rows, first_band};
    if (BLOCKS > 1) arrive_in_cluster();
#pragma unroll
    for (int depth = 0; depth < DEPTH; depth++) {
        // Of two blocks, the second has the third part and the fourth.
        int peer = BLOCKS == 2 && depth > 0 ? 1 : depth, second_place = BLOCKS == 2 && depth == 1;
        float* own = memory + (own_row + (second_place ? ROWS : 0)) * STRIDE;
        sums.places[depth] = BLOCKS == 1 ? own : in_peer(own, peer);
    }
    auto meet = [] {
        if (BLOCKS > 1) {
            wait_in_cluster();
        } else {
            __syncthreads();
        }
    };
    typedef Finishing<FINISHED_ROWS, WIDTH, SPLIT_THREADS, true> Finishing;
    if (FORMAT == BRAIN && call.cuts_results) {
        finish_columns<FORMAT, Finishing, DEPTH, true, 4, FORMAT == BRAIN>(call, sums, meet);
    } else {
        finish_rows<FORMAT, Finishing, 4>(call, sums, meet);
    }
    // Nobody leaves while others read its sums.
    if (BLOCKS > 1) {
        arrive_in_cluster();
        wait_in_cluster();
    }
}
#endif

#if HAS_PIPELINES
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS) multiply_split_ring<FORMAT, BLOCKS>(call)
#else
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS)
#endif
