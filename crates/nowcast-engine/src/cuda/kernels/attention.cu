// Attention over a prefix that rows share, then over each path's own suffix.
//
// For one query and head: a score per key, `p = exp(score - largest)`, the sum of `p`, and the sum of `p * value`
// times its inverse, every sum in the order of the CPU (`cpu/attention`): scores against the prefix are one chain over
// the head, those against the suffix sixteen; the sum of `p` is sixteen partial sums; values are one chain over keys.
#include "attention.cuh"
#include "attention_chains.cuh"

#define THREADS 128
#define TILE_ROWS 8

// An own key among words.
struct PackedKey {
    const float* words;
    __device__ __forceinline__ float operator[](int component) const {
        return packed_key(words[component]);
    }
};

// Grid: tiles of the rows of one series, heads, series.
KERNEL(attention, Attention, THREADS) {
    SHARED_MEMORY(memory);
    __shared__ float inverse_sums[TILE_ROWS];
    int series = count(call.series, call.live);
    if ((int)blockIdx.z >= series) return;
    int head_dim = call.head_dim, head = blockIdx.y;
    int series_rows = count(call.rows, call.live) / series;
    int first = blockIdx.x * call.tile_rows;
    if (first >= series_rows) return;
    int rows = series_rows - first < call.tile_rows ? series_rows - first : call.tile_rows;
    int context = count(call.context, call.live);
    // Causal rows are the last tokens of the prefix: each sees one more than the row before.
    bool causal = call.tokens == 0;
    int before = context - series_rows;
    int common = causal ? before + first + rows : context;

    float* queries = memory;
    float* scores = memory + TILE_ROWS * head_dim;
    i64 first_row = (i64)blockIdx.z * series_rows + first;
    i64 prefix = ((i64)blockIdx.z * call.heads + head) * head_dim * call.prefix_capacity;
    const float* keys = call.prefix_keys + prefix;
    const float* values = call.prefix_values + prefix;
    float* staged = scores + call.tile_rows * call.score_stride;
    int size = head_dim * call.prefix_capacity;
    if (call.staged) {
#pragma unroll 4
        for (int index = 4 * threadIdx.x; index < size; index += 4 * THREADS) {
            float4 key = *reinterpret_cast<const float4*>(keys + index);
            float4 value = *reinterpret_cast<const float4*>(values + index);
            *reinterpret_cast<float4*>(staged + index) = key;
            *reinterpret_cast<float4*>(staged + size + index) = value;
        }
    }
    for (int index = threadIdx.x; index < TILE_ROWS * head_dim; index += THREADS) {
        int row = index / head_dim, component = index % head_dim;
        queries[index] = row < rows ? call.query[(first_row + row) * call.query_width + call.query_column +
                                                 head * head_dim + component]
                                    : 0.0f;
    }
    if (call.staged) {
        keys = staged;
        values = staged + size;
    }
    __syncthreads();

    if (common * rows <= THREADS * 2) {
        // Few keys: one score per thread.
        for (int index = threadIdx.x; index < common * rows; index += THREADS) {
            int row = index / common, key = index % common;
            float sum = 0.0f;
#pragma unroll 8
            for (int component = 0; component < head_dim; component++) {
                sum = fmaf(queries[row * head_dim + component], keys[(i64)component * call.prefix_capacity + key], sum);
            }
            scores[row * call.score_stride + key] = sum;
        }
    } else {
        for (int key = threadIdx.x; key < common; key += THREADS) {
            float sums[TILE_ROWS];
#pragma unroll
            for (int row = 0; row < TILE_ROWS; row++) sums[row] = 0.0f;
#pragma unroll 4
            for (int component = 0; component < head_dim; component++) {
                float value = keys[(i64)component * call.prefix_capacity + key];
#pragma unroll
                for (int row = 0; row < TILE_ROWS; row++) {
                    sums[row] = fmaf(queries[row * head_dim + component], value, sums[row]);
                }
            }
#pragma unroll
            for (int row = 0; row < TILE_ROWS; row++) {
                if (row < rows) scores[row * call.score_stride + key] = sums[row];
            }
        }
    }
    // Keys of the suffix stand behind those of the prefix.
    i64 room = (i64)call.suffix_capacity * head_dim;
    int most = causal ? 0 : call.seen + call.tokens - 1;
    for (int index = threadIdx.x; index < rows * most; index += THREADS) {
        int row = index / most, token = index % most;
        if (token >= call.seen + (first + row) % call.tokens) continue;
        i64 path = (first_row + row) / call.tokens;
        const float* key = call.suffix_keys + (path * call.heads + head) * room + (i64)token * head_dim;
        const float* query = queries + row * head_dim;
        scores[row * call.score_stride + context + token] =
            call.packs_own ? product_in_chains(query, PackedKey{key}, head_dim) : product_in_chains(query, key, head_dim);
    }
    __syncthreads();

    int warp = threadIdx.x / 32;
    for (int row = warp; row < rows; row += THREADS / 32) {
        int token = causal ? 0 : (first + row) % call.tokens;
        int visible = causal ? before + first + row + 1 : context + call.seen + token;
        int hidden = causal ? 0 : call.hidden;
        float sum = exponentials(scores + row * call.score_stride + hidden, visible - hidden);
        if (threadIdx.x % 32 == 0) inverse_sums[row] = 1.0f / sum;
    }
    __syncthreads();

    int span = head_dim < THREADS ? head_dim : THREADS;
    int bands = THREADS / span, band = threadIdx.x / span;
    if (band >= bands) return;
    for (int component = threadIdx.x % span; component < head_dim; component += span) {
        for (int row = band; row < rows; row += bands) {
            int token = causal ? 0 : (first + row) % call.tokens;
            int shared = causal ? before + first + row + 1 : context;
            const float* p = scores + row * call.score_stride;
            float sum = 0.0f;
            int key = causal ? 0 : call.hidden;
#pragma unroll 8
            for (; key < shared; key++) sum = fmaf(p[key], values[(i64)key * head_dim + component], sum);
            if (!causal) {
                const float* own = call.packs_own ? call.suffix_keys : call.suffix_values;
                own += ((first_row + row) / call.tokens * call.heads + head) * room + component;
                u32 half = call.packs_own ? UPPER_HALF : 0xffffffffu;
                for (; key < context + call.seen + token; key++) {
                    u32 word = (u32)__float_as_int(own[(i64)(key - context) * head_dim]);
                    sum = fmaf(p[key], __int_as_float((int)(word & half)), sum);
                }
            }
            call.output[(first_row + row) * call.output_width + head * head_dim + component] = sum * inverse_sums[row];
        }
    }
}
