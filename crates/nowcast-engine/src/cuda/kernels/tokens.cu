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

// Grid: rows, some columns each. One thread for each value of the output.
KERNEL(embed, Embed, 256) {
    int row = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x, rows = count(call.rows, call.live);
    if (row >= rows || column >= call.width) return;
    int tokens = count(call.tokens, call.live);
    if (tokens < 1) tokens = 1;
    int outer = rows / tokens, item = row / tokens;
    // Where each term finds its value, or null; all are asked for together.
    const float* from[MOST_TERMS];
    int entries[MOST_TERMS];
#pragma unroll
    for (int which = 0; which < MOST_TERMS; which++) {
        const EmbedTerm& term = call.term[which];
        int place = column - term.output_column;
        bool counts = which < call.terms && place >= 0 && place < term.width;
        int groups = counts ? count(term.groups, call.live) : 1;
        if (groups < 1) groups = 1;
        // Outer items share groups evenly.
        int group = groups == outer ? item : groups == 1 ? 0 : (int)((i64)item * groups / outer);
        int length = counts && groups > 1 ? count(term.index_rows, call.live) / groups : 0;
        i64 source = (i64)group * length + (counts ? count(term.first, call.live) : 0) + row % tokens;
        entries[which] = counts ? term.index[source * term.columns + term.column] : 0;
        from[which] = counts ? term.table + place : nullptr;
    }
    float values[MOST_TERMS];
#pragma unroll
    for (int which = 0; which < MOST_TERMS; which++) {
        bool is_number = from[which] && entries[which] != NO_TOKEN;
        values[which] = is_number ? from[which][(i64)entries[which] * call.term[which].width] : __int_as_float(0x7fc00000);
    }
    i64 index = (i64)row * call.width + column;
    float sum = call.continues ? call.output[index] : 0.0f;
#pragma unroll
    for (int which = 0; which < MOST_TERMS; which++) {
        if (from[which]) sum += values[which];
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
