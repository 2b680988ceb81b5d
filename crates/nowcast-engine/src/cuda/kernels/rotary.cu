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
    float* keys;
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
    // Whether keys lie transposed, `[sequences, heads, head_dim, capacity]`.
    int transposed;
    // First column of queries to rotate by the same table, or -1.
    int query_column;
};

// One thread for each row, head and pair.
KERNEL(append_cache, AppendCache, 256) {
    i64 index = thread_index();
    int pairs = call.head_dim / 2;
    i64 row = index / (call.heads * pairs);
    if (row >= count(call.rows, call.live)) return;
    int head = (int)(index / pairs % call.heads), pair = (int)(index % pairs);
    int tokens = count(call.tokens, call.live);
    i64 sequence = row / tokens;
    int token = (int)(row % tokens);
    const float* key = call.input + row * call.width + call.key_column + head * call.head_dim;
    const float* value = call.input + row * call.width + call.value_column + head * call.head_dim;
    int first, second;
    pair_of(pair, call.head_dim, call.interleaved, &first, &second);
    float a = key[first], b = key[second];
    if (call.table) {
        const float* cosine = call.table + (i64)token * 4 * call.head_dim + 2 * call.head_dim;
        const float* sine = cosine + call.head_dim;
        float rotated = a * cosine[first] + b * sine[first];
        b = b * cosine[second] + a * sine[second];
        a = rotated;
        if (call.query_column >= 0) {
            float* query = call.input + row * call.width + call.query_column + head * call.head_dim;
            const float* query_cosine = cosine - 2 * call.head_dim;
            const float* query_sine = cosine - call.head_dim;
            float c = query[first], d = query[second];
            query[first] = c * query_cosine[first] + d * query_sine[first];
            query[second] = d * query_cosine[second] + c * query_sine[second];
        }
    }
    i64 room = (sequence * call.heads + head) * call.head_dim * call.capacity;
    int place = call.first + token;
    float* values = call.values + room + (i64)place * call.head_dim;
    if (call.transposed) {
        call.keys[room + (i64)first * call.capacity + place] = a;
        call.keys[room + (i64)second * call.capacity + place] = b;
    } else {
        call.keys[room + (i64)place * call.head_dim + first] = a;
        call.keys[room + (i64)place * call.head_dim + second] = b;
    }
    values[first] = value[first];
    values[second] = value[second];
}
