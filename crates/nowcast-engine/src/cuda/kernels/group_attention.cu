// Attention between the variates of one time step, within groups, with the sums of the CPU (`cpu/attention/grouped`):
// scores are sixteen chains over the head, the sum of exponentials is sixteen partial sums, values are one chain over keys.
#include "attention_chains.cuh"

#define THREADS 128

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
    int reserved;
};

// Grid: inner rows, heads, batch. A warp takes one variate after the other.
KERNEL(group_attention, GroupAttention, THREADS) {
    SHARED_MEMORY(memory);
    int inner = count(call.inner, call.live);
    if ((int)blockIdx.x >= inner || (int)blockIdx.z >= call.live->batch) return;
    int variates = call.variates, head_dim = call.head_dim, width = call.heads * head_dim;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* scores = memory + warp * 2 * variates;
    int* members = reinterpret_cast<int*>(scores + variates);
    const int* groups = call.groups + (i64)blockIdx.z * variates;
    i64 first_row = (i64)blockIdx.z * variates * inner + blockIdx.x, stride = (i64)inner * 3 * width;
    const float* first = call.input + first_row * 3 * width + blockIdx.y * head_dim;
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
            scores[key] = product_in_chains(query, first + members[key] * stride + width, head_dim);
        }
        __syncwarp();
        float sum = exponentials(scores, keys);
        float inverse = 1.0f / __shfl_sync(0xffffffffu, sum, 0);
        float* output = call.output + (first_row + (i64)variate * inner) * width + blockIdx.y * head_dim;
        for (int component = lane; component < head_dim; component += 32) {
            float value = 0.0f;
            for (int key = 0; key < keys; key++) {
                value = fmaf(scores[key], first[members[key] * stride + 2 * width + component], value);
            }
            output[component] = value * inverse;
        }
    }
}

// Values between what is staged of variates, so that their keys lie in different banks.
#define STAGED_GAP 4
// Inner rows of a block.
#define STAGED_ROWS 2

// The places of a thread among rows of columns that a block goes through.
struct Walk {
    int columns, row, column;
    __device__ explicit Walk(int columns) : columns(columns), row(threadIdx.x / columns), column(threadIdx.x % columns) {}
    __device__ void next() {
        row += THREADS / columns;
        column += THREADS % columns;
        if (column < columns) return;
        column -= columns;
        row++;
    }
};

// The keys of each variate of each inner row of a block, in this order: `counts` of them, whose staged values begin at
// `places` from `firsts` on.
struct Keys {
    int *places, *firsts, *counts;
};

// Orders variates by their groups, by all threads of a block; a barrier follows. Inner rows behind the last have no keys.
__device__ __forceinline__ void order_groups(const int* groups, int variates, int rows, int stride, const Keys& keys) {
    for (int variate = threadIdx.x; variate < variates; variate += THREADS) {
        int own = groups[variate], smaller = 0, before = 0, members = 0;
#pragma unroll 4
        for (int other = 0; other < variates; other++) {
            int group = groups[other];
            smaller += group < own;
            before += group == own && other < variate;
            members += group == own;
        }
#pragma unroll
        for (int row = 0; row < STAGED_ROWS; row++) {
            int entry = variate * STAGED_ROWS + row, start = row * variates + smaller;
            keys.places[start + before] = entry * stride;
            keys.firsts[entry] = start;
            keys.counts[entry] = row < rows ? members : 0;
        }
    }
}

// `product_in_chains` of whole sixteens; the sum, too, stays in registers.
__device__ __forceinline__ float product_of_sixteens(const float* left, const float* right, int length) {
    float parts[16];
#pragma unroll
    for (int part = 0; part < 16; part++) parts[part] = 0.0f;
#pragma unroll 1
    for (int start = 0; start < length; start += 16) {
#pragma unroll
        for (int part = 0; part < 16; part += 4) {
            float4 a = *reinterpret_cast<const float4*>(left + start + part);
            float4 b = *reinterpret_cast<const float4*>(right + start + part);
            parts[part] = fmaf(a.x, b.x, parts[part]);
            parts[part + 1] = fmaf(a.y, b.y, parts[part + 1]);
            parts[part + 2] = fmaf(a.z, b.z, parts[part + 2]);
            parts[part + 3] = fmaf(a.w, b.w, parts[part + 3]);
        }
    }
    float sums[4];
#pragma unroll
    for (int part = 0; part < 4; part++) sums[part] = (parts[part] + parts[part + 8]) + (parts[part + 4] + parts[part + 12]);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// `exponentials` by half a warp: each lane has one of the partial sums.
__device__ __forceinline__ float exponentials_of_half(float* scores, int keys) {
    int lane = threadIdx.x % 16;
    float largest = __int_as_float(0xff800000), part = 0.0f;
#pragma unroll 1
    for (int key = lane; key < keys; key += 16) largest = fmaxf(largest, scores[key]);
    for (int half = 8; half > 0; half /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, half));
#pragma unroll 1
    for (int key = lane; key < keys; key += 16) {
        float exponential = exponential_f32(scores[key] - largest);
        scores[key] = exponential;
        part += exponential;
    }
    return sum_in_halves(part);
}

