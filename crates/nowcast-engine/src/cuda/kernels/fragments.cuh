// Products on tensor cores: how operands lie in memory, and the one order in which products are summed.
//
// An operand is cut into bands of eight rows and links of 32 inputs. A link holds its values in the order in which the
// lanes of a warp hand them to the tensor cores, so that every load is sixteen bytes and nothing is shuffled; the same
// band serves as half of the left operand (sixteen rows) and as the right one (eight). A link has two steps of sixteen
// inputs; lane `4 r + q` holds those from `4 q` on of row r, so that values, too, are read in sixteen bytes.
//
// SPLIT keeps 22 bits of f32: the nearest f16 and the nearest f16 of what that leaves, four bytes together. A product is
// near * near + near * rest + rest * near; rest * rest is below the last place of f32. Powers of two bring the largest
// value of a row to 2^12, so that nothing overflows and no f16 that matters is subnormal; or, where the weights that made
// them tell how far all rows reach (record/reach.rs), that to 2^15, so that rows are cut by whoever writes them. HALF keeps
// the nearest f16 alone (TF32 has the same eleven bits), BRAIN the nearest bf16.
//
// Tensor cores round sums towards zero, so chains are short: one for each link of SPLIT. The others have rounded their
// operands far more than chains of eight links lose. The chains of each of four equal parts of the links are added in order,
// to nearest, and then the parts. No number of rows, tile or grid changes that order.
#pragma once

#include "linear.cuh"
#include "predicates.cuh"

#define BAND 8
#define LINK 32
#define STEPS (LINK / 16)
#define PARTS 4
// Exponent of the largest value of a row once it is scaled.
#define LARGEST_EXPONENT 12

enum Format { SPLIT, HALF, BRAIN };

// Groups of four words that a lane holds of a link: one for each step of SPLIT, one for both steps otherwise.
template <int FORMAT>
struct Pieces {
    static const int COUNT = FORMAT == SPLIT ? 2 : 1;
    // Products of the tensor cores in each of them.
    static const int ROUNDS = FORMAT == SPLIT ? 3 : 2;
    // Links that are not parted, and the most that one chain covers.
    static const int TOGETHER = FORMAT == SPLIT ? 1 : 2, CHAIN = FORMAT == SPLIT ? 1 : 8;
    // Whether rows are scaled by powers of two; bf16 has the exponents of f32.
    static const bool IS_SCALED = FORMAT != BRAIN;
};

struct Product {
    // [bands, links, pieces, 32]; a gated matrix has a band of gates, then the band of their values.
    const uint4* weight;
    // [bands, 8] each.
    const float* column_scale;
    const float* bias;
    // [rows, inputs], for products that cut their rows themselves.
    const float* input;
    // [bands, links, pieces, 32] and [rows], for the others; no scales where whoever wrote the rows has cut them.
    const uint4* row_fragments;
    const float* row_scale;
    // [rows, columns], or null.
    const float* residual;
    // [rows, columns], or cut [row bands, columns / 32, pieces, 32].
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
    // The power of two that all rows are multiplied by before they are cut, or 0 where each has its own, and its inverse; of
    // bf16 always 1.
    float row_factor;
    float row_unit;
    // What results are multiplied by and cut with for the product behind, or 0 where they stay as they are.
    float result_factor;
};

// Whether results are cut for the product behind: a test of a whole number, which needs no register.
__device__ __forceinline__ bool hands_over(const Product& call) {
    return __float_as_int(call.result_factor) != 0;
}

// Whether a row's largest value decides its power of two.
template <int FORMAT, typename Call>
__device__ __forceinline__ bool looks_for_largest(const Call& call) {
    return Pieces<FORMAT>::IS_SCALED && call.row_factor == 0.0f;
}

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

// Weights, which leave the caches first, as in `copy_block_ahead`.
__device__ __forceinline__ uint4 load_once(const uint4* from) {
    uint4 words;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from)
                 : "memory");
    return words;
}

// The values of two f16s in one word.
__device__ __forceinline__ float2 values_of_f16(u32 word) {
    float2 values;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(values.x), "=f"(values.y)
        : "r"(word));
    return values;
}

#endif

__device__ __forceinline__ float4 four_at(const float* from) {
    return *reinterpret_cast<const float4*>(from);
}

// The bf16s of one word: f32s that end early.
#define UPPER_HALF 0xffff0000u
__device__ __forceinline__ float lower_bf16(u32 word) {
    return __int_as_float((int)(word << 16));
}
__device__ __forceinline__ float upper_bf16(u32 word) {
    return __int_as_float((int)(word & UPPER_HALF));
}

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

