// Rotary positions: the table of a pass, queries in place, keys and values on their way into the cache.
#include "own_tokens.cuh"
#include "rotary.cuh"

struct RotaryTable {
    // Frequency of every pair, then the xPos base of every component, in f64.
    const double* constants;
    // [positions, 4 head_dim]: cosine and sine for queries, cosine and sine for keys.
    float* table;
    const Live* live;
    Rows rows;
    // Position of the first row.
    Rows first;
    // Tokens up to the end of the pass: xPos is anchored at half of the last one's position.
    Rows seen;
    int head_dim;
    int interleaved;
    int has_decay;
    // Positions are divided by this.
    float scale_base;
};

// One thread for each position and component. Where the table goes others may still read.
KERNEL_AHEAD(rotary_table, RotaryTable, 256, 1) {
    i64 index = thread_index();
    int width = call.head_dim;
    bool is_live = index < (i64)count(call.rows, call.live) * width;
    int row = (int)(index / width), component = (int)(index % width);
    int position = count(call.first, call.live) + row;
    int anchor = (count(call.seen, call.live) - 1) / 2;
    int pair = call.interleaved ? component / 2 : component % (width / 2);
    double sine = 0.0, cosine = 0.0, factor = 1.0;
    if (is_live) {
        double angle = (double)position * call.constants[pair];
        if (call.has_decay) {
            double power = ((double)position - (double)anchor) / (double)call.scale_base;
            factor = pow(call.constants[width / 2 + component], power);
        }
        sine = sin(angle), cosine = cos(angle);
        bool is_first = call.interleaved ? component % 2 == 0 : component < width / 2;
        if (is_first) sine = -sine;
    }
    wait_for_previous();
    if (!is_live) return;
    float* entry = call.table + (i64)row * 4 * width + component;
    entry[0] = (float)(cosine * factor);
    entry[width] = (float)(sine * factor);
    entry[2 * width] = (float)(cosine / factor);
    entry[3 * width] = (float)(sine / factor);
}

struct RotateQuery {
    // [rows, width]
    float* tensor;
    const float* table;
    const Live* live;
    Rows rows;
    // Rows of the table.
    Rows positions;
    int width;
    int column;
    int heads;
    int head_dim;
    int interleaved;
    // Whether queries are rounded before, because their keys and values are packed.
    int packs_own;
};

// One thread for each row, head and pair.
KERNEL(rotate_query, RotateQuery, 256) {
    i64 index = thread_index();
    int pairs = call.head_dim / 2;
    i64 row = index / (call.heads * pairs);
    if (row >= count(call.rows, call.live)) return;
    int head = (int)(index / pairs % call.heads), pair = (int)(index % pairs);
    int positions = count(call.positions, call.live);
    const float* cosine = call.table + row % positions * 4 * call.head_dim;
    const float* sine = cosine + call.head_dim;
    float* values = call.tensor + row * call.width + call.column + head * call.head_dim;
    int first, second;
    pair_of(pair, call.head_dim, call.interleaved, &first, &second);
    float a = values[first], b = values[second];
    if (call.packs_own) a = nearest_bf16(a), b = nearest_bf16(b);
    values[first] = a * cosine[first] + b * sine[first];
    values[second] = b * cosine[second] + a * sine[second];
}

struct AppendCache {
    // [rows, width]; queries, if any, are rotated in place.
    float* input;
    // Null where keys are not rotated.
    const float* table;
    // [sequences, heads, capacity, head_dim]; of a context [series, heads, head_dim, capacity].
    float* keys;
    // [sequences, heads, capacity, head_dim]
    float* values;
    const Live* live;
    Rows rows;
    // Tokens of one series or path, one row of the table each.
    Rows tokens;
    int width;
    int key_column;
    int value_column;
    int heads;
    int head_dim;
    int interleaved;
    // Tokens there is room for.
    int capacity;
    // Place of the first token.
    int first;
    // First column of queries to rotate by the same table, or -1.
    int query_column;
    // Whether own tokens are as own_tokens.cuh has them, all in `keys`.
    int packs_own;
};

