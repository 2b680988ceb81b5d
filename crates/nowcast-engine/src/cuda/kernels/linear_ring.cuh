// Products of many rows, as fast as tensor cores go: 128 weights times up to 176 rows for each multiprocessor.
//
// One thread keeps a ring of links on its way, two groups of four warps multiply what has come. A group's rows are two
// halves: while one half multiplies, the chains of the other are added. A block does one tile after the other, so that
// the ring fills while results are written.
#pragma once

#include "linear_blocked.cuh"
#include "linear_warpgroup.cuh"
#include "pipeline.cuh"

#define RING_WORKERS 256
#define RING_THREADS 384

struct RingProduct {
    // `weight` of the product in boxes of one link of sixteen bands, in words.
    Map weights;
    // `row_fragments`, as many bands as a tile has.
    Map values;
    Product product;
    // To a whole number of alignments of `Map`.
    u64 reserved[6];
};

// Links on their way for pairs of f16; the others have room for twice as many.
template <int N>
struct RingStages {
    static const int COUNT = N == 22 ? 3 : N == 16 ? 4 : 6;
};

#if HAS_PIPELINES
// Chains of half of a group's rows, of the link at hand.
template <int FORMAT, int N>
struct Half {
    float chains[N][4];

    __device__ __forceinline__ void start(const uint4 (*left)[2], const uint4* right) {
        start_in_groups<FORMAT, N>(chains, left, right);
    }
    __device__ __forceinline__ void add_to(float (*totals)[4]) {
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int which = 0; which < 4; which++) totals[n][which] += chains[n][which];
        }
    }
};

// Tile: 128 weights, the inner index, times `N` bands of rows. Grid: as many blocks as multiprocessors, or tiles.
template <int FORMAT, int N>
__device__ __forceinline__ void multiply_ring(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    const int STAGES = RingStages<N>::COUNT * (FORMAT == SPLIT ? 1 : 2);
    const int PIECES = Pieces<FORMAT>::COUNT, LINK_SIZE = PIECES * 32, HALF = N / 2;
    const int WEIGHT_BANDS = 16, BANDS = WEIGHT_BANDS + N, WIDTH = WEIGHT_BANDS * BAND, ROWS = N * BAND, STRIDE = WIDTH + 4;
    SHARED_MEMORY(memory);
    uint4* ring = reinterpret_cast<uint4*>(memory);
    float* sums = memory + STAGES * BANDS * LINK_SIZE * 4;
    float* row_scales = sums + ROWS * STRIDE;
    u64* full = reinterpret_cast<u64*>(row_scales + ROWS);
    u64* empty = full + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            prepare_barrier(full + stage, 1);
            prepare_barrier(empty + stage, RING_WORKERS / 32);
        }
        publish_barriers();
    }
    __syncthreads();
    int rows = count(call.rows, call.live);
    int across = (call.end_band - call.first_band + WEIGHT_BANDS - 1) / WEIGHT_BANDS;
    int tiles = across * ((rows + ROWS - 1) / ROWS);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp >= RING_WORKERS / 32) {
        give_registers_up<40>();
        if (threadIdx.x > RING_WORKERS) return wait_for_previous();
        auto send_weights = [&](int stage, int link, int first_band) {
            expect_bytes(full + stage, BANDS * LINK_SIZE * 16);
            send_box(ring + stage * BANDS * LINK_SIZE, ring_call.weights, link * LINK_SIZE * 4, first_band, full + stage);
        };
        // Weights need not wait for the kernel before.
        int ahead = (int)blockIdx.x < tiles ? call.links < STAGES ? call.links : STAGES : 0;
        for (int link = 0; link < ahead; link++) {
            send_weights(link, link, call.first_band + (int)blockIdx.x % across * WEIGHT_BANDS);
        }
        wait_for_previous();
        int turn = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int first_row_band = tile / across * N, first_band = call.first_band + tile % across * WEIGHT_BANDS;
            for (int link = 0; link < call.links; link++, turn++) {
                int stage = turn % STAGES, round = turn / STAGES;
                if (round > 0) wait_for_phase(empty + stage, (round - 1) & 1);
                if (turn >= ahead) send_weights(stage, link, first_band);
                uint4* to = ring + (stage * BANDS + WEIGHT_BANDS) * LINK_SIZE;
                send_box(to, ring_call.values, link * LINK_SIZE * 4, first_row_band, full + stage);
            }
        }
        return;
    }
    take_registers<232>();
    wait_for_previous();
    int turn = 0;
    // The sum of the parts so far: in registers where there is room, else in the shared memory of the results.
    const bool KEEPS = N <= 16;
    float kept[KEEPS ? N * 4 : 1];
    float* parked = sums + threadIdx.x;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int first_row = tile / across * ROWS, first_band = call.first_band + tile % across * WEIGHT_BANDS;
        int tile_rows = rows - first_row < ROWS ? rows - first_row : ROWS;
        if ((int)threadIdx.x < tile_rows) row_scales[threadIdx.x] = call.row_scale[first_row + threadIdx.x];
        float totals[N][4];
        Half<FORMAT, HALF> first, second;
