// Products of many rows: tiles of 64 rows and 64 columns, staged through shared memory sixteen inputs at a time.
#include "linear.cuh"

#define TILE_ROWS 64
#define STEP 16
#define GROUPS (STEP / 4)
// One group of four values more than a step, so that rows lie in different banks.
#define ROW_STRIDE (STEP + 4)
#define THREADS 128
#define THREAD_ROWS 8

// Scales of all rows under root-mean-square normalisation. Grid: blocks of 8 rows; threads: 16 for each row.
struct RowScale {
    const float* input;
    double* row_scale;
    const Live* live;
    Rows rows;
    int inputs;
    float epsilon;
};

KERNEL(row_scale, RowScale, 128) {
    __shared__ double parts[128];
    i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 16;
    bool inside = row < count(call.rows, call.live);
    int part = threadIdx.x % 16;
    parts[threadIdx.x] = inside ? part_of_squares(call.input + row * call.inputs, part, call.inputs) : 0.0;
    __syncthreads();
    if (inside && part == 0) {
        call.row_scale[row] = inverse_root_mean_square(parts + threadIdx.x, call.inputs, call.epsilon);
    }
}

// Grid: blocks of 64 rows, pairs of panels. A thread owns 8 rows and 4 columns: its lane in both halves of two panels.
KERNEL(linear_tiled, Linear, THREADS) {
    __shared__ float4 weights[2][GROUPS][2 * PANEL];
    __shared__ float4 values[2][TILE_ROWS * ROW_STRIDE / 4];
    i64 rows = count(call.rows, call.live);
    i64 first = (i64)blockIdx.x * TILE_ROWS;
    if (first >= rows) return;
    int panel = call.first_panel + 2 * blockIdx.y;
    int per_panel = call.gated ? HALF_PANEL : PANEL;
    int last_panel = (call.first_column + call.columns - 1) / per_panel;
    // The second panel of the last pair may not exist: then the first stands in, and nothing is written.
    bool pair = panel + 1 <= last_panel;
    int lane = threadIdx.x % 16, band = threadIdx.x / 16;

    const float4* weight = reinterpret_cast<const float4*>(call.weight);
    i64 panel_size = (i64)(call.padded / 4) * PANEL;
    float4 next_weights[GROUPS * 2 * PANEL / THREADS];
    float4 next_values[TILE_ROWS * GROUPS / THREADS];

    auto fetch = [&](int start) {
#pragma unroll
        for (int part = 0; part < GROUPS * 2 * PANEL / THREADS; part++) {
            int index = threadIdx.x + part * THREADS;
            int group = index / (2 * PANEL), column = index % (2 * PANEL);
            int source = column < PANEL || !pair ? panel : panel + 1;
            next_weights[part] = weight[source * panel_size + (i64)(start / 4 + group) * PANEL + column % PANEL];
        }
#pragma unroll
        for (int part = 0; part < TILE_ROWS * GROUPS / THREADS; part++) {
            int index = threadIdx.x + part * THREADS;
            i64 row = first + index / GROUPS;
            int input = start + index % GROUPS * 4;
            float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (row < rows) four = four_inputs(call.input + row * call.inputs, input, call.inputs);
            next_values[part] = four;
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int part = 0; part < GROUPS * 2 * PANEL / THREADS; part++) {
            int index = threadIdx.x + part * THREADS;
            weights[buffer][index / (2 * PANEL)][index % (2 * PANEL)] = next_weights[part];
        }
#pragma unroll
        for (int part = 0; part < TILE_ROWS * GROUPS / THREADS; part++) {
            int index = threadIdx.x + part * THREADS;
            values[buffer][index / GROUPS * (ROW_STRIDE / 4) + index % GROUPS] = next_values[part];
        }
    };

    float totals[THREAD_ROWS][4], chains[THREAD_ROWS][4];
#pragma unroll
    for (int row = 0; row < THREAD_ROWS; row++) {
#pragma unroll
        for (int column = 0; column < 4; column++) totals[row][column] = chains[row][column] = 0.0f;
    }
    fetch(0);
    store(0);
    __syncthreads();
    int buffer = 0;
    for (int start = 0; start < call.padded; start += STEP) {
        bool more = start + STEP < call.padded;
        if (more) fetch(start + STEP);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float4 columns[4];
#pragma unroll
            for (int column = 0; column < 4; column++) columns[column] = weights[buffer][group][lane + 16 * column];
#pragma unroll
            for (int row = 0; row < THREAD_ROWS; row++) {
                float4 x = values[buffer][(band + 8 * row) * (ROW_STRIDE / 4) + group];
#pragma unroll
                for (int column = 0; column < 4; column++) {
                    float chain = chains[row][column];
                    chain = fmaf(x.x, columns[column].x, chain);
                    chain = fmaf(x.y, columns[column].y, chain);
                    chain = fmaf(x.z, columns[column].z, chain);
                    chains[row][column] = fmaf(x.w, columns[column].w, chain);
                }
            }
        }
        int end = start + STEP;
        if ((end & (call.depth - 1)) == 0) {
#pragma unroll
            for (int row = 0; row < THREAD_ROWS; row++) {
#pragma unroll
                for (int column = 0; column < 4; column++) {
                    totals[row][column] = end == call.depth ? chains[row][column] : totals[row][column] + chains[row][column];
                    chains[row][column] = 0.0f;
                }
            }
        }
        if (more) {
            buffer ^= 1;
            store(buffer);
            __syncthreads();
        }
    }
#pragma unroll
    for (int index = 0; index < THREAD_ROWS; index++) {
        i64 row = first + band + 8 * index;
        if (row >= rows) continue;
        float scale = call.has_norm ? (float)call.row_scale[row] : 1.0f;
        finish_pair_at(call, row, panel, lane, totals[index][0], totals[index][1], scale);
        if (pair) finish_pair_at(call, row, panel + 1, lane, totals[index][2], totals[index][3], scale);
    }
}
