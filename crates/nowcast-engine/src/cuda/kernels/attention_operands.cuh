// Operands of attention on tensor cores: values scaled by a power of two and cut as fragments.cuh does.
#pragma once

#include "fragments.cuh"

// Parts of a value.
#define PARTS_OF(FORMAT) (FORMAT == SPLIT ? 2 : 1)
// Words of a left operand: sixteen rows at one step.
#define STEP_WORDS(FORMAT) (PARTS_OF(FORMAT) * 128)

// Four values of each lane, scaled and cut.
template <int FORMAT>
__device__ __forceinline__ Cut cut_four(float first, float second, float third, float fourth, float factor) {
    float squares = 0.0f;
    return cut_values<FORMAT>(make_float4(first, second, third, fourth), factor, &squares);
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
