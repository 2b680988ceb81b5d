// Products of up to eight rows, bound by the memory that delivers the weights: those of a block are on their way to shared
// memory before the rows are there, while the kernels before still run.
//
// Blocks share out the bands, gates together with their values. A warp cuts one row; then each takes one part of the
// links for one band (or two).
#pragma once

#include "fragments.cuh"

#define STREAM_WARPS (BAND_THREADS / 32)
// Links that a warp multiplies by at once.
#define LINKS_TOGETHER 6

// The bands of a product that one of `count` blocks (or clusters) multiplies by: `units` of one band, or of two if it is
// gated.
struct Share {
    int bands, first, units;

    __device__ __forceinline__ Share(const Product& call, int index, int count) {
        bands = call.gated ? 2 : 1;
        int all = (call.end_band - call.first_band) / bands;
        int start = (int)((i64)all * index / count);
        first = call.first_band + start * bands;
        units = (int)((i64)all * (index + 1) / count) - start;
    }
};

// Where a warp's lane finds its fragments of a step of rows: odd steps (links, of one piece) stand turned by half, so that
// lanes of different steps write to different banks.
template <int FORMAT>
__device__ __forceinline__ int turned(int lane, int step) {
    return lane ^ (FORMAT == SPLIT ? step : step / STEPS) % 2 * 16;
}

// Cuts one row of a band, by one warp: lane `4 s + q` takes every eighth step from `s` on, as warp `s` does in `BandCutter`,
// so the sums are the same.
template <int FORMAT>
struct RowCutter {
    const float* row;
    uint4* band;
    uint4* stage;
    int inputs, last, lane, place;
    float largest, factor, squares;
    float4 kept[KEPT_STEPS];

    // For SPLIT the stage may be the band itself: what is made of four values takes their place.
    __device__ __forceinline__ RowCutter(const float* rows, int all_inputs, int links, uint4* to, uint4* staged) {
        lane = threadIdx.x % 32, place = threadIdx.x / 32, inputs = all_inputs, last = links * STEPS - 1;
        row = rows + (i64)place * inputs, band = to, stage = staged;
        largest = 0.0f, squares = 0.0f;
    }

    __device__ __forceinline__ uint4* own(int step) const {
        return stage + step * 32 + turned<FORMAT>(place * 4 + lane % 4, step);
    }

    __device__ __forceinline__ const float* from(int step) const {
        return row + step * 16 + lane % 4 * 4;
    }

    __device__ __forceinline__ void widen(const float4& four) {
        largest = fmaxf(largest, fmaxf(fmaxf(fabsf(four.x), fabsf(four.y)), fmaxf(fabsf(four.z), fabsf(four.w))));
    }

    // From the largest value of the row.
    __device__ __forceinline__ void choose_factor() {
        factor = power_of_two(LARGEST_EXPONENT - exponent_of(largest));
    }

    __device__ __forceinline__ void cut(int step, const float4& four) {
        Cut cut = cut_values<FORMAT>(four, factor, &squares);
        if (FORMAT == SPLIT) {
            band[step * 32 + turned<FORMAT>(place * 4 + lane % 4, step)] =
                make_uint4(cut.near.x, cut.near.y, cut.rest.x, cut.rest.y);
        } else {
            int group = step / STEPS * 32 + turned<FORMAT>(place * 4 + lane % 4, step);
            reinterpret_cast<uint2*>(band)[group * STEPS + step % STEPS] = cut.near;
        }
    }

