// What the kernels of attention are told.
#pragma once

#include "own_tokens.cuh"

struct Attention {
    // Rows of [heads, head_dim] from `query_column` on; where keys are appended, queries are rotated in place.
    float* query;
    // [series, heads, head_dim, capacity]
    float* prefix_keys;
    // [series, heads, capacity, head_dim]
    float* prefix_values;
    // [paths, heads, suffix_capacity, head_dim] each, or null; all in the first where own tokens are packed.
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
    // What results are multiplied by and cut with for the product behind, whose inputs they are, in the order of warpgroups; 0
    // where they stay as they are. And whether that is one of bf16.
    float result_factor;
    int hands_bf16;
    // Chunks that there is room for, and rounds of them that are in shared memory together.
    int chunks;
    int stages;
    // Whether own tokens are as own_tokens.cuh has them.
    int packs_own;
    // Whether queries, keys and values are cut by the product that made them, as its results are: bf16, in the order of
    // warpgroups. Of sixteens of columns only, by `attend_rows` with packed own tokens alone.
    int takes_operands;
};

// Whether they are, for kernels that `CAN_PACK`: beside products of f32 they never are.
template <bool CAN_PACK>
__device__ __forceinline__ bool packs_own(const Attention& call) {
    return CAN_PACK && call.packs_own;
}

// The query of a head in a row.
__device__ __forceinline__ const float* query_at(const Attention& call, i64 row, int head, int head_dim) {
    return call.query + row * call.query_width + call.query_column + head * head_dim;
}

// Where the newest own key, and value, of a path belongs.
__device__ __forceinline__ i64 newest_room(const Attention& call, i64 path, int head, int head_dim) {
    return ((path * call.heads + head) * call.suffix_capacity + call.seen - 1) * head_dim;
}
