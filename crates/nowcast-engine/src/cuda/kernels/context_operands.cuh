// A context's keys and values as right operands of tensor cores, cut once for all queries that paths have of it.
#pragma once

#include "attention_operands.cuh"

// Of a chunk of one head: scales of its keys and of the components of its values; keys [4 shares, groups, 4 steps, parts, 32]
// and values [groups, 4 shares, 4 steps, parts, 32] of four words: both columns of a lane.
#define SCALE_WORDS(GROUPS) (CHUNK + GROUPS * GROUP)
#define SHARE_WORDS(FORMAT) (CHUNK_STEPS * STEP_WORDS(FORMAT))
#define SIDE_WORDS(FORMAT, GROUPS) (CHUNK_WARPS * GROUPS * SHARE_WORDS(FORMAT))
#define CHUNK_WORDS(FORMAT, GROUPS) (SCALE_WORDS(GROUPS) + 2 * SIDE_WORDS(FORMAT, GROUPS))

#define MOST_CONTEXTS 24

struct CutContext {
    // [series, heads, head_dim, capacity] each.
    const float* keys[MOST_CONTEXTS];
    // [series, heads, capacity, head_dim] each.
    const float* values[MOST_CONTEXTS];
    // [contexts, most series, heads, chunks] of `CHUNK_WORDS`
    u32* operands;
    const Live* live;
    Rows series;
    Rows context;
    int most_series;
    int head_dim;
    int capacity;
    int reserved;
};

// Both columns of a lane at one step.
template <int FORMAT>
__device__ __forceinline__ void load_cut(const u32* step, Cut (&columns)[2]) {
    const uint4* from = reinterpret_cast<const uint4*>(step) + threadIdx.x % 32;
    uint4 near = from[0], rest = FORMAT == SPLIT ? from[32] : make_uint4(0, 0, 0, 0);
    columns[0].near = make_uint2(near.x, near.y), columns[1].near = make_uint2(near.z, near.w);
    columns[0].rest = make_uint2(rest.x, rest.y), columns[1].rest = make_uint2(rest.z, rest.w);
}

// One group of a share, both columns of a lane.
template <int FORMAT>
__device__ __forceinline__ void cut_share(const ChunkPairs& pairs, const float2& top, u32* share) {
    float2 factor = make_float2(factor_for(top.x), factor_for(top.y));
    uint4* to = reinterpret_cast<uint4*>(share) + threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < CHUNK_STEPS; step++) {
        Cut columns[2];
        pairs.cut_step<FORMAT>(step, factor, columns);
        to[step * PARTS_OF(FORMAT) * 32] = make_uint4(columns[0].near.x, columns[0].near.y, columns[1].near.x, columns[1].near.y);
        if (FORMAT == SPLIT) {
            to[(step * PARTS_OF(FORMAT) + 1) * 32] =
                make_uint4(columns[0].rest.x, columns[0].rest.y, columns[1].rest.x, columns[1].rest.y);
        }
    }
}

// Grid: chunks, for each its keys and then every group of its values; heads; most series of every context. Four warps share
// a chunk, as in attention_chunks.cuh.
template <int FORMAT, int GROUPS>
__device__ __forceinline__ void cut_context(const CutContext& call) {
    const int BLOCKS = 1 + GROUPS;
    int chunk = blockIdx.x / BLOCKS, chunks = gridDim.x / BLOCKS, start = chunk * CHUNK, head = blockIdx.y;
    int series = blockIdx.z % call.most_series, which = blockIdx.z / call.most_series;
    int context = count(call.context, call.live), head_dim = call.head_dim;
    if (series >= count(call.series, call.live) || start >= context) return;
    int warp = threadIdx.x / 32, place = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4, column = warp * SHARE + 2 * place;
    u32* operands = call.operands + (((i64)blockIdx.z * gridDim.y + head) * chunks + chunk) * CHUNK_WORDS(FORMAT, GROUPS);
    float* scales = reinterpret_cast<float*>(operands);
    i64 room = ((i64)series * gridDim.y + head) * head_dim * call.capacity;
    float2 top = make_float2(0.0f, 0.0f);
    if (blockIdx.x % BLOCKS == 0) {
        ChunkPairs pairs[GROUPS];
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            pairs[group].load_keys(call.keys[which] + room, call.capacity, head_dim, start + column, group * GROUP + quarter * 4);
        }
#pragma unroll
        for (int group = 0; group < GROUPS; group++) pairs[group].widen(&top);
        top = largest_of_columns(top);
        u32* share = operands + SCALE_WORDS(GROUPS) + warp * GROUPS * SHARE_WORDS(FORMAT);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) cut_share<FORMAT>(pairs[group], top, share + group * SHARE_WORDS(FORMAT));
        if (quarter == 0) *reinterpret_cast<float2*>(scales + column) = make_float2(scale_for(top.x), scale_for(top.y));
        return;
    }
    int group = blockIdx.x % BLOCKS - 1, component = group * GROUP + column;
    ChunkPairs pairs;
    pairs.load_values(call.values[which] + room, head_dim, component, start + quarter * 4, context - 1);
    pairs.widen(&top);
    top = largest_of_columns(top);
    u32* share = operands + SCALE_WORDS(GROUPS) + SIDE_WORDS(FORMAT, GROUPS) + (group * CHUNK_WARPS + warp) * SHARE_WORDS(FORMAT);
    cut_share<FORMAT>(pairs, top, share);
    // What values are multiplied with is cut, too.
    float exponents = power_of_two(-LARGEST_EXPONENT);
    if (quarter > 0) return;
    *reinterpret_cast<float2*>(scales + CHUNK + component) = make_float2(scale_for(top.x) * exponents, scale_for(top.y) * exponents);
}