// x / (1 + exp(-x)), as exact as the operands.
template <int FORMAT>
__device__ __forceinline__ float sigmoid_unit(float x) {
    return FORMAT == SPLIT ? sigmoid_linear_unit(x) : short_sigmoid_linear_unit(x);
}

// First link of a part, and the most links of one.
template <int FORMAT>
__device__ inline int part_start(int part, int links) {
    const int TOGETHER = Pieces<FORMAT>::TOGETHER;
    if (TOGETHER == 1) return links * part / PARTS;
    int start = (links + TOGETHER - 1) / TOGETHER * part / PARTS * TOGETHER;
    return start < links ? start : links;
}

template <int FORMAT>
__device__ inline int most_links_of_part(int links) {
    const int TOGETHER = Pieces<FORMAT>::TOGETHER;
    return (links + TOGETHER * PARTS - 1) / (TOGETHER * PARTS) * TOGETHER;
}

__device__ inline float power_of_two(int exponent) {
    return __int_as_float((exponent + 127) << 23);
}

// The exponent of a positive number; very small ones count as 2^-100.
__device__ inline int exponent_of(float value) {
    int exponent = (__float_as_int(value) >> 23) - 127;
    return exponent < -100 ? -100 : exponent;
}

// Two scaled values, cut: the nearest pair and, of SPLIT, that of what they leave.
struct CutPair {
    u32 near, rest;
};

template <int FORMAT>
__device__ __forceinline__ CutPair cut_pair(float first, float second) {
    CutPair cut = {nearest_pair<FORMAT>(first, second), 0};
    if (FORMAT == SPLIT) {
        float2 near = values_of_f16(cut.near);
        cut.rest = nearest_pair<FORMAT>(first - near.x, second - near.y);
    }
    return cut;
}

// The same of four values of a step.
struct Cut {
    uint2 near, rest;
};

// Scales and cuts four values and adds their squares; bf16 has the exponents of f32 and needs no factor.
template <int FORMAT>
__device__ __forceinline__ Cut cut_values(const float4& four, float factor, float* squares) {
    if (!Pieces<FORMAT>::IS_SCALED) factor = 1.0f;
    float2 low = make_float2(four.x * factor, four.y * factor), high = make_float2(four.z * factor, four.w * factor);
    *squares = fmaf(low.x, low.x, fmaf(low.y, low.y, fmaf(high.x, high.x, fmaf(high.y, high.y, *squares))));
    CutPair first = cut_pair<FORMAT>(low.x, low.y), second = cut_pair<FORMAT>(high.x, high.y);
    return {make_uint2(first.near, second.near), make_uint2(first.rest, second.rest)};
}
template <int FORMAT>
__device__ __forceinline__ Cut cut_values(const float4& four, float factor) {
    float squares = 0.0f;
    return cut_values<FORMAT>(four, factor, &squares);
}

// Where the lane of a row and a quarter has its four values of a step in a band of one piece, in fours: those of both
// steps of a link stand together.
__device__ __forceinline__ int place_of_four(int step, int lane) {
    return (step / STEPS * 32 + lane) * STEPS + step % STEPS;
}

// The same in the order of warpgroups, in words: the first pair, the second one `PAIR_WORDS` behind, and, of SPLIT, those of
// what they leave `REST_WORDS` behind. Steps may be those of several bands of whole links, which stand behind each other.
#define PAIR_WORDS 32
#define REST_WORDS (2 * STEPS * PAIR_WORDS)
template <int FORMAT, typename Place>
__device__ __forceinline__ Place place_of_pair(Place step, Place lane) {
    if (FORMAT == SPLIT) return step / STEPS * (2 * REST_WORDS) + step % STEPS * (2 * PAIR_WORDS) + lane;
    return step * (2 * PAIR_WORDS) + lane;
}

