// Results straight from the registers of tensor cores: two bands of columns for each warp times some bands of rows.
//
// Lane `4 c + q` has column c of both bands and rows 2 q, 2 q + 1 of each band of rows. Where gates leave time for it, four
// lanes of neighbouring columns exchange their results, so that each writes four columns of one row.
#pragma once

#include "fragments.cuh"

// Four values of each of the lanes that differ in the bits `4` and `8`: afterwards the lane of rank k among them has the
// k-th value of all four.
__device__ __forceinline__ void exchange_fours(float (&values)[4]) {
    bool is_odd = threadIdx.x & 4, is_high = threadIdx.x & 8;
#pragma unroll
    for (int pair = 0; pair < 4; pair += 2) {
        float other = __shfl_xor_sync(0xffffffffu, is_odd ? values[pair] : values[pair + 1], 4);
        (is_odd ? values[pair] : values[pair + 1]) = other;
    }
#pragma unroll
    for (int which = 0; which < 2; which++) {
        float other = __shfl_xor_sync(0xffffffffu, is_high ? values[which] : values[which + 2], 8);
        (is_high ? values[which] : values[which + 2]) = other;
    }
}

template <int FORMAT, int N>
struct Finisher {
    const Product& call;
    const float* row_scales;
    // Of the tile; the first band of columns of the warp.
    int first_row, rows, band;
    ColumnPair columns;

    // Loads what belongs to columns, long before it is needed.
    __device__ __forceinline__ Finisher(const Product& product, const float* scales, int start, int count, int columns_band)
        : call(product), row_scales(scales), first_row(start), rows(count), band(columns_band) {
        if (band >= call.end_band) return;
        columns = load_columns(call, band, band + 1 < call.end_band ? band + 1 : band, threadIdx.x % 32 / 4);
    }

    __device__ __forceinline__ void finish(const float (&sums)[N][4]) const {
        if (band >= call.end_band) return;
        bool is_whole = (call.columns | call.first_column) % 4 == 0;
        if (call.gated && is_whole && !call.residual) {
            write_gated_fours(sums);
        } else if (call.gated) {
            write<true, true>(sums);
        } else if (call.residual) {
            write<false, true>(sums);
        } else {
            write<false, false>(sums);
        }
    }

    // Bias and scales; the column's scale first: a row's may be too large for the bare sum.
    __device__ __forceinline__ float low(float sum, float row_scale) const {
        return sum * columns.scale_low * row_scale + columns.bias_low;
    }
    __device__ __forceinline__ float high(float sum, float row_scale) const {
        return sum * columns.scale_high * row_scale + columns.bias_high;
    }
    // The results of the lane's column in two rows of a band: of the low column and the high one, or of the gate alone.
    template <bool GATED>
    __device__ __forceinline__ void finish_band(const float (&sums)[4], int n, float* results) const {
        float2 scales = *reinterpret_cast<const float2*>(row_scales + n * BAND + threadIdx.x % 4 * 2);
        results[0] = low(sums[0], scales.x), results[1] = low(sums[1], scales.y);
        float highs[2] = {high(sums[2], scales.x), high(sums[3], scales.y)};
#pragma unroll
        for (int which = 0; which < 2; which++) {
            if (GATED) {
                results[which] = sigmoid_unit<FORMAT>(results[which]) * highs[which];
            } else {
                results[which + 2] = highs[which];
            }
        }
    }

    template <bool GATED, bool HAS_RESIDUAL>
    __device__ __forceinline__ void write(const float (&sums)[N][4]) const {
        // Bands of rows whose residuals are loaded together.
        const int TOGETHER = N % 11 == 0 ? 11 : 4, RESULTS = GATED ? 2 : 4;
        int column = (GATED ? band / 2 : band) * BAND + threadIdx.x % 32 / 4 - call.first_column;
        int own_row = threadIdx.x % 4 * 2, left = rows - own_row;
        // Rows that are left for each column.
        bool has_low = column >= 0 && column < call.columns;
        bool has_high = band + 1 < call.end_band && column + BAND >= 0 && column + BAND < call.columns;
        int left_low = has_low ? left : 0, left_high = has_high ? left : 0;
        i64 place = (i64)(first_row + own_row) * call.columns + column, step = (i64)BAND * call.columns;
        auto is_wanted = [&](int n, int index) {
            return n * BAND + index % 2 < (index < 2 ? left_low : left_high);
        };
        auto offset = [&](int n, int index) { return place + n * step + index % 2 * call.columns + index / 2 * BAND; };
#pragma unroll
        for (int start = 0; start < N; start += TOGETHER) {
            float residuals[TOGETHER][RESULTS];
#pragma unroll
            for (int index = 0; index < TOGETHER * RESULTS; index++) {
                int n = start + index / RESULTS, which = index % RESULTS;
                float& residual = residuals[index / RESULTS][which];
                residual = 0.0f;
                if (HAS_RESIDUAL && call.residual && is_wanted(n, which)) residual = call.residual[offset(n, which)];
            }
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                float results[RESULTS];
                finish_band<GATED>(sums[start + next], start + next, results);
#pragma unroll
                for (int which = 0; which < RESULTS; which++) {
                    if (HAS_RESIDUAL && call.residual) results[which] += residuals[next][which];
                    if (is_wanted(start + next, which)) call.output[offset(start + next, which)] = results[which];
                }
            }
        }
    }

    // Gated results of two bands of rows together, four columns for each lane; columns are multiples of four.
    __device__ __forceinline__ void write_gated_fours(const float (&sums)[N][4]) const {
        int lane = threadIdx.x % 32, rank = lane / 4 % 4, row = lane % 4 * 2 + rank % 2 + rank / 2 * BAND;
        int column = band / 2 * BAND + lane / 16 * 4 - call.first_column;
        int left = column >= 0 && column < call.columns ? rows - row : 0;
        float* to = call.output + (i64)(first_row + row) * call.columns + column;
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            float results[4];
            finish_band<true>(sums[n], n, results);
            finish_band<true>(sums[n + 1], n + 1, results + 2);
            exchange_fours(results);
            float4 four = make_float4(results[0], results[1], results[2], results[3]);
            if (n * BAND < left) *reinterpret_cast<float4*>(to + (i64)n * BAND * call.columns) = four;
        }
    }
};
