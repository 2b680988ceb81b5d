// Results straight from the registers of tensor cores: two bands of columns for each warp times some bands of rows.
//
// Lane `4 c + q` has column c of both bands and rows 2 q, 2 q + 1 of each band of rows.
#pragma once

#include "fragments.cuh"

// EARLY asks for residuals before the products, where registers can wait for them.
template <int FORMAT, int N, bool EARLY = false>
struct Finisher {
    const Product& call;
    const float* row_scales;
    // Of the tile; the first band of columns of the warp.
    int first_row, rows, band;
    ColumnPair columns;
    float early[EARLY ? N : 1][4];

    // Loads what belongs to columns, long before it is needed.
    __device__ __forceinline__ Finisher(const Product& product, const float* scales, int start, int count, int columns_band)
        : call(product), row_scales(scales), first_row(start), rows(count), band(columns_band) {
        // Where the tile hangs over, the last band stands in, and nothing is written.
        auto within = [&](int which) { return which < call.end_band ? which : call.end_band - 1; };
        columns = load_columns(call, within(band), within(band + 1), threadIdx.x % 32 / 4);
    }

    __device__ __forceinline__ void finish(const float (&sums)[N][4]) const {
        // Products that are not gated hand over rows of attention, in bf16 alone, and not those of small tiles, whose registers
        // are few.
        if (call.gated && hands_over(call)) {
            write_operands<true>(sums);
        } else if (FORMAT == BRAIN && !EARLY && hands_over(call)) {
            write_operands<false>(sums);
        } else if (call.gated) {
            write<true>(sums);
        } else {
            write<false>(sums);
        }
    }

    // Bias and scales; the column's scale first: a row's may be too large for the bare sum. Columns of bf16 have none.
    static __device__ __forceinline__ float finished(float sum, float column_scale, float row_scale, float bias) {
        return (Pieces<FORMAT>::IS_SCALED ? sum * column_scale : sum) * row_scale + bias;
    }
    __device__ __forceinline__ float low(float sum, float row_scale) const {
        return finished(sum, columns.scale_low, row_scale, columns.bias_low);
    }
    __device__ __forceinline__ float high(float sum, float row_scale) const {
        return finished(sum, columns.scale_high, row_scale, columns.bias_high);
    }
    // The results of the lane's columns in two rows of some bands from `first` on: of the low column and the high one, or of
    // the gate alone. Bands beyond the tile have none.
    template <bool GATED, int COUNT>
    __device__ __forceinline__ void finish_bands(const float (&sums)[N][4], int first, float (&results)[COUNT][4]) const {
        float lows[COUNT * 2], highs[COUNT * 2];
#pragma unroll
        for (int index = 0; index < COUNT * 2; index++) {
            int n = first + index / 2, row = index % 2;
            lows[index] = highs[index] = 1.0f;
            if (n >= N) continue;
            float scale = row_scales[n * BAND + threadIdx.x % 4 * 2 + row];
            lows[index] = low(sums[n][row], scale), highs[index] = high(sums[n][row + 2], scale);
        }
#pragma unroll
        for (int index = 0; index < COUNT * 2; index++) {
            results[index / 2][index % 2] = GATED ? sigmoid_unit<FORMAT>(lows[index]) * highs[index] : lows[index];
            results[index / 2][index % 2 + 2] = highs[index];
        }
    }

    template <bool GATED>
    __device__ __forceinline__ void write(const float (&sums)[N][4]) const {
        if (call.residual) {
            write_with<GATED, true>(sums);
        } else {
            write_with<GATED, false>(sums);
        }
    }

    // Where the lane's results go: one of two rows of every band of rows, one of two columns.
    struct Places {
        i64 first, width;
        // Rows that are left for each column.
        int left_low, left_high;

        __device__ __forceinline__ Places(const Finisher& tile, bool gated) : width(tile.call.columns) {
            const Product& call = tile.call;
            int column = (gated ? tile.band / 2 : tile.band) * BAND + threadIdx.x % 32 / 4 - call.first_column;
            int own_row = threadIdx.x % 4 * 2, left = tile.rows - own_row;
            bool has_low = tile.band < call.end_band && column >= 0 && column < call.columns;
            bool has_high = tile.band + 1 < call.end_band && column + BAND >= 0 && column + BAND < call.columns;
            left_low = has_low ? left : 0, left_high = has_high ? left : 0;
            first = (i64)(tile.first_row + own_row) * width + column;
        }
        __device__ __forceinline__ bool is_wanted(int n, int index) const {
            return n * BAND + index % 2 < (index < 2 ? left_low : left_high);
        }
        // From a band of rows to the next.
        __device__ __forceinline__ i64 step() const {
            return BAND * width;
        }
        // From the lane's first row of the band to a result.
        __device__ __forceinline__ i64 offset(int index) const {
            return index % 2 * width + index / 2 * BAND;
        }
    };

