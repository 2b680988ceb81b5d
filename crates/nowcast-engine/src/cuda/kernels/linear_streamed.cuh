// Products of up to eight rows, bound by the memory that delivers the weights: those of a block are on their way to shared
// memory before the rows are there, while the kernels before still run.
//
// Blocks share out the bands, gates together with their values. A warp cuts one row; then each takes one part of the
// links for one band (or two).
#pragma once

#include "linear_bands.cuh"

// The bands of a product that a block (or cluster) multiplies by: `units` of one band, or of two if it is gated, `stride`
// bands apart.
struct Share {
    int bands, first, units, stride;

    __device__ __forceinline__ Share(int first_band, int bands_apart, int count)
        : bands(1), first(first_band), units(count), stride(bands_apart) {}

    // An even share of all for one of `count`.
    __device__ __forceinline__ Share(const Product& call, int index, int count) {
        bands = stride = call.gated ? 2 : 1;
        // Divisions of 64 bits take longer than all else before the rows are there.
        u32 all = (u32)(call.end_band - call.first_band) / bands;
        int start = all * index / count;
        first = call.first_band + start * bands;
        units = (int)(all * (index + 1) / count) - start;
    }
};

// Cuts one row of a band, by one warp: lane `4 s + q` takes every eighth step from `s` on, as group `s` does in `BandCutter`,
// so the sums are the same.
template <int FORMAT>
struct RowCutter {
    // The lane's own first step.
    const float* first;
    uint4* band;
    uint4* stage;
    int inputs, last, lane, place;
    // 0 until the largest value decides the factor.
    float largest, factor, squares;
    float4 kept[KEPT_STEPS];

    // For SPLIT the stage may be the band itself: what is made of four values takes their place.
    __device__ __forceinline__ RowCutter(const float* rows, int all_inputs, int links, uint4* to, uint4* staged, float known_factor) {
        lane = threadIdx.x % 32, place = threadIdx.x / 32, inputs = all_inputs, last = links * STEPS - 1;
        first = rows + place * inputs + lane / 4 * 16 + lane % 4 * 4, band = to, stage = staged;
        largest = 0.0f, squares = 0.0f, factor = known_factor;
        known_now(first), known_now(last);
    }

    __device__ __forceinline__ uint4* own(int step) const {
        return stage + step * 32 + turned<FORMAT>(place * 4 + lane % 4, step);
    }

    __device__ __forceinline__ const float* from(int step) const {
        return first + (step - lane / 4) * 16;
    }

    __device__ __forceinline__ bool looks() const {
        return Pieces<FORMAT>::IS_SCALED && factor == 0.0f;
    }
    __device__ __forceinline__ void widen(const float4& four) {
        if (Pieces<FORMAT>::IS_SCALED) largest = fmaxf(largest, largest_magnitude(four));
    }

    // From the largest value of the row.
    __device__ __forceinline__ void choose_factor() {
        if (looks()) factor = power_of_two(LARGEST_EXPONENT - exponent_of(largest));
    }

    __device__ __forceinline__ void cut(int step, const float4& four) {
        Cut cut = cut_values<FORMAT>(four, factor, &squares);
        if (FORMAT == SPLIT) {
            band[step * 32 + turned<FORMAT>(place * 4 + lane % 4, step)] =
                make_uint4(cut.near.x, cut.near.y, cut.rest.x, cut.rest.y);
        } else {
            int own_lane = turned<FORMAT>(place * 4 + lane % 4, step);
            reinterpret_cast<uint2*>(band)[place_of_four(step, own_lane)] = cut.near;
        }
    }

    // The first steps of a row of whole links, if there is one, on their way to registers.
    __device__ __forceinline__ void ask(bool is_row) {
#pragma unroll
        for (int index = 0; index < KEPT_STEPS; index++) {
            kept[index] = load_four_if(is_row && lane / 4 + BAND * index <= last, first + index * BAND * 16);
        }
    }
    // Finds the row's largest value. Steps behind the first wait in the stage; every thread reads what it wrote itself.
    __device__ __forceinline__ void read() {
        const int FIRST = BAND * KEPT_STEPS;
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
        for (int step = lane / 4 + FIRST; step <= last && looks(); step += BAND) widen(*reinterpret_cast<const float4*>(own(step)));
        if (looks()) largest = largest_of_warp(largest);
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
        auto four = [&](int step) {
            int input = step * 16 + lane % 4 * 4;
            return four_inputs(from(step) - input, input, inputs);
        };
#pragma unroll 1
        for (int step = lane / 4; step <= last && looks(); step += BAND) {
            widen(four(step));
        }
        if (looks()) largest = largest_of_warp(largest);
        choose_factor();
#pragma unroll 1
        for (int step = lane / 4; step <= last; step += BAND) cut(step, four(step));
    }

    __device__ __forceinline__ void end(BandShare* share) {
        for (int half = 2; half > 0; half /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, half);
        if (lane % 4 > 0) return;
        share->squares[place][lane / 4] = squares;
        share->largest[place][lane / 4] = largest;
    }
};

