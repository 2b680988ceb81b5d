// Tokens: from integers to embeddings, from signs to integers.
#include "plan.cuh"
#include "token.cuh"

struct RepeatRows {
    // [series, width] and [series, samples, width]
    const float* input;
    float* output;
    const Live* live;
    Rows rows;
    int width;
    int reserved;
};

// One thread for each value of the output.
KERNEL(repeat_rows, RepeatRows, 256) {
    i64 index = thread_index();
    i64 row = index / call.width;
    if (row >= count(call.rows, call.live)) return;
    call.output[index] = call.input[row / call.live->samples * call.width + index % call.width];
}

#define MOST_TERMS 8

struct EmbedTerm {
    const float* table;
    // [groups, length, columns]
    const int* index;
    Rows index_rows;
    Rows groups;
    // First row of every group.
    Rows first;
    int columns;
    int column;
    int width;
    int output_column;
};

struct Embed {
    // [outer, tokens, width]
    float* output;
    const Live* live;
    Rows rows;
    Rows tokens;
    int width;
    int terms;
    // Whether the sum goes on from what stands there.
    int continues;
    int reserved;
    EmbedTerm term[MOST_TERMS];
};

// Where the row of a term begins among its indices.
__device__ inline i64 source_of(const EmbedTerm& term, const Live& live, int row, int rows, int tokens) {
    int outer = rows / tokens, item = row / tokens, groups = count(term.groups, &live);
    if (groups < 1) groups = 1;
    // Outer items share groups evenly.
    int group = groups == outer ? item : groups == 1 ? 0 : (int)((i64)item * groups / outer);
    int length = groups > 1 ? count(term.index_rows, &live) / groups : 0;
    i64 source = (i64)group * length + count(term.first, &live) + row % tokens;
    return source * term.columns + term.column;
}

// Grid: rows, some columns each. One thread for each value of the output; the first ones find a term's row of its table.
KERNEL_AHEAD(embed, Embed, 256, 1) {
    // Null where there is no token.
    __shared__ const float* entries[MOST_TERMS];
    const Live live = *call.live;
    int row = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x, rows = count(call.rows, &live);
    int tokens = count(call.tokens, &live);
    bool is_live = row < rows, finds = is_live && (int)threadIdx.x < call.terms;
    const EmbedTerm& own = call.term[finds ? threadIdx.x : 0];
    i64 source = finds ? source_of(own, live, row, rows, tokens < 1 ? 1 : tokens) : 0;
    wait_for_previous();
    if (!is_live) return;
    if (finds) {
        int entry = own.index[source];
        entries[threadIdx.x] = entry != NO_TOKEN ? own.table + (i64)entry * own.width : nullptr;
    }
    __syncthreads();
    if (column >= call.width) return;
    i64 index = (i64)row * call.width + column;
    float values[MOST_TERMS], sum = call.continues ? call.output[index] : 0.0f;
    bool counts[MOST_TERMS];
    // All are asked for together.
#pragma unroll
    for (int which = 0; which < MOST_TERMS; which++) {
        int place = column - call.term[which].output_column;
        counts[which] = which < call.terms && place >= 0 && place < call.term[which].width;
        const float* entry = counts[which] ? entries[which] : nullptr;
        values[which] = entry ? entry[place] : __int_as_float(0x7fc00000);
    }
#pragma unroll
    for (int which = 0; which < MOST_TERMS; which++) {
        if (counts[which]) sum += values[which];
    }
    call.output[index] = sum;
}

struct QuantiseBits {
    // [rows, bits]
    const float* input;
    // [rows, 2]
    int* output;
    const Live* live;
    Rows rows;
    int bits;
    int first_bits;
};

// One thread for each row.
KERNEL(quantise_bits, QuantiseBits, 256) {
    i64 row = thread_index();
    if (row >= count(call.rows, call.live)) return;
    const float* values = call.input + row * call.bits;
    int first = 0, second = 0;
    bool first_missing = false, second_missing = false;
    for (int bit = call.first_bits - 1; bit >= 0; bit--) {
        first = first << 1 | (values[bit] > 0.0f);
        first_missing |= values[bit] != values[bit];
    }
    for (int bit = call.bits - 1; bit >= call.first_bits; bit--) {
        second = second << 1 | (values[bit] > 0.0f);
        second_missing |= values[bit] != values[bit];
    }
    call.output[2 * row] = first_missing ? NO_TOKEN : first;
    call.output[2 * row + 1] = second_missing ? NO_TOKEN : second;
}
