// Products of many rows with chains of one link: 128 weights times up to 176 rows for each multiprocessor.
//
// One thread keeps a ring of links on its way, two groups of four warps multiply what has come. A group's rows are two
// halves: while one half multiplies, the chains of the other are added, from one link to the next too. A block does one
// tile after the other, so that the ring fills while results are written.
#pragma once

#include "linear_blocked.cuh"
#include "linear_warpgroup.cuh"
#include "pipeline.cuh"

#define RING_WORKERS 256
#define RING_THREADS 384
// Bands of weights of a tile.
#define RING_WEIGHT_BANDS 16

struct RingProduct {
    // `weight` of the product in boxes of one link of sixteen bands, in words.
    Map weights;
    // `row_fragments`, as many bands as a tile has.
    Map values;
    Product product;
};

// Links on their way.
template <int N>
struct RingStages {
    static const int COUNT = N == 22 ? 3 : N == 16 ? 4 : N == 12 ? 6 : 7;
};

#if HAS_PIPELINES
// What a thread that multiplies keeps of a tile.
template <int N>
struct RingWorker {
    static const int FORMAT = SPLIT, STAGES = RingStages<N>::COUNT;
    static const int PIECES = Pieces<FORMAT>::COUNT, LINK_SIZE = PIECES * 32, HALF = N / 2, BANDS = RING_WEIGHT_BANDS + N;
    // The sum of the parts so far: in registers where there is room, else in the shared memory of the results.
    static const bool KEEPS = N <= 16;
    // Whether a link begins before the one before it ends, which needs registers for the weights of both.
    static const bool RUNS_ON = N != 16;

    const uint4* ring;
    u64 *full, *empty;
    float* parked;
    // Links of a tile, those of the tiles before, and parts that are done.
    int links, turn, part;
    uint4 left[2][PIECES][2];
    float chains[2][HALF][4], totals[N][4], kept[KEEPS ? N * 4 : 1];

    // Weights of a link that this warp multiplies, once they are there.
    template <int PARITY>
    __device__ __forceinline__ void load(int link) {
        int stage = (turn + link) % STAGES;
        wait_for_phase(full + stage, (turn + link) / STAGES & 1);
        const uint4* weights = ring + (stage * BANDS + threadIdx.x / 32 * 2) * LINK_SIZE + threadIdx.x % 32;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            left[PARITY][piece][0] = weights[piece * 32];
            left[PARITY][piece][1] = weights[LINK_SIZE + piece * 32];
        }
    }
    template <int PARITY, int WHICH>
    __device__ __forceinline__ void start(int link) {
        int stage = (turn + link) % STAGES;
        start_in_groups<FORMAT, HALF>(chains[WHICH], left[PARITY],
                                      ring + (stage * BANDS + RING_WEIGHT_BANDS + WHICH * HALF) * LINK_SIZE);
    }
    template <int WHICH>
    __device__ __forceinline__ void add() {
#pragma unroll
        for (int index = 0; index < HALF * 4; index++) {
            totals[WHICH * HALF + index / 4][index % 4] += chains[WHICH][index / 4][index % 4];
        }
    }
    // Multiplies a link whose first half has been started, and starts the next.
    template <int PARITY, bool IS_LAST>
    __device__ __forceinline__ void multiply(int link) {
        start<PARITY, 1>(link);
        if constexpr (RUNS_ON && !IS_LAST) load<1 - PARITY>(link + 1);
        wait_for_groups<1>(chains[0]);
        add<0>();
        if constexpr (RUNS_ON && !IS_LAST) start<1 - PARITY, 0>(link + 1);
        wait_for_groups<RUNS_ON && !IS_LAST ? 1 : 0>(chains[1]);
        if (threadIdx.x % 32 == 0) arrive(empty + (turn + link) % STAGES);
        add<1>();
        if (link + 1 == part_start<FORMAT>(part + 1, links) && part + 1 < PARTS) end_part();
        if constexpr (!RUNS_ON && !IS_LAST) {
            load<1 - PARITY>(link + 1);
            start<1 - PARITY, 0>(link + 1);
        }
    }

    __device__ __forceinline__ float* sum_of_parts(int index) {
        return KEEPS ? kept + index : parked + index * RING_WORKERS;
    }
    __device__ __forceinline__ void end_part() {
#pragma unroll
        for (int index = 0; index < N * 4; index++) {
            float *sum = &totals[index / 4][index % 4], *all = sum_of_parts(index);
            *all = part == 0 ? *sum : *all + *sum;
            *sum = 0.0f;
        }
        part++;
    }

    // The sums of a tile, in `totals`.
    __device__ __forceinline__ void multiply_tile() {
        part = 0;
#pragma unroll
        for (int n = 0; n < N; n++) totals[n][0] = totals[n][1] = totals[n][2] = totals[n][3] = 0.0f;
        load<0>(0);
        start<0, 0>(0);
        int link = 0;
#pragma unroll 1
        for (; link + 2 < links; link += 2) {
            multiply<0, false>(link);
            multiply<1, false>(link + 1);
        }
        if (link + 1 < links) {
            multiply<0, false>(link);
            multiply<1, true>(link + 1);
        } else {
            multiply<0, true>(link);
        }
        turn += links;
        if (part == 0) return;
#pragma unroll
        for (int index = 0; index < N * 4; index++) {
            float* sum = &totals[index / 4][index % 4];
            *sum = *sum_of_parts(index) + *sum;
        }
    }
};

