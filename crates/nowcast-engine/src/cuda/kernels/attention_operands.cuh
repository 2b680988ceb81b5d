// Operands of attention on tensor cores: values scaled by a power of two and cut as fragments.cuh does.
#pragma once

#include "fragments.cuh"

// Keys that are gone through together.
#define CHUNK 64
#define CHUNK_WARPS 4
#define CHUNK_THREADS (32 * CHUNK_WARPS)
// Keys, and then components, of a warp: one step of the tensor cores' inputs, two bands of their right operand.
#define SHARE (CHUNK / CHUNK_WARPS)
// Components of a group: those that four warps have together.
#define GROUP (SHARE * CHUNK_WARPS)
#define TILE_ROWS 16
#define CHUNK_STEPS (CHUNK / 16)

// Parts of a value.
#define PARTS_OF(FORMAT) (FORMAT == SPLIT ? 2 : 1)
// Words of a left operand: sixteen rows at one step.
#define STEP_WORDS(FORMAT) (PARTS_OF(FORMAT) * 128)

// Four values of each lane, scaled and cut.
template <int FORMAT>
__device__ __forceinline__ Cut cut_four(float first, float second, float third, float fourth, float factor) {
    return cut_values<FORMAT>(make_float4(first, second, third, fourth), factor);
}

// Adds sixteen rows, whose step lies here as [part, lane], times eight columns.
template <int FORMAT>
__device__ __forceinline__ void multiply_step(float* sums, const u32* rows, const Cut& columns) {
    const uint4* parts = reinterpret_cast<const uint4*>(rows) + threadIdx.x % 32;
    uint4 near = parts[0];
    if (FORMAT == SPLIT) {
        uint4 rest = parts[32];
        multiply_add<FORMAT>(sums, rest.x, rest.y, rest.z, rest.w, columns.near.x, columns.near.y);
        multiply_add<FORMAT>(sums, near.x, near.y, near.z, near.w, columns.rest.x, columns.rest.y);
    }
    multiply_add<FORMAT>(sums, near.x, near.y, near.z, near.w, columns.near.x, columns.near.y);
}

// Adds the chain of a link, of which the rows' steps lie here, to the sums of both columns; the first one begins them.
template <int FORMAT>
__device__ __forceinline__ void add_link(const u32* rows, const Cut (&columns)[STEPS][2], bool begins,
                                         float (&sums)[2][4]) {
#pragma unroll
    for (int column = 0; column < 2; column++) {
        float chain[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            multiply_step<FORMAT>(chain, rows + step * STEP_WORDS(FORMAT), columns[step][column]);
        }
#pragma unroll
        for (int index = 0; index < 4; index++) {
            sums[column][index] = begins ? chain[index] : sums[column][index] + chain[index];
        }
    }
}

__device__ __forceinline__ float largest_of_quarters(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

// A row of a matrix; one multiplication, where offsets with a sign take three instructions.
__device__ __forceinline__ const float* row_at(const float* matrix, int row, int width) {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(matrix) + (u64)(u32)row * (u32)(width * 4));
}

__device__ __forceinline__ float factor_for(float largest) {
    return power_of_two(LARGEST_EXPONENT - exponent_of(largest));
}

__device__ __forceinline__ float scale_for(float largest) {
    return power_of_two(exponent_of(largest) - LARGEST_EXPONENT);
}

// Two neighbouring columns of a chunk's right operand, keys or components of its values, on their way to be cut: what a lane
// has of each of four steps.
struct ChunkPairs {
    float2 of[CHUNK_STEPS][4];

    // Components of keys `first` and behind it, four of each step from `component` on, of [head_dim, capacity]. Beyond the
    // cache's and the head's end others stand in: those keys are never seen, and those components multiplied by nothing.
    __device__ __forceinline__ void load_keys(const float* keys, int capacity, int head_dim, int key, int component) {
        int first = key < capacity ? key : 0, second = key + 1 < capacity ? key + 1 : first;
        const float* rows[CHUNK_STEPS];
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            int start = component + step * 16;
            rows[step] = row_at(keys, start < head_dim ? start : 0, capacity);
        }
        auto row = [&](int index) { return row_at(rows[index / 4], index % 4, capacity); };
        if (capacity % 2 == 0) {
#pragma unroll
            for (int index = 0; index < 4 * CHUNK_STEPS; index++) {
                of[index / 4][index % 4] = *reinterpret_cast<const float2*>(row(index) + first);
            }
        } else {
#pragma unroll
            for (int index = 0; index < 4 * CHUNK_STEPS; index++) {
                of[index / 4][index % 4] = make_float2(row(index)[first], row(index)[second]);
            }
        }
    }

    // Components `component` and behind it of values, four keys of each step from `start` on, of [capacity, head_dim]. Behind
    // the last key it stands in, with exponents of nothing.
    __device__ __forceinline__ void load_values(const float* values, int head_dim, int component, int start, int last) {
        const float* from = values + (component < head_dim ? component : 0);
#pragma unroll
        for (int index = 0; index < 4 * CHUNK_STEPS; index++) {
            int key = start + index / 4 * 16 + index % 4;
            of[index / 4][index % 4] = *reinterpret_cast<const float2*>(row_at(from, key < last ? key : last, head_dim));
        }
    }

    // The largest of both columns, with those of before.
    __device__ __forceinline__ void widen(float2* top) const {
#pragma unroll
        for (int index = 0; index < 4 * CHUNK_STEPS; index++) {
            top->x = fmaxf(top->x, fabsf(of[index / 4][index % 4].x));
            top->y = fmaxf(top->y, fabsf(of[index / 4][index % 4].y));
        }
    }

    // Both columns at a step.
    template <int FORMAT>
    __device__ __forceinline__ void cut_step(int step, const float2& factor, Cut (&columns)[2]) const {
        const float2(&four)[4] = of[step];
        columns[0] = cut_four<FORMAT>(four[0].x, four[1].x, four[2].x, four[3].x, factor.x);
        columns[1] = cut_four<FORMAT>(four[0].y, four[1].y, four[2].y, four[3].y, factor.y);
    }
};

// Of a column, among the lanes that have its steps.
__device__ __forceinline__ float2 largest_of_columns(const float2& top) {
    return make_float2(largest_of_quarters(top.x), largest_of_quarters(top.y));
}
