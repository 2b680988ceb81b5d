// Products of many rows where each pair of values is one product of tensor cores: 128 weights times up to 176 rows for each
// multiprocessor.
//
// As in `linear_ring.cuh`, one thread keeps a ring on its way, two groups of four warps multiply what has come, and a block
// does one tile after the other. Chains are long here: their sums stay where they are, and results go from registers to
// memory, so that all shared memory is the ring's.
#pragma once

#include "linear_chains.cuh"
#include "linear_finish.cuh"
#include "linear_ring.cuh"
#include "linear_scales.cuh"

template <int N>
struct WideStages {
    static const int COUNT = N == 22 ? 5 : N == 16 ? 6 : 7;
};

#if HAS_PIPELINES
// The sums of a tile, part by part; what comes first is made in the place of the sum.
template <int N, typename Worker>
__device__ __forceinline__ void multiply_wide_tile(Worker& worker, int links, float (&sums)[N][4]) {
    // A third set of sums finds registers for up to 128 rows; tiles of more are for parts of one chain.
    const bool HAS_LONG_PARTS = N <= 16;
    int part = 0;
    worker.begin((links + STAGE_LINKS - 1) / STAGE_LINKS);
    while (stages_of_part(part, links) == 0) part++;
    if (HAS_LONG_PARTS && stages_of_part(PARTS - 1, links) > Worker::LONGEST) {
        Worker::clear(sums);
#pragma unroll 1
        for (; part < PARTS; part++) {
            float part_sums[N][4];
            worker.multiply_part(stages_of_part(part, links), part_sums);
            Worker::add(sums, part_sums);
        }
    } else {
        worker.multiply_chain(stages_of_part(part, links), sums);
#pragma unroll 1
        for (part++; part < PARTS; part++) {
            worker.multiply_chain(stages_of_part(part, links), worker.chain);
            Worker::add(sums, worker.chain);
        }
    }
}

// Tile: 128 weights, the inner index, times `N` bands of rows. Grid: as many blocks as multiprocessors, or tiles.
template <int FORMAT, int N>
__device__ __forceinline__ void multiply_wide(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    const int STAGES = WideStages<N>::COUNT, WEIGHT_BANDS = RING_WEIGHT_BANDS, BANDS = WEIGHT_BANDS + N, ROWS = N * BAND;
    const int WARPS = RING_WORKERS / 32;
    SHARED_MEMORY(memory);
    uint4* ring = reinterpret_cast<uint4*>(memory);
    float* row_scales = memory + STAGES * BANDS * STAGE_BAND * 4;
    u64* full = reinterpret_cast<u64*>(row_scales + 2 * ROWS);
    u64* empty = full + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            prepare_barrier(full + stage, 1);
            prepare_barrier(empty + stage, WARPS);
        }
        publish_barriers();
    }
    ScaleRing<ROWS, WARPS> scales(call, row_scales, empty + STAGES);
    scales.prepare(Pieces<FORMAT>::IS_SCALED ? call.row_unit : 1.0f);
    __syncthreads();
    int rows = count(call.rows, call.live);
    int across = (call.end_band - call.first_band + WEIGHT_BANDS - 1) / WEIGHT_BANDS;
    int tiles = across * ((rows + ROWS - 1) / ROWS), turns = (call.links + STAGE_LINKS - 1) / STAGE_LINKS;
    int warp = threadIdx.x / 32;
    auto rows_of = [&](int first_row) { return rows - first_row < ROWS ? rows - first_row : ROWS; };
    auto first_band_of = [&](int tile) { return call.first_band + tile % across * WEIGHT_BANDS; };
    if (warp >= WARPS) {
        give_registers_up<40>();
        if (warp > WARPS) return wait_for_previous();
        bool sends = sends_for_warp();
        if (sends) expect_map(ring_call.values);
        auto send_weights = [&](int stage, int turn, int first_band) {
            expect_bytes(full + stage, BANDS * STAGE_BAND * 16);
            send_box(ring + stage * BANDS * STAGE_BAND, ring_call.weights, turn * STAGE_BAND * 4, first_band, full + stage);
        };
        // Weights need not wait for the kernel before.
        int ahead = (int)blockIdx.x < tiles ? turns < STAGES ? turns : STAGES : 0;
        if (sends) {
            for (int turn = 0; turn < ahead; turn++) send_weights(turn, turn, first_band_of(blockIdx.x));
        }
        __syncwarp();
        wait_for_previous();
        RingPlace<STAGES> next;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int first_row_band = tile / across * N, first_band = first_band_of(tile);
#pragma unroll 1
            for (int turn = 0; turn < turns; turn++, next.pass(), ahead--) {
                wait_for_phase(empty + next.stage, next.parity ^ 1);
                if (!sends) continue;
                if (ahead <= 0) send_weights(next.stage, turn, first_band);
                uint4* to = ring + (next.stage * BANDS + WEIGHT_BANDS) * STAGE_BAND;
                send_box(to, ring_call.values, turn * STAGE_BAND * 4, first_row_band, full + next.stage);
                if (turn == 0) scales.send(first_row_band * BAND, rows_of(first_row_band * BAND));
            }
        }
        return;
    }
    take_registers<232>();
    wait_for_previous();
    auto nobody = [] {};
    ChainWorker<FORMAT, N, WEIGHT_BANDS, STAGES, decltype(nobody)> worker(ring, full, nobody);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int first_row = tile / across * ROWS;
        Finisher<FORMAT, N> finisher(call, scales.current(), first_row, rows_of(first_row), first_band_of(tile) + warp * 2);
        float sums[N][4];
        multiply_wide_tile<N>(worker, call.links, sums);
        scales.wait();
        finisher.finish(sums);
        scales.leave();
    }
}
#endif

#if HAS_PIPELINES
// The ring of a format.
template <int FORMAT, int N>
__device__ __forceinline__ void multiply_in_ring(const RingProduct& call) {
    if constexpr (FORMAT == SPLIT) {
        multiply_ring<N>(call);
    } else {
        multiply_wide<FORMAT, N>(call);
    }
}
#define MULTIPLY_RING(FORMAT, N) multiply_in_ring<FORMAT, N>(call)
#else
#define MULTIPLY_RING(FORMAT, N)
#endif
