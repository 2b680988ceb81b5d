// Operations that move or combine rows.
#include "elementary.cuh"

struct PrependLabel {
    // [series, tokens, width]
    const float* input;
    // [series, 1 + tokens, width]
    float* output;
    const float* target;
    const float* exogenous;
    const Live* live;
    Rows series;
    Rows rows;
    int width;
    int variates;
    int exogenous_variates;
    int reserved;
};

// One thread for each value of the output.
KERNEL(prepend_label, PrependLabel, 256) {
    i64 index = thread_index();
    int series = count(call.series, call.live);
    if (series == 0) return;
    i64 length = (i64)count(call.rows, call.live) / series * call.width;
    i64 which = index / (length + call.width), place = index % (length + call.width);
    if (which >= series) return;
    bool is_exogenous = (int)(which % call.variates) >= call.variates - call.exogenous_variates;
    const float* label = is_exogenous ? call.exogenous : call.target;
    call.output[index] = place < call.width ? label[place] : call.input[which * length + place - call.width];
}

#define MOST_LAST_ROWS 4

struct LastRows {
    // [series, tokens, width] and [series, width] each, in words of 32 bits.
    const u32* inputs[MOST_LAST_ROWS];
    u32* outputs[MOST_LAST_ROWS];
    i64 widths[MOST_LAST_ROWS];
    const Live* live;
    Rows series;
    Rows rows;
};

// Grid: blocks of words, tensors. One thread for each word.
KERNEL(last_rows, LastRows, 256) {
    i64 index = thread_index(), width = call.widths[blockIdx.y];
    i64 series = index / width;
    int total = count(call.series, call.live);
    if (series >= total) return;
    i64 tokens = count(call.rows, call.live) / total;
    call.outputs[blockIdx.y][index] = call.inputs[blockIdx.y][((series + 1) * tokens - 1) * width + index % width];
}

struct OverwriteExogenous {
    // [batch, variates, samples, horizon]
    double* paths;
    // [batch, exogenous, known]
    const float* future;
    const Live* live;
    Rows rows;
    int horizon;
    int known;
    int column;
    int columns;
    int variates;
    int exogenous;
};

// One thread for each path and column.
KERNEL(overwrite_exogenous, OverwriteExogenous, 256) {
    i64 index = thread_index();
    i64 row = index / call.columns;
    int column = call.column + (int)(index % call.columns);
    if (row >= count(call.rows, call.live)) return;
    i64 series = row / call.live->samples, item = series / call.variates;
    int exogenous = (int)(series % call.variates) + call.exogenous - call.variates;
    if (exogenous < 0) return;
    call.paths[row * call.horizon + column] = (double)call.future[(item * call.exogenous + exogenous) * call.known + column];
}

struct Add {
    const float* left;
    const float* right;
    float* output;
    const Live* live;
    Rows rows;
    int width;
    int reserved;
};

// One thread for each value.
KERNEL(add_rows, Add, 256) {
    i64 index = thread_index();
    if (index >= (i64)count(call.rows, call.live) * call.width) return;
    call.output[index] = call.left[index] + call.right[index];
}

struct Round {
    const double* input;
    float* output;
    const Live* live;
    Rows rows;
    int width;
    int reserved;
};

// One thread for each value.
KERNEL(round_rows, Round, 256) {
    i64 index = thread_index();
    if (index >= (i64)count(call.rows, call.live) * call.width) return;
    call.output[index] = (float)call.input[index];
}

struct Norm {
    const float* input;
    const float* scale;
    float* output;
    const Live* live;
    Rows rows;
    int width;
    float epsilon;
};

#define NORM_THREADS 128
// Values that a thread asks for together.
#define NORM_ASKED 8

__device__ inline void ask_for_values(float* values, const float* from, int start, int width) {
#pragma unroll
    for (int next = 0; next < NORM_ASKED; next++) {
        int index = start + next * NORM_THREADS;
        values[next] = index < width ? from[index] : 0.0f;
    }
}

// Grid: rows.
KERNEL_AHEAD(norm_rows, Norm, NORM_THREADS, 1) {
    __shared__ double parts[NORM_THREADS];
    i64 row = blockIdx.x;
    bool is_live = row < count(call.rows, call.live);
    wait_for_previous();
    if (!is_live) return;
    const float* input = call.input + row * call.width;
    double sum = 0.0;
    for (int start = threadIdx.x; start < call.width; start += NORM_ASKED * NORM_THREADS) {
        float values[NORM_ASKED];
        ask_for_values(values, input, start, call.width);
#pragma unroll
        for (int next = 0; next < NORM_ASKED; next++) sum = fma((double)values[next], (double)values[next], sum);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    // Every warp adds the upper half to the lower until one is left.
    int lane = threadIdx.x % 32;
    sum = (parts[lane] + parts[lane + 64]) + (parts[lane + 32] + parts[lane + 96]);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    double factor = 1.0 / sqrt(sum / (double)call.width + (double)call.epsilon);
    for (int start = threadIdx.x; start < call.width; start += NORM_ASKED * NORM_THREADS) {
        float values[NORM_ASKED], scales[NORM_ASKED];
        ask_for_values(values, input, start, call.width);
        ask_for_values(scales, call.scale, start, call.width);
#pragma unroll
        for (int next = 0; next < NORM_ASKED; next++) {
            int index = start + next * NORM_THREADS;
            if (index < call.width) call.output[row * call.width + index] = (float)((double)values[next] * factor) * scales[next];
        }
    }
}

struct SwiGlu {
    // [rows, 2 hidden]: gates, then values.
    const float* input;
    // [rows, hidden]
    float* output;
    const Live* live;
    Rows rows;
    int hidden;
    int reserved;
};

// One thread for each output.
KERNEL(swiglu, SwiGlu, 256) {
    i64 index = thread_index();
    i64 row = index / call.hidden;
    if (row >= count(call.rows, call.live)) return;
    const float* gates = call.input + row * 2 * call.hidden + index % call.hidden;
    float gate = gates[0];
    call.output[index] = gate / (1.0f + (float)exponential(-(double)gate)) * gates[call.hidden];
}
