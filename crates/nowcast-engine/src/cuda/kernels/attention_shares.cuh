// What one warp does with a share of a context that was cut before: sixteen keys, or components of values, for sixteen rows.
//
// A lane has two rows, of which one is eight behind the other, and four columns of each: both of its own, then both of the
// lane that has the next ones.
#pragma once

#include "attention_own.cuh"
#include "context_operands.cuh"

// Sixteen rows at one step.
template <int FORMAT>
struct LeftStep {
    uint4 near, rest;

    LeftStep() = default;
    // Of four values each of both rows of every lane.
    __device__ __forceinline__ LeftStep(const Cut& above, const Cut& below) {
        near = make_uint4(above.near.x, below.near.x, above.near.y, below.near.y);
        rest = make_uint4(above.rest.x, below.rest.x, above.rest.y, below.rest.y);
    }

    // Times two columns.
    __device__ __forceinline__ void multiply(const Cut (&columns)[2], float (&chains)[2][4]) const {
        if (FORMAT == SPLIT) {
            multiply_both(rest, columns[0].near, columns[1].near, chains);
            multiply_both(near, columns[0].rest, columns[1].rest, chains);
        }
        multiply_both(near, columns[0].near, columns[1].near, chains);
    }

    static __device__ __forceinline__ void multiply_both(const uint4& rows, const uint2& low, const uint2& high,
                                                         float (&chains)[2][4]) {
        multiply_add<FORMAT>(chains[0], rows.x, rows.y, rows.z, rows.w, low.x, low.y);
        multiply_add<FORMAT>(chains[1], rows.x, rows.y, rows.z, rows.w, high.x, high.y);
    }
};

// Of both rows and four columns, as tensor cores hand them out: of the lower column of both lanes and of the upper one.
typedef float ShareSums[2][4];

// Rows times a share, the chain of each link, added in order.
template <int FORMAT>
__device__ __forceinline__ void multiply_share(const LeftStep<FORMAT> (&rows)[CHUNK_STEPS], const u32* share, bool has_second,
                                               ShareSums& total) {
#pragma unroll
    for (int link = 0; link < CHUNK_STEPS / STEPS; link++) {
        if (link > 0 && !has_second) break;
        float chains[2][4] = {};
#pragma unroll
        for (int step = link * STEPS; step < (link + 1) * STEPS; step++) {
            Cut columns[2];
            load_cut<FORMAT>(share + step * STEP_WORDS(FORMAT), columns);
            rows[step].multiply(columns, chains);
        }
#pragma unroll
        for (int index = 0; index < 8; index++) {
            float chain = chains[index / 4][index % 4];
            total[index / 4][index % 4] = link == 0 ? chain : total[index / 4][index % 4] + chain;
        }
    }
}

// A row's four sums.
__device__ __forceinline__ float4 sums_of_row(const ShareSums& sums, int which) {
    return make_float4(sums[0][2 * which], sums[1][2 * which], sums[0][2 * which + 1], sums[1][2 * which + 1]);
}

// Scales scores by the scales of their keys and of both rows.
__device__ __forceinline__ void scale_scores(const float4& scale, const float (&of_rows)[2], ShareSums& scores) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
        scores[0][2 * which] *= scale.x * of_rows[which], scores[1][2 * which] *= scale.y * of_rows[which];
        scores[0][2 * which + 1] *= scale.z * of_rows[which], scores[1][2 * which + 1] *= scale.w * of_rows[which];
    }
}

// Scores of the four keys from `key` on that are not seen become LEAST.
__device__ __forceinline__ void hide_scores(int key, int hidden, int end, ShareSums& scores) {
    auto hides = [&](int next) { return key + next >= end || key + next < hidden; };
    if (hides(0)) scores[0][0] = scores[0][2] = LEAST;
    if (hides(1)) scores[1][0] = scores[1][2] = LEAST;
    if (hides(2)) scores[0][1] = scores[0][3] = LEAST;
    if (hides(3)) scores[1][1] = scores[1][3] = LEAST;
}

__device__ __forceinline__ float largest_of_four(const float4& four) {
    return fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
}

// Exponents of a row's scores, and the sum of those of the share.
template <int FORMAT>
__device__ __forceinline__ float weigh_share(const float4& scores, float top, Cut* cut) {
    float first = exponential_of_negative(scores.x - top), second = exponential_of_negative(scores.y - top);
    float third = exponential_of_negative(scores.z - top), fourth = exponential_of_negative(scores.w - top);
    float sum = (first + second) + (third + fourth);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    *cut = cut_four<FORMAT>(first, second, third, fourth, power_of_two(LARGEST_EXPONENT));
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}
