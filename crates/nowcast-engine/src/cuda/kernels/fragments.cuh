// Products on tensor cores: how operands lie in memory, and the one order in which products are summed.
//
// An operand is cut into bands of eight rows and links of 32 inputs. A link holds its values in the order in which the
// lanes of a warp hand them to the tensor cores, so that every load is sixteen bytes and nothing is shuffled; the same
// band serves as half of the left operand (sixteen rows) and as the right one (eight).
//
// SPLIT keeps 22 bits of f32: the nearest f16 and the nearest f16 of what that leaves, four bytes together. A product is
// near * near + near * rest + rest * near; rest * rest is below the last place of f32. Powers of two bring the largest
// value of a row to 2^12, so that nothing overflows and no f16 that matters is subnormal. HALF keeps the nearest f16
// alone (TF32 has the same eleven bits), BRAIN the nearest bf16.
//
// Tensor cores round sums towards zero, so chains are short: one for each link. The chains of each of four equal parts of
// the links are added in order, to nearest, and then the parts. No number of rows, tile or grid changes that order.
#pragma once

#include "linear.cuh"

#define BAND 8
#define LINK 32
#define STEPS (LINK / 16)
#define PARTS 4

enum Format { SPLIT, HALF, BRAIN };

// Groups of four words that a lane holds of a link: one for each step of SPLIT, one for both steps otherwise.
template <int FORMAT>
struct Pieces {
    static const int COUNT = FORMAT == SPLIT ? 2 : 1;
    // Products of the tensor cores in each of them.
    static const int ROUNDS = FORMAT == SPLIT ? 3 : 2;
};

struct Product {
    // [bands, links, pieces, 32]; a gated matrix has a band of gates, then the band of their values.
    const uint4* weight;
    // [bands, 8] each.
    const float* column_scale;
    const float* bias;
    // [rows, inputs], for products that cut their rows themselves.
    const float* input;
    // [bands, links, pieces, 32] and [rows], for the others.
    const uint4* row_fragments;
    const float* row_scale;
    // [rows, columns], or null.
    const float* residual;
    // [rows, columns]
    float* output;
    const Live* live;
    Rows rows;
    int inputs;
    int links;
    // First band wanted, and the band behind the last.
    int first_band;
    int end_band;
    // First output wanted, and how many.
    int first_column;
    int columns;
    int gated;
    int has_norm;
    float epsilon;
    int reserved;
    // Weights of the product after this one, to be on their way already.
    const char* next;
    i64 next_bytes;
};

#ifndef NOWCAST_SHIM
template <int FORMAT>
__device__ __forceinline__ void multiply_add(float* sums, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    if (FORMAT == BRAIN) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

// The nearest f16s (bf16s) of two values in one word, the first in the lower half.
template <int FORMAT>
__device__ __forceinline__ u32 nearest_pair(float first, float second) {
    u32 word;
    if (FORMAT == BRAIN) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    }
    return word;
}

// The value of an f16 in the lower half of a word.
__device__ __forceinline__ float value_of_f16(u32 word) {
    float value;
    asm("{ .reg .b16 half; cvt.u16.u32 half, %1; cvt.f32.f16 %0, half; }" : "=f"(value) : "r"(word));
    return value;
}