    // Asks for the residuals of a product that is not gated, if any; once the kernel before is done.
    __device__ __forceinline__ void expect_residuals() {
        static_assert(EARLY, "these are asked for when they are needed");
#pragma unroll
        for (int index = 0; index < N * 4; index++) early[index / 4][index % 4] = 0.0f;
        if (!call.residual || call.gated) return;
        Places places(*this, false);
        const float* from = call.residual + places.first;
#pragma unroll
        for (int n = 0; n < N; n++, from += places.step()) {
#pragma unroll
            for (int which = 0; which < 4; which++) {
                early[n][which] = load_if(places.is_wanted(n, which), from + places.offset(which));
            }
        }
    }

    template <bool GATED, bool HAS_RESIDUAL>
    __device__ __forceinline__ void write_with(const float (&sums)[N][4]) const {
        // Bands of rows that are finished together.
        const int TOGETHER = EARLY ? N : 6, RESULTS = GATED ? 2 : 4;
        Places places(*this, GATED);
        const float* from = HAS_RESIDUAL ? call.residual + places.first : nullptr;
        float* to = call.output + places.first;
#pragma unroll
        for (int start = 0; start < N; start += TOGETHER) {
            float residuals[TOGETHER][RESULTS];
#pragma unroll
            for (int n = start; HAS_RESIDUAL && n < start + TOGETHER && n < N; n++, from += places.step()) {
#pragma unroll
                for (int which = 0; which < RESULTS; which++) {
                    float& residual = residuals[n - start][which];
                    if constexpr (EARLY && !GATED) {
                        residual = early[n][which];
                    } else {
                        residual = load_if(places.is_wanted(n, which), from + places.offset(which));
                    }
                }
            }
            float results[TOGETHER][4];
            finish_bands<GATED>(sums, start, results);
#pragma unroll
            for (int n = start; n < start + TOGETHER && n < N; n++, to += places.step()) {
#pragma unroll
                for (int which = 0; which < RESULTS; which++) {
                    float result = results[n - start][which];
                    if (HAS_RESIDUAL) result += residuals[n - start][which];
                    store_if(places.is_wanted(n, which), to + places.offset(which), result);
                }
            }
        }
    }

    // Results cut as the product behind wants its inputs, which are whole links: two columns of a row are a word. Lanes of
    // neighbouring columns exchange their two rows, and each keeps one.
    template <bool GATED>
    __device__ __forceinline__ void write_operands(const float (&sums)[N][4]) const {
        // Bands of results: the high columns are another where they are not the gate's.
        const int RESULTS = GATED ? 1 : 2;
        int column = threadIdx.x % 32 / 4, is_odd = column % 2, row = threadIdx.x % 4 * 2 + is_odd;
        int own_band = GATED ? band / 2 : band, left = band < call.end_band ? rows - row : 0;
        int left_high = band + 1 < call.end_band ? left : 0;
        int steps = call.columns / 16, lane = row * 4 + own_band % 2 * 2 + column / 4;
        u32* to = reinterpret_cast<u32*>(call.output) + column / 2 % 2 * PAIR_WORDS;
        to += place_of_pair<FORMAT, i64>((i64)(first_row / BAND) * steps + own_band / 2, lane);
        i64 step = place_of_pair<FORMAT>(steps, 0);
        // Halves of the own word and of the other.
        u32 halves = is_odd ? 0x3276 : 0x5410;
#pragma unroll
        for (int n = 0; n < N; n++, to += step) {
            float results[1][4];
            finish_bands<GATED>(sums, n, results);
#pragma unroll
            for (int which = 0; which < RESULTS; which++) {
                float one = results[0][2 * which], other = results[0][2 * which + 1];
                if (Pieces<FORMAT>::IS_SCALED) one *= call.result_factor, other *= call.result_factor;
                CutPair rows_of_column = cut_pair<FORMAT>(one, other);
                bool is_wanted = n * BAND < (which == 0 ? left : left_high);
                auto exchange = [&](u32 own, u32* place) {
                    store_if(is_wanted, place, __byte_perm(own, __shfl_xor_sync(0xffffffffu, own, 4), halves));
                };
                exchange(rows_of_column.near, to + 2 * which);
                if (FORMAT == SPLIT) exchange(rows_of_column.rest, to + 2 * which + REST_WORDS);
            }
        }
    }
};
