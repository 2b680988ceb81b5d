// The newest key and value of every path on their way into the cache, by the block that will ask for them.
#pragma once

#include "attention.cuh"
#include "rotary.cuh"

// Rotates the queries of the block's rows, so many, in place and appends their keys and values. Every path has one query,
// so all stand at one position, and nobody else asks for a row's own key. A warp takes some rows together.
template <typename Block>
__device__ __forceinline__ void append_newest(const Attention& call, i64 first_row, int head, int rows) {
    const int WARPS = Block::THREADS / 32, EACH = Block::ROWS / WARPS, TOGETHER = EACH < 4 ? EACH : 4;
    int head_dim = call.head_dim;
#pragma unroll 1
    for (int index = threadIdx.x % 32; index < head_dim / 2; index += 32) {
        int first, second;
        pair_of(index, head_dim, call.interleaved, &first, &second);
        RotaryPair rotary(call.table, head_dim, first, second);
#pragma unroll 1
        for (int start = threadIdx.x / 32; start < rows; start += WARPS * TOGETHER) {
            float2 queries[TOGETHER], keys[TOGETHER], values[TOGETHER];
            auto row_of = [&](int next) { return call.query + (first_row + start + next * WARPS) * call.query_width + head * head_dim; };
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                const float* row = row_of(start + next * WARPS < rows ? next : 0);
                auto at = [&](int column) { return make_float2(row[column + first], row[column + second]); };
                queries[next] = at(call.query_column), keys[next] = at(call.key_column), values[next] = at(call.value_column);
            }
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                if (start + next * WARPS >= rows) break;
                bool is_packed = packs_own<Block::CAN_PACK>(call);
                if (is_packed) queries[next] = nearest_bf16(queries[next]), keys[next] = nearest_bf16(keys[next]);
                float2 query = rotary.query(queries[next]), key = rotary.key(keys[next]);
                if (is_packed) key = packed_own(key, values[next]);
                float* row = row_of(next) + call.query_column;
                row[first] = query.x, row[second] = query.y;
                i64 room = newest_room(call, first_row + start + next * WARPS, head, head_dim);
                call.suffix_keys[room + first] = key.x, call.suffix_keys[room + second] = key.y;
                if (is_packed) continue;
                call.suffix_values[room + first] = values[next].x, call.suffix_values[room + second] = values[next].y;
            }
        }
    }
}
