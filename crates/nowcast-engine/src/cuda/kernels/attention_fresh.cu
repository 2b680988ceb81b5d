// Attention of a short context over itself, straight from its projections: rotates queries and keys, fills the cache and
// attends. A score is the sum of parts of eight components, added in order, as in attention_projected.cuh.
#include "elementary.cuh"
#include "rotary.cuh"

// Pairs of components of a part of a score.
#define PART_PAIRS 4
// Tokens of a context at most; as many threads as there are pairs of them.
#define MOST_TOKENS 16
#define THREADS (MOST_TOKENS * MOST_TOKENS)

struct FreshAttention {
    // [series, tokens] rows of queries, keys and values, [heads, head_dim] each.
    const float* input;
    // Cosines and sines of each token, for queries and for keys.
    const float* table;
    // [series, heads, head_dim, capacity]
    float* keys;
    // [series, heads, capacity, head_dim]
    float* values;
    // [series, tokens] rows of [heads, head_dim].
    float* output;
    const Live* live;
    Rows series;
    Rows tokens;
    int width;
    int query_column;
    int key_column;
    int value_column;
    int output_width;
    int heads;
    int head_dim;
    int capacity;
    int interleaved;
    int reserved;
};

__device__ __forceinline__ float2* pair_at(float* values) {
    return reinterpret_cast<float2*>(values);
}

// Grid: heads, series. A thread takes pairs of components, then one query with one key.
KERNEL_AHEAD(attend_fresh, FreshAttention, THREADS, 1) {
    SHARED_MEMORY(memory);
    int tokens = count(call.tokens, call.live), series = count(call.series, call.live);
    int head_dim = call.head_dim, pairs = head_dim / 2, head = blockIdx.x;
    // A gap behind every token keeps tokens in different banks.
    int stride = head_dim + 2;
    float* queries = memory;
    float* keys = queries + call.capacity * stride;
    float* values = keys + call.capacity * stride;
    // [tokens, 16], then the inverse sum of each.
    float* exponents = values + call.capacity * stride;
    float* inverses = exponents + call.capacity * MOST_TOKENS;
    wait_for_previous();
    if ((int)blockIdx.y >= series) return;
    i64 first_row = (i64)blockIdx.y * tokens;
    i64 room = ((i64)blockIdx.y * call.heads + head) * head_dim * call.capacity;
    for (int index = threadIdx.x; index < tokens * pairs; index += THREADS) {
        int token = index / pairs, a, b;
        pair_of(index % pairs, head_dim, call.interleaved, &a, &b);
        const float* row = call.input + (first_row + token) * call.width + head * head_dim;
        const float* entry = call.table + (i64)token * 4 * head_dim;
        float c = row[call.query_column + a], d = row[call.query_column + b];
        float x = row[call.key_column + a], y = row[call.key_column + b];
        float low = row[call.value_column + a], high = row[call.value_column + b];
        float rotated_x = x * entry[2 * head_dim + a] + y * entry[3 * head_dim + a];
        float rotated_y = y * entry[2 * head_dim + b] + x * entry[3 * head_dim + b];
        queries[token * stride + a] = c * entry[a] + d * entry[head_dim + a];
        queries[token * stride + b] = d * entry[b] + c * entry[head_dim + b];
        keys[token * stride + a] = rotated_x;
        keys[token * stride + b] = rotated_y;
        values[token * stride + a] = low;
        values[token * stride + b] = high;
        call.keys[room + a * call.capacity + token] = rotated_x;
        call.keys[room + b * call.capacity + token] = rotated_y;
        call.values[room + token * head_dim + a] = low;
        call.values[room + token * head_dim + b] = high;
    }
    __syncthreads();
    int row = threadIdx.x / MOST_TOKENS, key = threadIdx.x % MOST_TOKENS;
    bool sees = row < tokens && key <= row;
    float score = 0.0f;
    const float2* asked = pair_at(queries + (sees ? row : 0) * stride);
    const float2* asks = pair_at(keys + (sees ? key : 0) * stride);
#pragma unroll 2
    for (int first = 0; first < pairs; first += PART_PAIRS) {
        float part = 0.0f;
#pragma unroll
        for (int pair = first; pair < first + PART_PAIRS; pair++) {
            if (pair >= pairs) break;
            part = fmaf(asked[pair].x, asks[pair].x, part);
            part = fmaf(asked[pair].y, asks[pair].y, part);
        }
        score += part;
    }
    float largest = sees ? score : -3.40282347e+38f;
    for (int half = MOST_TOKENS / 2; half > 0; half /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, half));
    float exponent = sees ? exponential_f32(score - largest) : 0.0f;
    float sum = sum_in_halves(exponent);
    if (row < tokens) exponents[threadIdx.x] = exponent;
    if (row < tokens && key == 0) inverses[row] = 1.0f / sum;
    __syncthreads();
    for (int index = threadIdx.x; index < tokens * pairs; index += THREADS) {
        int token = index / pairs, pair = index % pairs;
        float2 total = make_float2(0.0f, 0.0f);
        const float* p = exponents + token * MOST_TOKENS;
#pragma unroll 4
        for (int other = 0; other <= token; other++) {
            float2 value = pair_at(values + other * stride)[pair];
            total.x = fmaf(p[other], value.x, total.x);
            total.y = fmaf(p[other], value.y, total.y);
        }
        float* to = call.output + (first_row + token) * call.output_width + head * head_dim + 2 * pair;
        to[0] = total.x * inverses[token];
        to[1] = total.y * inverses[token];
    }
}