// What stands in front of a block's weights, the same for all blocks of a launch.
struct StreamHead {
    u64 arrived, unused;
    BandShare rows;
};

// Streams the bands of a block past the rows. `Finisher` takes the sums; it is asked to load what it needs of the weights
// (`begin`, before the kernels before are done), then of what they left (`prepare`), and finally to `finish`, where
// `total(band)` is the sum of a thread's row and column. It may have `Finisher::WORDS` words of shared memory, and says
// whether blocks may have more than four bands.
template <int FORMAT, typename Finisher>
__device__ __forceinline__ void stream_weights(const Product& call, const Share& share, Finisher& finisher) {
    const int LINK_SIZE = Pieces<FORMAT>::COUNT * 32;
    SHARED_MEMORY(memory);
    StreamHead* head = reinterpret_cast<StreamHead*>(memory);
    float* own = reinterpret_cast<float*>(head + 1);
    int band_size = call.links * LINK_SIZE, bands = share.units * share.bands;
    // Weights, then the rows and, unless they are cut in place, their values.
    uint4* weights = reinterpret_cast<uint4*>(own + Finisher::WORDS);
    uint4* values = weights + bands * band_size;
    uint4* stage = FORMAT == SPLIT ? values : values + band_size;
    int together = share.stride == share.bands ? share.units : 1;
    copy_block_ahead(weights, call.weight + (i64)share.first * band_size, share.units / together,
                     together * share.bands * band_size, (i64)share.stride * band_size, &head->arrived);
    int warp = threadIdx.x / 32;
    finisher.begin();
    double inverse_inputs = 1.0 / call.inputs;
    int rows = count(call.rows, call.live);
    bool is_whole = call.inputs % LINK == 0;
    RowCutter<FORMAT> cutter(call.input, call.inputs, call.links, values, stage, call.row_factor);
    known_now(rows);
    wait_for_previous();

    cutter.ask(warp < rows && is_whole);
    finisher.prepare(rows);
    if (warp < rows) {
        if (is_whole) {
            cutter.read();
            cutter.cut_all();
        } else {
            cutter.run_ragged();
        }
        cutter.end(&head->rows);
    }
    wait_for_block_copy(&head->arrived);
    __syncthreads();
    if constexpr (Finisher::HAS_MANY_BANDS && Pieces<FORMAT>::CHAIN > 1) {
        multiply_side_by_side<FORMAT>(weights, bands, call.links, values);
    } else {
        multiply_pairs<FORMAT>(weights, bands, call.links, values);
    }
    __syncthreads();
    auto total = [&](int band) { return total_of_parts<FORMAT>(weights + band * band_size, call.links); };
    int row = threadIdx.x / BAND % BAND;
    float scale = 0.0f;
    if (call.row_factor != 0.0f) {
        scale = call.row_unit;
    } else if (row < rows) {
        scale = scale_of_row<FORMAT>(head->rows, row, inverse_inputs, call.has_norm, call.epsilon);
    }
    finisher.finish(rows, scale, own, total);
}

// Writes the results; a thread finishes one row and column of every fourth unit.
template <int FORMAT>
struct ResultWriter {
    static const bool HAS_MANY_BANDS = true;
    static const int WORDS = 0, TOGETHER = BAND_THREADS / (BAND * BAND);

    const Product& call;
    const Share& share;
    int column, row, first_unit;
    ColumnPair columns;
    ResultPair result;

    __device__ __forceinline__ ResultWriter(const Product& product, const Share& of_block) : call(product), share(of_block) {
        column = threadIdx.x % BAND, row = threadIdx.x / BAND % BAND, first_unit = threadIdx.x / (BAND * BAND);
    }

    __device__ __forceinline__ void load(int unit) {
        int low = share.first + unit * share.bands;
        columns = load_columns(call, low, low + share.bands - 1, column);
    }

    __device__ __forceinline__ void place(int unit) {
        result = places_of_pair<FORMAT>(call, row, share.first + unit * share.bands, column);
        if (share.bands == 1) result.high_place = -1;
    }

    __device__ __forceinline__ void begin() {
        if (first_unit >= share.units) return;
        load(first_unit);
        place(first_unit);
    }

    __device__ __forceinline__ void prepare(int rows) {
        if (first_unit < share.units && row < rows) load_residuals(call, &result);
    }

    template <typename Total>
    __device__ __forceinline__ void finish(int rows, float scale, float*, Total total) {
        if (row >= rows) return;
#pragma unroll 1
        for (int unit = first_unit; unit < share.units; unit += TOGETHER) {
            if (unit != first_unit) load(unit), place(unit), load_residuals(call, &result);
            int band = unit * share.bands;
            finish_pair<FORMAT>(call, result, columns, scale, total(band), share.bands == 2 ? total(band + 1) : 0.0f);
        }
    }
};

template <int FORMAT>
__device__ __forceinline__ void stream_product(const Product& call) {
    Share share(call, blockIdx.x, gridDim.x);
    ResultWriter<FORMAT> writer(call, share);
    stream_weights<FORMAT>(call, share, writer);
}
