// What the products share: the call, the norm of a row, and what happens to a sum before it is written.
//
// A result is the sum of blocks of `depth` inputs, each one chain of fused multiply-adds in order, and the blocks are
// added in order, as on the CPU: no number of rows, tile or grid changes a digit. Weights come in panels of 32
// columns, `[panels, inputs / 4, 32, 4]`; a gated panel holds 16 gates and their 16 values.
#pragma once

#include "elementary.cuh"

#define PANEL 32
#define HALF_PANEL 16

struct Linear {
    // [panels, padded / 4, 32, 4], zero beyond the inputs.
    const float* weight;
    // [panels, 32]
    const float* bias;
    // [rows, inputs]
    const float* input;
    // [rows, columns], or null.
    const float* residual;
    // [rows, columns]
    float* output;
    // Inverse root mean square of each row, or null; only read by products that do not compute it themselves.
    const double* row_scale;
    const Live* live;
    Rows rows;
    int inputs;
    // Inputs rounded up to whole blocks.
    int padded;
    int depth;
    // First output wanted, and how many.
    int first_column;
    int columns;
    // First panel wanted.
    int first_panel;
    int gated;
    int has_norm;
    float epsilon;
    // Logarithm of `depth`, a power of two.
    int depth_shift;
    // Weights of the product after this one, to be on their way already.
    const char* next;
    i64 next_bytes;
};

// `1 / sqrt(mean square + epsilon)` from sixteen partial sums of squares, added in halves.
__device__ inline double inverse_root_mean_square(const double* parts, int inputs, float epsilon) {
    double sums[16];
#pragma unroll
    for (int part = 0; part < 16; part++) sums[part] = parts[part];
#pragma unroll
    for (int part = 0; part < 8; part++) sums[part] += sums[part + 8];
#pragma unroll
    for (int part = 0; part < 4; part++) sums[part] += sums[part + 4];
    sums[0] += sums[2];
    sums[1] += sums[3];
    sums[0] += sums[1];
    return 1.0 / sqrt(sums[0] / (double)inputs + (double)epsilon);
}

// The square of every sixteenth value from `part` on, in order.
template <typename Value>
__device__ inline double part_of_squares(const Value* row, int part, int inputs) {
    double sum = 0.0;
    for (int index = part; index < inputs; index += 16) sum = fma((double)row[index], (double)row[index], sum);
    return sum;
}

// Four inputs of a row from `input` on, zero beyond its end.
__device__ inline float4 four_inputs(const float* row, int input, int inputs) {
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inputs % 4 == 0) {
        if (input < inputs) four = *reinterpret_cast<const float4*>(row + input);
    } else {
        if (input < inputs) four.x = row[input];
        if (input + 1 < inputs) four.y = row[input + 1];
        if (input + 2 < inputs) four.z = row[input + 2];
        if (input + 3 < inputs) four.w = row[input + 3];
    }
    return four;
}

__device__ inline float sigmoid_linear_unit(float x) {
    return x / (exponential_f32(0.0f - x) + 1.0f);
}

// x / y to nearest, for numbers of ordinary size; the steps of the compiler, without its branch.
__device__ __forceinline__ float divide_ordinary(float x, float y) {
#ifdef NOWCAST_SHIM
    return x / y;
#else
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
    inverse = fmaf(inverse, fmaf(-y, inverse, 1.0f), inverse);
    float quotient = x * inverse;
    quotient = fmaf(inverse, fmaf(-y, quotient, x), quotient);
    return fmaf(inverse, fmaf(-y, quotient, x), quotient);
#endif
}

// `sigmoid_linear_unit` of some values together, the same digits.
template <int COUNT>
__device__ __forceinline__ void sigmoid_linear_units(float (&values)[COUNT]) {
    float results[COUNT];
    bool ordinary = true;
#pragma unroll
    for (int index = 0; index < COUNT; index++) {
        float x = values[index];
        ordinary = ordinary && x > -40.0f && x < 1e18f && fabsf(x) > 1e-18f;
        results[index] = divide_ordinary(x, exponential_f32(0.0f - x) + 1.0f);
    }
    // One branch for all of them.
    if (!ordinary) {
#pragma unroll
        for (int index = 0; index < COUNT; index++) results[index] = sigmoid_linear_unit(values[index]);
    }
#pragma unroll
    for (int index = 0; index < COUNT; index++) values[index] = results[index];
}

// The same with a short exponential and quotient, each within 2^-22 of its size: for operands that are rounded to f16 or bf16.
__device__ __forceinline__ float short_sigmoid_linear_unit(float x) {
    return x * short_inverse(short_power_of_two(x * -1.44269504088896340736f) + 1.0f);
}

// Place of a column in the output and in the residual, or -1 if it is not wanted.
__device__ inline i64 place_of(const Linear& call, i64 row, int column) {
    column -= call.first_column;
    return column < 0 || column >= call.columns ? -1 : row * call.columns + column;
}

// What is added to the two sums of lane `lane` of a panel, those of its columns `lane` and `lane + 16`.
struct Addends {
    float bias_low, bias_high, residual_low, residual_high;
};

__device__ inline void load_bias(const Linear& call, int panel, int lane, Addends* addends) {
    addends->bias_low = call.bias[panel * PANEL + lane];
    addends->bias_high = call.bias[panel * PANEL + lane + HALF_PANEL];
}

// Places of the two results, one for a gated panel.
__device__ inline i64 low_place(const Linear& call, i64 row, int panel, int lane) {
    return place_of(call, row, call.gated ? panel * HALF_PANEL + lane : panel * PANEL + lane);
}

__device__ inline i64 high_place(const Linear& call, i64 row, int panel, int lane) {
    return call.gated ? -1 : place_of(call, row, panel * PANEL + lane + HALF_PANEL);
}

__device__ inline void load_residual(const Linear& call, i64 row, int panel, int lane, Addends* addends) {
    if (!call.residual) return;
    i64 low = low_place(call, row, panel, lane), high = high_place(call, row, panel, lane);
    if (low >= 0) addends->residual_low = call.residual[low];
    if (high >= 0) addends->residual_high = call.residual[high];
}

__device__ inline void finish_pair(const Linear& call, i64 row, int panel, int lane, const Addends& addends, float low,
                                   float high, float scale) {
    low = low * scale + addends.bias_low;
    high = high * scale + addends.bias_high;
    if (call.gated) low = sigmoid_linear_unit(low) * high;
    i64 to_low = low_place(call, row, panel, lane), to_high = high_place(call, row, panel, lane);
    if (to_low >= 0) call.output[to_low] = call.residual ? low + addends.residual_low : low;
    if (to_high >= 0) call.output[to_high] = call.residual ? high + addends.residual_high : high;
}

// Loads the addends and finishes the two sums.
__device__ inline void finish_pair_at(const Linear& call, i64 row, int panel, int lane, float low, float high, float scale) {
    Addends addends;
    load_bias(call, panel, lane, &addends);
    load_residual(call, row, panel, lane, &addends);
    finish_pair(call, row, panel, lane, addends, low, high, scale);
}

// Asks for memory that a later kernel will read; the block takes its share.
__device__ inline void fetch_ahead(const char* start, i64 bytes) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x > 0) return;
    // In lines of 128 bytes.
    u32 share = ((u32)(bytes / 128) + gridDim.x) / gridDim.x * 128;
    i64 first = (i64)blockIdx.x * share;
    if (first < bytes) {
        u32 size = bytes - first < share ? (u32)(bytes - first) : share;
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(start + first), "r"(size) : "memory");
    }
#endif
}
