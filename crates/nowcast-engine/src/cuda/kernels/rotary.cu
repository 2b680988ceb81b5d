// Rotary positions: the table of a pass, queries in place, keys and values on their way into the cache.
#include "plan.cuh"
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
    // Whether every row takes the last row of the table.
    int last;
};

// One thread for each row, head and pair.
KERNEL(rotate_query, RotateQuery, 256) {
    i64 index = thread_index();
    int pairs = call.head_dim / 2;
    i64 row = index / (call.heads * pairs);
    if (row >= count(call.rows, call.live)) return;
    int head = (int)(index / pairs % call.heads), pair = (int)(index % pairs);
    int positions = count(call.positions, call.live);
    i64 position = call.last ? positions - 1 : row % positions;
    const float* cosine = call.table + position * 4 * call.head_dim;
    const float* sine = cosine + call.head_dim;
    float* values = call.tensor + row * call.width + call.column + head * call.head_dim;
    int first, second;
    pair_of(pair, call.head_dim, call.interleaved, &first, &second);
    float a = values[first], b = values[second];
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
    int reserved;
};

#define APPEND_WARPS 4
#define APPEND_THREADS (32 * APPEND_WARPS)
// Tokens of a context that are turned together from rows into columns.
#define TURNED 32

// A head of one row on its way into the cache.
struct Append {
    const AppendCache& call;
    // Where this head's queries, keys and values of the row are.
    float* queries;
    const float *keys, *values;
    // The cosines of its position for queries; sines follow, then both for keys.
    const float* cosines;

    __device__ __forceinline__ Append(const AppendCache& append, int row, int token, int head) : call(append) {
        float* from = call.input + (i64)row * call.width + head * call.head_dim;
        queries = from + call.query_column, keys = from + call.key_column, values = from + call.value_column;
        cosines = call.table + (i64)token * 4 * call.head_dim;
    }

    // The pair of keys, rotated; queries are rotated in place.
    __device__ __forceinline__ float2 key(int first, int second) const {
        float a = keys[first], b = keys[second];
        if (!call.table) return make_float2(a, b);
        const float *sines = cosines + call.head_dim, *key_cosines = sines + call.head_dim;
        const float* key_sines = key_cosines + call.head_dim;
        if (call.query_column >= 0) {
            float c = queries[first], d = queries[second];
            queries[first] = c * cosines[first] + d * sines[first];
            queries[second] = d * cosines[second] + c * sines[second];
        }
        return make_float2(a * key_cosines[first] + b * key_sines[first], b * key_cosines[second] + a * key_sines[second]);
    }
};

// A path's own tokens. A warp takes a head of one row.
KERNEL(append_own, AppendCache, APPEND_THREADS) {
    int unit = blockIdx.x * APPEND_WARPS + threadIdx.x / 32, head = unit % call.heads, row = unit / call.heads;
    if (row >= count(call.rows, call.live)) return;
    int tokens = count(call.tokens, call.live), sequence = row / tokens, token = row % tokens;
    Append append(call, row, token, head);
    i64 room = (((i64)sequence * call.heads + head) * call.capacity + call.first + token) * call.head_dim;
    for (int pair = threadIdx.x % 32; pair < call.head_dim / 2; pair += 32) {
        int first, second;
        pair_of(pair, call.head_dim, call.interleaved, &first, &second);
        float2 key = append.key(first, second);
        call.keys[room + first] = key.x;
        call.keys[room + second] = key.y;
        call.values[room + first] = append.values[first];
        call.values[room + second] = append.values[second];
    }
}

// A context's tokens; its keys lie transposed. Grid: 32 tokens of one series, heads, series.
KERNEL(append_context, AppendCache, APPEND_THREADS) {
    SHARED_MEMORY(turned);
    int tokens = count(call.tokens, call.live), start = blockIdx.x * TURNED, head = blockIdx.y, sequence = blockIdx.z;
    if (start >= tokens || sequence >= count(call.rows, call.live) / tokens) return;
    int live = tokens - start < TURNED ? tokens - start : TURNED, head_dim = call.head_dim, pairs = head_dim / 2;
    i64 room = ((i64)sequence * call.heads + head) * head_dim * call.capacity;
    float* values = call.values + room + (i64)(call.first + start) * head_dim;
    for (int index = threadIdx.x; index < live * pairs; index += APPEND_THREADS) {
        int token = index / pairs, first, second;
        pair_of(index % pairs, head_dim, call.interleaved, &first, &second);
        Append append(call, sequence * tokens + start + token, start + token, head);
        float2 key = append.key(first, second);
        // A gap behind every component keeps them in different banks.
        turned[first * (TURNED + 1) + token] = key.x;
        turned[second * (TURNED + 1) + token] = key.y;
        values[token * head_dim + first] = append.values[first];
        values[token * head_dim + second] = append.values[second];
    }
    __syncthreads();
    float* keys = call.keys + room + call.first + start;
    for (int index = threadIdx.x; index < head_dim * TURNED; index += APPEND_THREADS) {
        int component = index / TURNED, token = index % TURNED;
        if (token < live) keys[(i64)component * call.capacity + token] = turned[component * (TURNED + 1) + token];
    }
}
