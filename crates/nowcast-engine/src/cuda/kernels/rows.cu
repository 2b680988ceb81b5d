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

// Grid: rows.
KERNEL(norm_rows, Norm, 128) {
    __shared__ double parts[128];
    i64 row = blockIdx.x;
    if (row >= count(call.rows, call.live)) return;
    const float* input = call.input + row * call.width;
    double sum = 0.0;
    for (int index = threadIdx.x; index < call.width; index += 128) sum = fma((double)input[index], (double)input[index], sum);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    double factor = 1.0 / sqrt(parts[0] / (double)call.width + (double)call.epsilon);
    for (int index = threadIdx.x; index < call.width; index += 128) {
        call.output[row * call.width + index] = (float)((double)input[index] * factor) * call.scale[index];
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