#pragma unroll
        for (int n = 0; n < N; n++) totals[n][0] = totals[n][1] = totals[n][2] = totals[n][3] = 0.0f;
        int part = 0;
#pragma unroll 1
        for (int link = 0; link < call.links; link++, turn++) {
            int stage = turn % STAGES;
            wait_for_phase(full + stage, turn / STAGES & 1);
            const uint4* from = ring + stage * BANDS * LINK_SIZE;
            const uint4* weights = from + warp * 2 * LINK_SIZE + lane;
            uint4 left[PIECES][2];
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                left[piece][0] = weights[piece * 32];
                left[piece][1] = weights[LINK_SIZE + piece * 32];
            }
            first.start(left, from + WEIGHT_BANDS * LINK_SIZE);
            second.start(left, from + (WEIGHT_BANDS + HALF) * LINK_SIZE);
            wait_for_groups<1>(first.chains);
            first.add_to(totals);
            wait_for_groups<0>(second.chains);
            if (lane == 0) arrive(empty + stage);
            second.add_to(totals + HALF);
            bool ends_part = link + 1 == part_start(part + 1, call.links) && part + 1 < PARTS;
            if (!ends_part) continue;
#pragma unroll
            for (int index = 0; index < N * 4; index++) {
                float* sum = &totals[index / 4][index % 4];
                float* all = KEEPS ? kept + index : parked + index * RING_WORKERS;
                *all = part == 0 ? *sum : *all + *sum;
                *sum = 0.0f;
            }
            part++;
        }
        if (part > 0) {
#pragma unroll
            for (int index = 0; index < N * 4; index++) {
                float* sum = &totals[index / 4][index % 4];
                *sum = (KEEPS ? kept[index] : parked[index * RING_WORKERS]) + *sum;
            }
        }
        meet_first_threads<RING_WORKERS>();
#pragma unroll
        for (int index = 0; index < N * 4; index++) {
            int row = index / 4 * BAND + lane % 4 * 2 + index % 2;
            int column = (warp * 2 + index % 4 / 2) * BAND + lane / 4;
            sums[row * STRIDE + column] = totals[index / 4][index % 4];
        }
        meet_first_threads<RING_WORKERS>();
        const float* const places[1] = {sums};
        if (call.gated) {
            finish_rows<WIDTH, 1, RING_WORKERS, true>(call, places, row_scales, first_row, tile_rows, first_band);
        } else {
            finish_rows<WIDTH, 1, RING_WORKERS, false>(call, places, row_scales, first_row, tile_rows, first_band);
        }
        meet_first_threads<RING_WORKERS>();
    }
}
#endif

#if HAS_PIPELINES
#define MULTIPLY_RING(FORMAT, N) multiply_ring<FORMAT, N>(call)
#else
#define MULTIPLY_RING(FORMAT, N)
#endif