// Gated results of a tile, cut for the product behind, whose columns are whole links: a warp takes the same step of sixteen
// columns of every other band, so that each of its lanes has four results of a row, as operands stand together.
template <int N>
struct RingHandover {
    static const int STEPS_OF_TILE = RING_WEIGHT_BANDS * BAND / 2 / 16, SHARERS = RING_WORKERS / 32 / STEPS_OF_TILE;
    static const int STRIDE = RING_WEIGHT_BANDS * BAND + 4;
    // Bands that are finished together.
    static const int TOGETHER = 2;

    const Product& call;
    int first_row, rows, step, low, row, quarter, warp;
    bool has_columns;
    float4 scale_low, scale_high, bias_low, bias_high;

    // Before the sums are there.
    __device__ __forceinline__ RingHandover(const Product& product, int start, int count, int first_band)
        : call(product), first_row(start), rows(count) {
        warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
        // A gate's band stands before that of its values.
        int column = warp % STEPS_OF_TILE * 16 + quarter * 4;
        low = column / BAND * 2 * BAND + column % BAND;
        step = first_band / 2 * BAND / 16 + warp % STEPS_OF_TILE;
        has_columns = step * 16 < call.columns;
        int place = has_columns ? first_band * BAND + low : 0;
        scale_low = four_at(call.column_scale + place), bias_low = four_at(call.bias + place);
        scale_high = four_at(call.column_scale + place + BAND), bias_high = four_at(call.bias + place + BAND);
    }

    static __device__ __forceinline__ float4 finished(const float4& sums, const float4& scales, float scale, const float4& bias) {
        return make_float4(sums.x * scales.x * scale + bias.x, sums.y * scales.y * scale + bias.y, sums.z * scales.z * scale + bias.z,
                           sums.w * scales.w * scale + bias.w);
    }

    // From sums `[rows, STRIDE]` and the scales of their rows.
    __device__ __forceinline__ void write(const float* sums, const float* row_scales) const {
        if (!has_columns) return;
        u32* words = reinterpret_cast<u32*>(call.output);
#pragma unroll 1
        for (int band = warp / STEPS_OF_TILE; band < N; band += SHARERS * TOGETHER) {
            float gates[4 * TOGETHER];
            float4 values[TOGETHER];
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                // Behind the last band the first one stands in.
                int which = band + next * SHARERS, own = (which < N ? which : 0) * BAND + row;
                float scale = own < rows ? row_scales[own] : 0.0f;
                const float* from = sums + own * STRIDE + low;
                float4 gate = finished(four_at(from), scale_low, scale, bias_low);
                gates[4 * next] = gate.x, gates[4 * next + 1] = gate.y, gates[4 * next + 2] = gate.z, gates[4 * next + 3] = gate.w;
                values[next] = finished(four_at(from + BAND), scale_high, scale, bias_high);
            }
            sigmoid_linear_units<4 * TOGETHER>(gates);
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                int which = band + next * SHARERS, own = which * BAND + row;
                if (which >= N || own >= rows) continue;
                const float4& value = values[next];
                float4 results = make_float4(gates[4 * next] * value.x, gates[4 * next + 1] * value.y, gates[4 * next + 2] * value.z,
                                             gates[4 * next + 3] * value.w);
                write_pairs<SPLIT>(operands_at<SPLIT>(words, call.columns, first_row + own, step, quarter),
                                   cut_values<SPLIT>(results, call.result_factor));
            }
        }
    }
};

