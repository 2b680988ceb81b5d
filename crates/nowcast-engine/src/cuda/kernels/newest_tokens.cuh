// The newest queries, keys and values of a block's rows: rotated, kept in shared memory, and put into the cache.
#pragma once

#include "attention.cuh"
#include "rotary.cuh"

// Where keys are to be appended, every path has one query, so all stand at one position, and nobody else asks for a row's own
// key; elsewhere queries are rotated, and keys in the cache, already. A warp takes two of `ROWS` rows, a lane one pair of
// components of each (heads have at most 64). Packed tokens stand among the keys, here too.
template <bool CAN_PACK, int ROWS>
struct NewestTokens {
    // A row and a gap, which keeps rows in different banks.
    static const int STRIDE = 64 + 4, WORDS = 3 * ROWS * STRIDE;
    static const int TOGETHER = 2, WARPS = ROWS / TOGETHER;
    const Attention& call;
    // [3, ROWS, STRIDE]
    float* memory;
    i64 first_row;
    int head, rows, first, second;
    bool has_pair;
    // The first component of the head in this warp's rows.
    float* places[TOGETHER];
    float2 queries[TOGETHER], keys[TOGETHER], values[TOGETHER];
    RotaryPair rotary;

    __device__ __forceinline__ NewestTokens(const Attention& attention, float* room, i64 row, int own_head, int count)
        : call(attention), memory(room), first_row(row), head(own_head), rows(count) {
        int pair = threadIdx.x % 32;
        has_pair = pair < call.head_dim / 2;
        pair_of(has_pair ? pair : 0, call.head_dim, call.interleaved, &first, &second);
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            int row = row_of(next) < rows ? row_of(next) : 0;
            places[next] = call.query + (first_row + row) * call.query_width + head * call.head_dim;
        }
    }

    __device__ __forceinline__ bool appends() const {
        return call.key_column >= 0;
    }
    __device__ __forceinline__ float* query(int row) const {
        return memory + row * STRIDE;
    }
    __device__ __forceinline__ float* key(int row) const {
        return memory + (ROWS + row) * STRIDE;
    }
    __device__ __forceinline__ float* value(int row) const {
        return memory + (2 * ROWS + row) * STRIDE;
    }
    __device__ __forceinline__ static int row_of(int next) {
        return threadIdx.x / 32 + next * WARPS;
    }
    __device__ __forceinline__ float2 at(int next, int column) const {
        reads_are_used(has_pair && row_of(next) < rows);
        float2 pair = make_float2(places[next][column + first], places[next][column + second]);
        reads_are_used(true);
        return pair;
    }

    // All on their way.
    __device__ __forceinline__ void send() {
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            queries[next] = at(next, call.query_column);
            if (appends()) keys[next] = at(next, call.key_column), values[next] = at(next, call.value_column);
        }
        if (appends()) rotary = RotaryPair(call.table, call.head_dim, first, second);
    }
    // Queries alone.
    __device__ __forceinline__ void send_queries() {
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) queries[next] = at(next, call.query_column);
        if (appends()) rotary = RotaryPair(call.table, call.head_dim, first, second);
    }

    static __device__ __forceinline__ void put(float* row, int first, int second, const float2& pair) {
        row[first] = pair.x, row[second] = pair.y;
    }
    static __device__ __forceinline__ void put_for_later(float* row, int first, int second, const float2& pair) {
        kept_for_later(row + first, 1), kept_for_later(row + second, 1);
        put(row, first, second, pair);
    }

    // In their places once the block has met, and in the cache. Queries are put back, rotated, unless others have yet to read
    // them.
    __device__ __forceinline__ void keep(bool puts_back = true) {
        if (!has_pair) return;
        if (!appends()) {
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) put(query(row_of(next)), first, second, queries[next]);
            return;
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            int row = row_of(next);
            bool is_packed = packs_own<CAN_PACK>(call);
            if (is_packed) queries[next] = nearest_bf16(queries[next]), keys[next] = nearest_bf16(keys[next]);
            float2 asked = rotary.query(queries[next]), own = rotary.key(keys[next]);
            queries[next] = asked;
            if (is_packed) own = packed_own(own, values[next]);
            put(query(row), first, second, asked), put(key(row), first, second, own);
            if (!is_packed) put(value(row), first, second, values[next]);
            if (row >= rows) continue;
            if (puts_back) put(places[next] + call.query_column, first, second, asked);
            i64 room = newest_room(call, first_row + row, head, call.head_dim);
            put_for_later(call.suffix_keys + room, first, second, own);
            if (!is_packed) put_for_later(call.suffix_values + room, first, second, values[next]);
        }
    }

    // Queries alone.
    __device__ __forceinline__ void keep_queries() {
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            if (appends()) {
                if (packs_own<CAN_PACK>(call)) queries[next] = nearest_bf16(queries[next]);
                queries[next] = rotary.query(queries[next]);
            }
            if (has_pair) put(query(row_of(next)), first, second, queries[next]);
        }
    }

    // Queries, rotated, where they came from: where they were kept alone.
    __device__ __forceinline__ void put_back() const {
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            if (appends() && has_pair && row_of(next) < rows) put(places[next] + call.query_column, first, second, queries[next]);
        }
    }
};