#define OWN_WARPS 4
// Tokens of a context that are turned together from rows into columns, each by a warp.
#define TURNED 16

// A pair of components of a row's head on its way into the cache, rotated. Its queries are rotated in place.
struct AppendedPair {
    int first, second;
    float2 key, value;

    // All of it is loaded before any is written: the compiler cannot know that they lie apart.
    __device__ __forceinline__ AppendedPair(const AppendCache& call, int row, int token, int head, int pair) {
        pair_of(pair, call.head_dim, call.interleaved, &first, &second);
        float* from = call.input + (i64)row * call.width + head * call.head_dim;
        auto at = [&](int column) { return make_float2(from[column + first], from[column + second]); };
        bool has_queries = call.query_column >= 0;
        float2 query = at(has_queries ? call.query_column : call.key_column);
        key = at(call.key_column), value = at(call.value_column);
        if (call.packs_own) query = nearest_bf16(query), key = nearest_bf16(key);
        if (!call.table) return;
        RotaryPair rotary(call.table + (i64)token * 4 * call.head_dim, call.head_dim, first, second);
        key = rotary.key(key);
        if (!has_queries) return;
        query = rotary.query(query);
        from[call.query_column + first] = query.x;
        from[call.query_column + second] = query.y;
    }
};

// A path's own tokens. A warp takes some pairs of a head of one row. Grid: heads of rows, pieces of 32 pairs.
KERNEL_AHEAD(append_own, AppendCache, 32 * OWN_WARPS, 1) {
    int unit = blockIdx.x * OWN_WARPS + threadIdx.x / 32, head = unit % call.heads, row = unit / call.heads;
    int index = blockIdx.y * 32 + threadIdx.x % 32;
    if (row >= count(call.rows, call.live)) return wait_for_previous();
    int tokens = count(call.tokens, call.live), sequence = row / tokens, token = row % tokens;
    i64 room = (((i64)sequence * call.heads + head) * call.capacity + call.first + token) * call.head_dim;
    known_now(head), known_now(token), known_now(room);
    wait_for_previous();
    if (index >= call.head_dim / 2) return;
    AppendedPair pair(call, row, token, head, index);
    if (call.packs_own) pair.key = packed_own(pair.key, pair.value);
    call.keys[room + pair.first] = pair.key.x;
    call.keys[room + pair.second] = pair.key.y;
    if (call.packs_own) return;
    call.values[room + pair.first] = pair.value.x;
    call.values[room + pair.second] = pair.value.y;
}

// A context's tokens; its keys lie transposed. Grid: some tokens of one series, heads, series.
KERNEL_AHEAD(append_context, AppendCache, 32 * TURNED, 1) {
    SHARED_MEMORY(turned);
    int tokens = count(call.tokens, call.live), start = blockIdx.x * TURNED, head = blockIdx.y, sequence = blockIdx.z;
    if (start >= tokens || sequence >= count(call.rows, call.live) / tokens) return wait_for_previous();
    int live = tokens - start < TURNED ? tokens - start : TURNED, head_dim = call.head_dim, own = threadIdx.x / 32;
    i64 room = ((i64)sequence * call.heads + head) * head_dim * call.capacity;
    float* values = call.values + room + (i64)(call.first + start + own) * head_dim;
    known_now(values);
    wait_for_previous();
    for (int index = threadIdx.x % 32; own < live && index < head_dim / 2; index += 32) {
        AppendedPair pair(call, sequence * tokens + start + own, start + own, head, index);
        // A gap behind every component keeps them in different banks.
        turned[pair.first * (TURNED + 1) + own] = pair.key.x;
        turned[pair.second * (TURNED + 1) + own] = pair.key.y;
        values[pair.first] = pair.value.x;
        values[pair.second] = pair.value.y;
    }
    __syncthreads();
    float* keys = call.keys + room + call.first + start;
    for (int index = threadIdx.x; index < head_dim * TURNED; index += 32 * TURNED) {
        int component = index / TURNED, token = index % TURNED;
        if (token < live) keys[(i64)component * call.capacity + token] = turned[component * (TURNED + 1) + token];
    }
}