    // Reads the row and finds its largest value. The first steps stay in registers, the others wait in the stage; every
    // thread reads what it wrote itself.
    __device__ __forceinline__ void read() {
        const int FIRST = BAND * KEPT_STEPS;
#pragma unroll
        for (int index = 0; index < KEPT_STEPS; index++) {
            int step = lane / 4 + BAND * index;
            kept[index] = *reinterpret_cast<const float4*>(from(step < last ? step : last));
        }
        // Blocks begin at different steps, so that they do not all ask for the same lines at once.
        int turns = (last + 1 - FIRST) / BAND, turn = turns * (int)(blockIdx.x % BAND) / BAND;
        for (int index = 0; index < turns; index++) {
            int step = lane / 4 + FIRST + BAND * turn;
            copy_ahead(own(step), from(step));
            turn = turn + 1 < turns ? turn + 1 : 0;
        }
        int behind = lane / 4 + FIRST + BAND * (turns > 0 ? turns : 0);
        if (behind <= last) copy_ahead(own(behind), from(behind));
        end_copies();
#pragma unroll
        for (int index = 0; index < KEPT_STEPS; index++) widen(kept[index]);
        wait_for_copies<0>();
#pragma unroll 4
        for (int step = lane / 4 + FIRST; step <= last; step += BAND) widen(*reinterpret_cast<const float4*>(own(step)));
        largest = largest_of_warp(largest);
    }

    __device__ __forceinline__ void cut_all() {
        const int FIRST = BAND * KEPT_STEPS;
        choose_factor();
#pragma unroll
        for (int index = 0; index < KEPT_STEPS; index++) {
            int step = lane / 4 + BAND * index;
            if (step <= last) cut(step, kept[index]);
        }
#pragma unroll 2
        for (int step = lane / 4 + FIRST; step <= last; step += BAND) cut(step, *reinterpret_cast<const float4*>(own(step)));
    }

    // Rows that do not end with a link, value by value.
    __device__ __forceinline__ void run_ragged() {
#pragma unroll 1
        for (int step = lane / 4; step <= last; step += BAND) widen(four_inputs(row, step * 16 + lane % 4 * 4, inputs));
        largest = largest_of_warp(largest);
        choose_factor();
#pragma unroll 1
        for (int step = lane / 4; step <= last; step += BAND) cut(step, four_inputs(row, step * 16 + lane % 4 * 4, inputs));
    }

    __device__ __forceinline__ void end(BandShare* share) {
        for (int half = 2; half > 0; half /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, half);
        if (lane % 4 > 0) return;
        share->squares[place][lane / 4] = squares;
        share->largest[place][lane / 4] = largest;
    }
};

// Multiplies one band of weights, or two, by eight rows; `take(link, chain)` gets the sums of each link, in order.
template <int FORMAT, typename Take>
__device__ __forceinline__ void multiply_links(const uint4* low, const uint4* high, const uint4* values, int start, int end,
                                               Take take) {
    const int PIECES = Pieces<FORMAT>::COUNT, TOGETHER = LINKS_TOGETHER;
    int lane = threadIdx.x % 32;
    uint4 nothing = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (int first = start; first < end; first += TOGETHER) {
        float chains[TOGETHER][4];
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            chains[next][0] = chains[next][1] = chains[next][2] = chains[next][3] = 0.0f;
        }
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            uint4 left[TOGETHER][2], right[TOGETHER];
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                int link = first + next < end ? first + next : end - 1, place = (link * PIECES + piece) * 32;
                left[next][0] = low[place + lane];
                left[next][1] = high ? high[place + lane] : nothing;
                right[next] = values[place + turned<FORMAT>(lane, link * STEPS + piece)];
            }
#pragma unroll
            for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
#pragma unroll
                for (int next = 0; next < TOGETHER; next++) {
                    multiply_round<FORMAT>(round, chains[next], left[next][0], left[next][1], right[next]);
                }
            }
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            if (first + next < end) take(first + next, chains[next]);
        }
    }
}

// Where a lane's results stand among those of a band, `[columns, rows]`: two rows of one column.
__device__ __forceinline__ float2* own_results(float* band) {
    return reinterpret_cast<float2*>(band + threadIdx.x % 32 * 2);
}