// Sixteen bytes on their way from global to shared memory.
__device__ __forceinline__ void copy_ahead(uint4* to, const uint4* from) {
    u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all copies but those of the last `LEFT` groups are there.
template <int LEFT>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#endif

// One round of one piece: sixteen rows of the left operand (two bands) times eight of the right one.
template <int FORMAT>
__device__ __forceinline__ void multiply_round(int round, float* sums, const uint4& low, const uint4& high, const uint4& right) {
    if (FORMAT == SPLIT) {
        if (round == 0) multiply_add<FORMAT>(sums, low.z, high.z, low.w, high.w, right.x, right.y);
        if (round == 1) multiply_add<FORMAT>(sums, low.x, high.x, low.y, high.y, right.z, right.w);
        if (round == 2) multiply_add<FORMAT>(sums, low.x, high.x, low.y, high.y, right.x, right.y);
    } else {
        if (round == 0) multiply_add<FORMAT>(sums, low.x, high.x, low.y, high.y, right.x, right.y);
        if (round == 1) multiply_add<FORMAT>(sums, low.z, high.z, low.w, high.w, right.z, right.w);
    }
}

// First link of a part.
__device__ inline int part_start(int part, int links) {
    return links * part / PARTS;
}

__device__ inline float sum_of_warp(float value) {
    for (int half = 16; half > 0; half /= 2) value += __shfl_xor_sync(0xffffffffu, value, half);
    return value;
}

// Two inputs of a row from `input` on, zero beyond its end.
__device__ inline float2 two_inputs(const float* row, int input, int inputs) {
    float2 two = make_float2(0.0f, 0.0f);
    if (inputs % 2 == 0) {
        if (input < inputs) two = *reinterpret_cast<const float2*>(row + input);
    } else {
        if (input < inputs) two.x = row[input];
        if (input + 1 < inputs) two.y = row[input + 1];
    }
    return two;
}

__device__ inline float power_of_two(int exponent) {
    return __int_as_float((exponent + 127) << 23);
}

// Cuts one row into fragments, by one warp: row `place` of the band that starts at `band`. Returns the scale of the
// row's results: the inverse root mean square, if there is a norm, and the power of two that the values were divided by.
template <int FORMAT>
__device__ __forceinline__ float cut_row(const float* row, int inputs, int links, int place, uint4* band, int has_norm,
                                         float epsilon) {
    int lane = threadIdx.x % 32, quarter = lane % 4;
    float largest = 0.0f;
#pragma unroll 8
    for (int step = lane / 4; step < links * STEPS; step += 8) {
        float2 low = two_inputs(row, step * 16 + quarter * 2, inputs);
        float2 high = two_inputs(row, step * 16 + quarter * 2 + 8, inputs);
        largest = fmaxf(largest, fmaxf(fmaxf(fabsf(low.x), fabsf(low.y)), fmaxf(fabsf(high.x), fabsf(high.y))));
    }
    int exponent = (__float_as_int(largest_of_warp(largest)) >> 23) - 127;
    exponent = exponent < -100 ? -100 : exponent;
    float factor = power_of_two(12 - exponent);
    float squares = 0.0f;
#pragma unroll 4
    for (int step = lane / 4; step < links * STEPS; step += 8) {
        float2 low = two_inputs(row, step * 16 + quarter * 2, inputs);
        float2 high = two_inputs(row, step * 16 + quarter * 2 + 8, inputs);
        low.x *= factor, low.y *= factor, high.x *= factor, high.y *= factor;
        squares = fmaf(low.x, low.x, fmaf(low.y, low.y, fmaf(high.x, high.x, fmaf(high.y, high.y, squares))));
        u32 first = nearest_pair<FORMAT>(low.x, low.y), second = nearest_pair<FORMAT>(high.x, high.y);
        if (FORMAT == SPLIT) {
            u32 first_rest = nearest_pair<FORMAT>(low.x - value_of_f16(first), low.y - value_of_f16(first >> 16));
            u32 second_rest = nearest_pair<FORMAT>(high.x - value_of_f16(second), high.y - value_of_f16(second >> 16));
            band[step * 32 + place * 4 + quarter] = make_uint4(first, second, first_rest, second_rest);
        } else {
            int group = step / STEPS * 32 + place * 4 + quarter;
            reinterpret_cast<uint2*>(band)[group * STEPS + step % STEPS] = make_uint2(first, second);
        }
    }
    float scale = power_of_two(exponent - 12);
    if (!has_norm) return scale;
    double mean_square = (double)sum_of_warp(squares) / (double)inputs * ((double)scale * (double)scale);
    return (float)(1.0 / sqrt(mean_square + (double)epsilon) * (double)scale);
}

// What a lane adds to and multiplies its results with: those of a column of one band, and of the band behind it.
struct ColumnPair {
    float scale_low, scale_high, bias_low, bias_high;
};

__device__ inline ColumnPair load_columns(const Product& call, int low_band, int high_band, int column) {
    ColumnPair pair;
    pair.scale_low = call.column_scale[low_band * BAND + column];
    pair.scale_high = call.column_scale[high_band * BAND + column];
    pair.bias_low = call.bias[low_band * BAND + column];
    pair.bias_high = call.bias[high_band * BAND + column];
    return pair;
}

__device__ inline void write_result(const Product& call, i64 row, int column, float value) {
    column -= call.first_column;
    if (column < 0 || column >= call.columns) return;
    i64 at = row * call.columns + column;
    call.output[at] = call.residual ? value + call.residual[at] : value;
}

// Finishes two sums of a row: column `column` of the band, and of the one behind it.
__device__ __forceinline__ void finish_bands(const Product& call, i64 row, int band, int column, const ColumnPair& pair,
                                             float row_scale, float low, float high) {
    // The column's scale first: a row's may be too large for the bare sum.
    low = low * pair.scale_low * row_scale + pair.bias_low;
    high = high * pair.scale_high * row_scale + pair.bias_high;
    if (call.gated) {
        write_result(call, row, band / 2 * BAND + column, sigmoid_linear_unit(low) * high);
    } else {
        write_result(call, row, band * BAND + column, low);
        write_result(call, row, (band + 1) * BAND + column, high);
    }
}