// The same sums where a head of all variates of some inner rows is staged and made of whole sixteens: a thread takes a query
// and a key, half a warp the scores of a query, and a thread four components of a result. Grid: inner rows, heads, batch.
KERNEL_AHEAD(group_attention_staged, GroupAttention, THREADS, 12) {
    SHARED_MEMORY(memory);
    int variates = call.variates, head_dim = call.head_dim, width = call.heads * head_dim;
    int stride = 3 * head_dim + STAGED_GAP, fours = head_dim / 4, entries = variates * STAGED_ROWS;
    // Behind what is staged of each variate of each inner row, scores and their inverse sums.
    float* scores = memory + entries * stride;
    float* inverses = scores + entries * variates;
    int* known = reinterpret_cast<int*>(inverses + entries);
    Keys keys = {known, known + entries, known + 2 * entries};
    int inner = count(call.inner, call.live), rows = inner - (int)blockIdx.x * STAGED_ROWS;
    wait_for_previous();
    if (rows <= 0 || (int)blockIdx.z >= call.live->batch) return;
    i64 first_row = (i64)blockIdx.z * variates * inner + blockIdx.x * STAGED_ROWS;
    const float* input = call.input + first_row * 3 * width + blockIdx.y * head_dim;
    for (Walk at(fours); at.row < entries; at.next()) {
        int variate = at.row / STAGED_ROWS, row = at.row % STAGED_ROWS;
        if (row >= rows) continue;
        const float* from = input + ((i64)variate * inner + row) * 3 * width + 4 * at.column;
        float* to = memory + at.row * stride + 4 * at.column;
#pragma unroll
        for (int which = 0; which < 3; which++) copy_ahead(to + which * head_dim, from + which * width);
    }
    end_copies();
    order_groups(call.groups + (i64)blockIdx.z * variates, variates, rows, stride, keys);
    wait_for_copies<0>();
    __syncthreads();

    for (unsigned index = threadIdx.x; index < entries * variates; index += THREADS) {
        int entry = index / variates, place = index % variates;
        if (place >= keys.counts[entry]) continue;
        const float* key = memory + keys.places[keys.firsts[entry] + place] + head_dim;
        scores[index] = product_of_sixteens(memory + entry * stride, key, head_dim);
    }
    __syncthreads();
    for (int start = 0; start < entries; start += THREADS / 16) {
        int entry = start + threadIdx.x / 16;
        float sum = exponentials_of_half(scores + entry * variates, entry < entries ? keys.counts[entry] : 0);
        if (entry < entries && threadIdx.x % 16 == 0) inverses[entry] = 1.0f / sum;
    }
    __syncthreads();
    for (Walk at(fours); at.row < entries; at.next()) {
        int component = 4 * at.column, seen = keys.counts[at.row];
        if (seen == 0) continue;
        const float *p = scores + at.row * variates, *values = memory + 2 * head_dim + component;
        const int* places = keys.places + keys.firsts[at.row];
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
        for (int key = 0; key < seen; key++) {
            float4 value = *reinterpret_cast<const float4*>(values + places[key]);
            sum.x = fmaf(p[key], value.x, sum.x);
            sum.y = fmaf(p[key], value.y, sum.y);
            sum.z = fmaf(p[key], value.z, sum.z);
            sum.w = fmaf(p[key], value.w, sum.w);
        }
        float inverse = inverses[at.row];
        i64 row = first_row + (i64)(at.row / STAGED_ROWS) * inner + at.row % STAGED_ROWS;
        float* output = call.output + row * width + blockIdx.y * head_dim + component;
        *reinterpret_cast<float4*>(output) =
            make_float4(sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse);
    }
}