// There, of rows of so many columns, the first pair of a row's quarter at a step. Rows without a sign take less to part.
template <int FORMAT, typename Word>
__device__ __forceinline__ Word* operands_at(Word* operands, int columns, u64 row, int step, int quarter) {
    return operands + place_of_pair<FORMAT, u64>(row / BAND * (columns / 16) + step, row % BAND * 4 + quarter);
}
template <int FORMAT>
__device__ __forceinline__ void write_pairs(u32* to, const Cut& cut) {
    to[0] = cut.near.x, to[PAIR_WORDS] = cut.near.y;
    if (FORMAT == SPLIT) to[REST_WORDS] = cut.rest.x, to[REST_WORDS + PAIR_WORDS] = cut.rest.y;
}
template <int FORMAT>
__device__ __forceinline__ void write_pairs_if(bool is_wanted, u32* to, const Cut& cut) {
    store_if(is_wanted, to, cut.near.x), store_if(is_wanted, to + PAIR_WORDS, cut.near.y);
    if (FORMAT != SPLIT) return;
    store_if(is_wanted, to + REST_WORDS, cut.rest.x), store_if(is_wanted, to + REST_WORDS + PAIR_WORDS, cut.rest.y);
}

__device__ __forceinline__ float largest_magnitude(const float4& four) {
    return fmaxf(fmaxf(fabsf(four.x), fabsf(four.y)), fmaxf(fabsf(four.z), fabsf(four.w)));
}

// The scale of a row that was cut before.
__device__ inline float scale_at(const Product& call, int row) {
    return call.row_scale ? call.row_scale[row] : call.row_unit;
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

// Of few rows, the place of a result and of what is added to it, or -1 if it is not wanted.
__device__ inline int place_of_result(const Product& call, int row, int column) {
    column -= call.first_column;
    return column < 0 || column >= call.columns ? -1 : row * call.columns + column;
}

__device__ inline float residual_at(const Product& call, int place) {
    return call.residual && place >= 0 ? call.residual[place] : 0.0f;
}

__device__ inline void write_result(const Product& call, int place, float value, float residual) {
    if (place >= 0) call.output[place] = call.residual ? value + residual : value;
}

// Two results of a row: a column of one band, and of the band behind it; gated, one. All are prepared before any is
// written, so that their loads do not wait for each other.
struct ResultPair {
    int low_place, high_place;
    float low_residual, high_residual;
};

// Where a result stands, in halfwords, among the operands of eight rows; of SPLIT, what it leaves is four behind.
template <int FORMAT>
__device__ __forceinline__ int place_of_operand(int row, int column) {
    int step = column / 16, lane = row * 4 + column % 16 / 4;
    return (FORMAT == SPLIT ? (step * 32 + lane) * 2 : place_of_four(step, lane)) * 4 + column % 4;
}

template <int FORMAT>
__device__ __forceinline__ void write_operand(float* operands, int place, float scaled) {
    CutPair cut = cut_pair<FORMAT>(scaled, 0.0f);
    unsigned short* to = reinterpret_cast<unsigned short*>(operands) + place;
    to[0] = (unsigned short)cut.near;
    if (FORMAT == SPLIT) to[4] = (unsigned short)cut.rest;
}

template <int FORMAT>
__device__ __forceinline__ ResultPair places_of_pair(const Product& call, int row, int band, int column) {
    ResultPair pair;
    if (hands_over(call)) {
        pair.low_place = place_of_operand<FORMAT>(row, band / 2 * BAND + column);
        pair.high_place = -1;
        return pair;
    }
    pair.low_place = place_of_result(call, row, (call.gated ? band / 2 : band) * BAND + column);
    pair.high_place = call.gated ? -1 : place_of_result(call, row, (band + 1) * BAND + column);
    return pair;
}

__device__ __forceinline__ void load_residuals(const Product& call, ResultPair* pair) {
    pair->low_residual = residual_at(call, pair->low_place);
    pair->high_residual = residual_at(call, pair->high_place);
}

template <int FORMAT>
__device__ __forceinline__ ResultPair prepare_pair(const Product& call, int row, int band, int column) {
    ResultPair pair = places_of_pair<FORMAT>(call, row, band, column);
    load_residuals(call, &pair);
    return pair;
}

template <int FORMAT>
__device__ __forceinline__ void finish_pair(const Product& call, const ResultPair& pair, const ColumnPair& columns,
                                            float row_scale, float low, float high) {
    // The column's scale first: a row's may be too large for the bare sum.
    low = low * columns.scale_low * row_scale + columns.bias_low;
    high = high * columns.scale_high * row_scale + columns.bias_high;
    if (call.gated) low = sigmoid_unit<FORMAT>(low) * high;
    if (hands_over(call)) return write_operand<FORMAT>(call.output, pair.low_place, low * call.result_factor);
    write_result(call, pair.low_place, low, pair.low_residual);
    write_result(call, pair.high_place, high, pair.high_residual);
}