template <int FORMAT>
__device__ __forceinline__ void stream_weights(const Product& call) {
    const int LINK_SIZE = Pieces<FORMAT>::COUNT * 32, RESULTS = BAND * BAND;
    SHARED_MEMORY(memory);
    __shared__ BandShare band_share;
    __shared__ u64 arrived;
    Share share(call, blockIdx.x, gridDim.x);
    int band_size = call.links * LINK_SIZE, bands = share.units * share.bands;
    // Weights, then the rows and, unless they are cut in place, their values, then sums: [pairs of bands, parts, 2, 8, 8].
    uint4* weights = reinterpret_cast<uint4*>(memory);
    uint4* values = weights + bands * band_size;
    uint4* stage = FORMAT == SPLIT ? values : values + band_size;
    float* sums = reinterpret_cast<float*>(values + (FORMAT == SPLIT ? 1 : 3) * band_size);
    copy_block_ahead(weights, call.weight + (i64)share.first * band_size, 1, bands * band_size, 0, &arrived);
    int warp = threadIdx.x / 32;
    // The result that this thread finishes first.
    int column = threadIdx.x % BAND, row = threadIdx.x / BAND % BAND, own_unit = threadIdx.x / RESULTS;
    ColumnPair columns;
    auto load = [&](int unit) {
        int low = share.first + unit * share.bands;
        columns = load_columns(call, low, low + share.bands - 1, column);
    };
    if (own_unit < share.units) load(own_unit);
    double inverse_inputs = 1.0 / call.inputs;
    fetch_ahead(call.next, call.next_bytes);
    int rows = count(call.rows, call.live);
    wait_for_previous();

    ResultPair result;
    auto prepare = [&](int unit) {
        result = prepare_pair(call, row, share.first + unit * share.bands, column);
        if (share.bands == 1) result.high_place = -1;
    };
    if (own_unit < share.units && row < rows) prepare(own_unit);
    if (warp < rows) {
        RowCutter<FORMAT> cutter(call.input, call.inputs, call.links, values, stage);
        if (call.inputs % LINK == 0) {
            cutter.read();
            cutter.cut_all();
        } else {
            cutter.run_ragged();
        }
        cutter.end(&band_share);
    }
    wait_for_block_copy(&arrived);
    __syncthreads();
    // A warp takes one part of a pair of bands.
    int part = warp % PARTS, start = part_start(part, call.links), end = part_start(part + 1, call.links);
#pragma unroll 1
    for (int band = warp / PARTS * 2; band < bands; band += STREAM_WARPS / PARTS * 2) {
        const uint4* low = weights + band * band_size;
        float totals[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        auto add = [&](int, const float(&chain)[4]) {
#pragma unroll
            for (int which = 0; which < 4; which++) totals[which] += chain[which];
        };
        multiply_links<FORMAT>(low, band + 1 < bands ? low + band_size : nullptr, values, start, end, add);
        float* place = sums + (band / 2 * PARTS + part) * 2 * RESULTS;
        *own_results(place) = make_float2(totals[0], totals[1]);
        *own_results(place + RESULTS) = make_float2(totals[2], totals[3]);
    }
    __syncthreads();
    if (row >= rows) return;
    auto total = [&](int band) {
        const float* place = sums + (band / 2 * PARTS * 2 + band % 2) * RESULTS + column * BAND + row;
        float sum = place[0];
#pragma unroll
        for (int next = 1; next < PARTS; next++) sum += place[next * 2 * RESULTS];
        return sum;
    };
    float scale = scale_of_row(band_share, row, inverse_inputs, call.has_norm, call.epsilon);
#pragma unroll 1
    for (int unit = own_unit; unit < share.units; unit += BAND_THREADS / RESULTS) {
        if (unit != own_unit) load(unit), prepare(unit);
        int band = unit * share.bands;
        finish_pair(call, result, columns, scale, total(band), share.bands == 2 ? total(band + 1) : 0.0f);
    }
}
