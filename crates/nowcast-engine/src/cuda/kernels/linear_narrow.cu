// Products of few inputs (up to 256), in f64 up to the result: off by one rounding however the inputs cancel.
#include "linear.cuh"

#define ROWS 16

__device__ inline void write_wide(const Linear& call, i64 row, int column, double value) {
    column -= call.first_column;
    if (column < 0 || column >= call.columns) return;
    i64 at = row * call.columns + column;
    call.output[at] = (float)(call.residual ? (double)call.residual[at] + value : value);
}

// Grid: blocks of 16 rows, panels. Threads: 16 lanes of two columns each, 16 rows.
KERNEL_AHEAD(linear_narrow, Linear, 256, 1) {
    SHARED_MEMORY(memory);
    // [16, padded], then [16, 16] partial sums and 16 scales in f64, then the panel.
    double* parts = reinterpret_cast<double*>(memory + ROWS * call.padded);
    double* scales = parts + ROWS * 16;
    u64* arrived = reinterpret_cast<u64*>(scales + ROWS);
    float4* weight = reinterpret_cast<float4*>(arrived + 2);
    i64 rows = count(call.rows, call.live);
    i64 first = (i64)blockIdx.x * ROWS;
    if (first >= rows) {
        wait_for_previous();
        return;
    }
    int panel = call.first_panel + blockIdx.y, size = call.padded / 4 * PANEL;
    const uint4* from = reinterpret_cast<const uint4*>(call.weight) + (i64)panel * size;
    copy_block_ahead(reinterpret_cast<uint4*>(weight), from, 1, size, 0, arrived);
    wait_for_previous();
    int live_rows = rows - first < ROWS ? (int)(rows - first) : ROWS;
    int lane = threadIdx.x % 16, row = threadIdx.x / 16;
    for (int input = 4 * lane; input < call.padded; input += 64) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < live_rows) four = four_inputs(call.input + (first + row) * call.inputs, input, call.inputs);
        *reinterpret_cast<float4*>(memory + row * call.padded + input) = four;
    }
    if (call.has_norm) {
        __syncthreads();
        parts[row * 16 + lane] = part_of_squares(memory + row * call.padded, lane, call.inputs);
        __syncthreads();
        if (lane == 0) scales[row] = inverse_root_mean_square(parts + row * 16, call.inputs, call.epsilon);
        __syncthreads();
    }
    wait_for_block_copy(arrived);
    __syncthreads();
    const float* values = memory + row * call.padded;
    double low = 0.0, high = 0.0;
#pragma unroll 8
    for (int group = 0; group < call.padded / 4; group++) {
        float4 a = weight[group * PANEL + lane], b = weight[group * PANEL + lane + HALF_PANEL];
        float4 x = *reinterpret_cast<const float4*>(values + 4 * group);
        low = fma((double)x.x, (double)a.x, low);
        high = fma((double)x.x, (double)b.x, high);
        low = fma((double)x.y, (double)a.y, low);
        high = fma((double)x.y, (double)b.y, high);
        low = fma((double)x.z, (double)a.z, low);
        high = fma((double)x.z, (double)b.z, high);
        low = fma((double)x.w, (double)a.w, low);
        high = fma((double)x.w, (double)b.w, high);
    }
    if (row >= live_rows) return;
    double scale = call.has_norm ? scales[row] : 1.0;
    const float* bias = call.bias + panel * PANEL;
    low = low * scale + (double)bias[lane];
    high = high * scale + (double)bias[lane + HALF_PANEL];
    if (call.gated) {
        write_wide(call, first + row, panel * HALF_PANEL + lane, low / (1.0 + exponential(-low)) * high);
    } else {
        write_wide(call, first + row, panel * PANEL + lane, low);
        write_wide(call, first + row, panel * PANEL + lane + HALF_PANEL, high);
    }
}
