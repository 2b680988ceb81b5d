// What the kernels of attention are told.
#pragma once

#include "elementary.cuh"

struct Attention {
    // Rows of [heads, head_dim] from `query_column` on; where keys are appended, queries are rotated in place.
    float* query;
    // [series, heads, head_dim, capacity]
    float* prefix_keys;
    // [series, heads, capacity, head_dim]
    float* prefix_values;
    // [paths, heads, suffix_capacity, head_dim] each, or null.
    float* suffix_keys;
    float* suffix_values;
    // Rows of [heads, head_dim], or cut [row bands, output_width / 32, 1, 32].
    float* output;
    // Cosines and sines of the position at which keys are appended.
    const float* table;
    // [series, heads, chunks] as context_operands.cuh has them, where the context was cut before.
    const u32* operands;
    const Live* live;
    Rows series;
    // Query rows of all series.
    Rows rows;
    // Tokens of the prefix.
    Rows context;
    int query_width;
    int query_column;
    int output_width;
    int heads;
    int head_dim;
    int prefix_capacity;
    int suffix_capacity;
    // Queries of one path; 0 where the queries are the last tokens of the prefix themselves.
    int tokens;
    // Suffix tokens that the first query of a path sees.
    int seen;
    // Oldest tokens, of the prefix before own ones, that are no longer seen.
    int hidden;
    // Rows of one block, and room for the scores of one.
    int tile_rows;
    int score_stride;
    // Whether the whole prefix of a head is staged in shared memory.
    int staged;
    // Columns of the newest key and value of every path in its row of queries, to be rotated and put into the cache first;
    // -1 where they are there.
    int key_column;
    int value_column;
    int interleaved;
    // Whether results are cut for the product behind, whose inputs they are: bf16, in the order of warpgroups.
    int cuts_results;
    // Chunks that there is room for, and rounds of them that are in shared memory together.
    int chunks;
    int stages;
};

// The query of a head in a row.
__device__ __forceinline__ const float* query_at(const Attention& call, i64 row, int head, int head_dim) {
    return call.query + row * call.query_width + call.query_column + head * head_dim;
}

// Where the newest own key, and value, of a path belongs.
__device__ __forceinline__ i64 newest_room(const Attention& call, i64 path, int head, int head_dim) {
    return ((path * call.heads + head) * call.suffix_capacity + call.seen - 1) * head_dim;
}
