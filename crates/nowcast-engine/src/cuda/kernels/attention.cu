// Attention over a prefix that rows share, then over each path's own suffix.
//
// For one query and head: a score per key, `p = exp(score - largest)`, the sum of `p`, and the sum of `p * value`
// times its inverse, every sum in the order of the CPU (`cpu/attention`): scores against the prefix are one chain over
// the head, those against the suffix sixteen; the sum of `p` is sixteen partial sums; values are one chain over keys.
#include "attention.cuh"

#define THREADS 128
#define TILE_ROWS 8

// The scalar product in sixteen chains, summed in halves.
__device__ inline float product_in_chains(const float* left, const float* right, int length) {
    float parts[16];
#pragma unroll
    for (int part = 0; part < 16; part++) parts[part] = 0.0f;
    for (int start = 0; start < length; start += 16) {
#pragma unroll
        for (int part = 0; part < 16; part++) {
            if (start + part < length) parts[part] = fmaf(left[start + part], right[start + part], parts[part]);
        }
    }
#pragma unroll
    for (int half = 8; half > 0; half /= 2) {
#pragma unroll
        for (int part = 0; part < half; part++) parts[part] += parts[part + half];
    }
    return parts[0];
}

// Replaces scores by exponentials and returns their sum, for one warp.
__device__ inline float exponentials(float* scores, int keys) {
    int lane = threadIdx.x % 32;
    float largest = __int_as_float(0xff800000);
    for (int key = lane; key < keys; key += 32) largest = fmaxf(largest, scores[key]);
    largest = largest_of_warp(largest);
    __syncwarp();
    for (int key = lane; key < keys; key += 32) scores[key] = exponential_f32(scores[key] - largest);
    __syncwarp();
    float part = 0.0f;
    if (lane < 16) {
        for (int key = lane; key < keys; key += 16) part += scores[key];
    }
    return sum_in_halves(part);
}

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
        scores[row * call.score_stride + context + token] = product_in_chains(queries + row * head_dim, key, head_dim);
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
                const float* own = call.suffix_values + ((first_row + row) / call.tokens * call.heads + head) * room;
                for (; key < context + call.seen + token; key++) {
                    sum = fmaf(p[key], own[(i64)(key - context) * head_dim + component], sum);
                }
            }
            call.output[(first_row + row) * call.output_width + head * head_dim + component] = sum * inverse_sums[row];
        }
    }
}

struct GroupAttention {
    // [batch, variates, inner] rows of queries, keys and values, [heads, head_dim] each.
    const float* input;
    // [batch, variates]
    const int* groups;
    // Rows of [heads, head_dim].
    float* output;
    const Live* live;
    Rows inner;
    int variates;
    int heads;
    int head_dim;
    // Whether shared memory holds a head of all variates.
    int staged;
};

// Values between the variates of a head that is staged, so that their keys lie in different banks.
#define STAGED_GAP 4

// Grid: inner rows, heads, batch. A warp takes one variate after the other.
KERNEL(group_attention, GroupAttention, THREADS) {
    SHARED_MEMORY(memory);
    int inner = count(call.inner, call.live);
    if ((int)blockIdx.x >= inner || (int)blockIdx.z >= call.live->batch) return;
    int variates = call.variates, head_dim = call.head_dim, width = call.heads * head_dim;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int staged_stride = 3 * head_dim + STAGED_GAP, staged_values = call.staged ? variates * staged_stride : 0;
    float* scores = memory + staged_values + warp * 2 * variates;
    int* members = reinterpret_cast<int*>(scores + variates);
    const int* groups = call.groups + (i64)blockIdx.z * variates;
    i64 first_row = (i64)blockIdx.z * variates * inner + blockIdx.x;
    const float* first = call.input + first_row * 3 * width + blockIdx.y * head_dim;
    i64 stride = (i64)inner * 3 * width;
    int part = width;
    if (call.staged) {
        int fours = head_dim / 4;
        for (int index = threadIdx.x; index < variates * 3 * fours; index += THREADS) {
            int variate = index / (3 * fours), which = index / fours % 3, component = index % fours * 4;
            const float* from = first + variate * stride + which * width + component;
            *reinterpret_cast<float4*>(memory + variate * staged_stride + which * head_dim + component) =
                *reinterpret_cast<const float4*>(from);
        }
        first = memory, stride = staged_stride, part = head_dim;
        __syncthreads();
    }
    for (int variate = warp; variate < variates; variate += THREADS / 32) {
        __syncwarp();
        int keys = 0;
        for (int other = 0; other < variates; other++) {
            if (groups[other] != groups[variate]) continue;
            if (lane == 0) members[keys] = other;
            keys++;
        }
        __syncwarp();
        const float* query = first + variate * stride;
        for (int key = lane; key < keys; key += 32) {
            scores[key] = product_in_chains(query, first + members[key] * stride + part, head_dim);
        }
        __syncwarp();
        float sum = exponentials(scores, keys);
        float inverse = 1.0f / __shfl_sync(0xffffffffu, sum, 0);
        float* output = call.output + (first_row + (i64)variate * inner) * width + blockIdx.y * head_dim;
        for (int component = lane; component < head_dim; component += 32) {
            float value = 0.0f;
            for (int key = 0; key < keys; key++) {
                value = fmaf(scores[key], first[members[key] * stride + 2 * part + component], value);
            }
            output[component] = value * inverse;
        }
    }
}