// Tile: 128 weights, the inner index, times `N` bands of rows. Grid: as many blocks as multiprocessors, or tiles.
template <int N>
__device__ __forceinline__ void multiply_ring(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    typedef RingWorker<N> Worker;
    const int STAGES = Worker::STAGES, LINK_SIZE = Worker::LINK_SIZE, BANDS = Worker::BANDS;
    const int WEIGHT_BANDS = RING_WEIGHT_BANDS, WIDTH = WEIGHT_BANDS * BAND, ROWS = N * BAND, STRIDE = WIDTH + 4;
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
        if (warp > RING_WORKERS / 32) return wait_for_previous();
        bool sends = sends_for_warp();
        auto send_weights = [&](int stage, int link, int first_band) {
            expect_bytes(full + stage, BANDS * LINK_SIZE * 16);
            send_box(ring + stage * BANDS * LINK_SIZE, ring_call.weights, link * LINK_SIZE * 4, first_band, full + stage);
        };
        // Weights need not wait for the kernel before.
        int ahead = (int)blockIdx.x < tiles ? call.links < STAGES ? call.links : STAGES : 0;
        if (sends) {
            int first_band = call.first_band + (int)blockIdx.x % across * WEIGHT_BANDS;
            for (int link = 0; link < ahead; link++) send_weights(link, link, first_band);
        }
        __syncwarp();
        wait_for_previous();
        RingPlace<STAGES> next;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int first_row_band = tile / across * N, first_band = call.first_band + tile % across * WEIGHT_BANDS;
#pragma unroll 1
            for (int link = 0; link < call.links; link++, next.pass(), ahead--) {
                wait_for_phase(empty + next.stage, next.parity ^ 1);
                if (!sends) continue;
                if (ahead <= 0) send_weights(next.stage, link, first_band);
                uint4* to = ring + (next.stage * BANDS + WEIGHT_BANDS) * LINK_SIZE;
                send_box(to, ring_call.values, link * LINK_SIZE * 4, first_row_band, full + next.stage);
            }
        }
        return;
    }
    take_registers<232>();
    wait_for_previous();
    Worker worker;
    worker.ring = ring, worker.full = full, worker.empty = empty, worker.parked = sums + threadIdx.x;
    worker.links = call.links, worker.turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int first_row = tile / across * ROWS, first_band = call.first_band + tile % across * WEIGHT_BANDS;
        int tile_rows = rows - first_row < ROWS ? rows - first_row : ROWS;
        if ((int)threadIdx.x < tile_rows) row_scales[threadIdx.x] = scale_at(call, first_row + threadIdx.x);
        worker.multiply_tile();
        meet_first_threads<RING_WORKERS>();
#pragma unroll
        for (int index = 0; index < N * 4; index++) {
            int row = index / 4 * BAND + lane % 4 * 2 + index % 2;
            int column = (warp * 2 + index % 4 / 2) * BAND + lane / 4;
            sums[row * STRIDE + column] = worker.totals[index / 4][index % 4];
        }
        if (hands_over(call)) {
            RingHandover<N> handover(call, first_row, tile_rows, first_band);
            meet_first_threads<RING_WORKERS>();
            handover.write(sums, row_scales);
        } else {
            // Four columns at a time would leave no registers for the sums.
            Sums<1> finished = {{sums}, row_scales, first_row, tile_rows, first_band};
            finish_rows<SPLIT, Finishing<ROWS, WIDTH, RING_WORKERS, false>, 1>(call, finished, [] { meet_first_threads<RING_WORKERS>(); });
        }
        meet_first_threads<RING_WORKERS>();
    }
}
#endif
