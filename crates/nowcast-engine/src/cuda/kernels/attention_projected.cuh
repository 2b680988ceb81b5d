// Attention of up to eight tokens over themselves, in one launch with the projections that it begins with: a cluster has a
// head, each of its blocks eight components of the head's queries, keys and values.
//
// A block's components are a part of every score; blocks tell each other these parts, and the rest needs no other block.
#pragma once

#include "cluster.cuh"
#include "linear_streamed.cuh"

// Bands of a head, one for each block of its cluster.
#define HEAD_BANDS 8

struct ProjectedAttention {
    // Queries, keys and values, all heads of each; its results go no further.
    Product projection;
    // Cosines and sines of each token, for queries and for keys.
    const float* table;
    // [series, heads, head_dim, capacity]
    float* keys;
    // [series, heads, capacity, head_dim]
    float* values;
    // [series, tokens] rows of [heads, head_dim]; operands of the product behind if the projection cuts results.
    float* output;
    Rows tokens;
    int heads;
    int capacity;
};

#ifdef HAS_CLUSTERS
// Takes the projections; a thread finishes one row and column of queries, keys or values, then a part of a score.
template <int FORMAT>
struct HeadAttention {
    static const bool HAS_MANY_BANDS = false;
    static const int RESULTS = BAND * BAND, HEAD_DIM = HEAD_BANDS * BAND;
    // Queries, keys and values, `[rows, components]` each; a part of every score from each block, `[rows, tokens]`.
    static const int WORDS = (3 + HEAD_BANDS) * RESULTS;

    const ProjectedAttention& call;
    // Place among the blocks of the head.
    int rank, head;
    // Row, and component of the block or token of the row's series.
    int row, column;
    // Queries 0, keys 1, values 2.
    int kind;
    ColumnPair columns;
    // The row's series, its token, and the row of the first token.
    int series, token, start;
    // Where they stand in the table, and cosines and sines of the pair that the thread rotates.
    const float* entry;
    float2 cosine, sine;

    __device__ __forceinline__ explicit HeadAttention(const ProjectedAttention& attention) : call(attention) {
        rank = blockIdx.x % HEAD_BANDS, head = blockIdx.x / HEAD_BANDS;
        row = threadIdx.x / BAND % BAND, column = threadIdx.x % BAND, kind = threadIdx.x / RESULTS;
    }

    __device__ __forceinline__ int band(int which) const {
        return (which * call.heads + head) * HEAD_BANDS + rank;
    }

    __device__ __forceinline__ void begin() {
        if (kind < 3) columns = load_columns(call.projection, band(kind), band(kind), column);
        int tokens = count(call.tokens, call.projection.live), turning = threadIdx.x / 4 % BAND;
        series = row / tokens, start = series * tokens, token = row - start;
        turning -= turning / tokens * tokens;
        entry = call.table + (turning * 4 + threadIdx.x / 32 * 2) * HEAD_DIM + rank * BAND + threadIdx.x % 4 * 2;
    }

    // Threads 0 to 63 rotate a pair of a query or of a key.
    __device__ __forceinline__ void prepare(int) {
        if (threadIdx.x >= RESULTS) return;
        cosine = *reinterpret_cast<const float2*>(entry);
        sine = *reinterpret_cast<const float2*>(entry + HEAD_DIM);
    }

    template <typename Total>
    __device__ __forceinline__ void finish(int rows, float scale, float* own, Total total) {
        float *queries = own, *keys = own + RESULTS, *values = own + 2 * RESULTS, *parts = own + 3 * RESULTS;
        if (kind < 3 && row < rows) {
            own[threadIdx.x] = total(kind) * columns.scale_low * scale + columns.bias_low;
        }
        __syncthreads();
        i64 place = ((i64)series * call.heads + head) * HEAD_DIM;
        if (kind == 0) {
            float2* pair = reinterpret_cast<float2*>(own) + threadIdx.x;
            float x = pair->x, y = pair->y;
            *pair = make_float2(x * cosine.x + y * sine.x, y * cosine.y + x * sine.y);
        } else if (kind == 1 && row < rows) {
            call.values[place * call.capacity + token * HEAD_DIM + rank * BAND + column] = values[row * BAND + column];
        }
        __syncthreads();
        if (kind == 1 && row < rows) {
            call.keys[(place + rank * BAND + column) * call.capacity + token] = keys[row * BAND + column];
        }
        // A part of the score of this row's query with the key of token `column` of its series.
        int key = start + column;
        bool sees = row < rows && key <= row;
        const float *asked = queries + row * BAND, *asks = keys + (sees ? key : 0) * BAND;
        float part = 0.0f;
#pragma unroll
        for (int component = 0; component < BAND; component++) part = fmaf(asked[component], asks[component], part);
        // Nothing is stored in a block that has yet to start.
        wait_in_cluster();
        int score_place = row * BAND + column;
#pragma unroll
        for (int peer = kind; peer < HEAD_BANDS; peer += 4) *in_peer(parts + rank * RESULTS + score_place, peer) = part;
        arrive_in_cluster();
        wait_in_cluster();
        if (kind > 0) return;
        float score = parts[score_place];
#pragma unroll
        for (int other = 1; other < HEAD_BANDS; other++) score += parts[other * RESULTS + score_place];
        float largest = sees ? score : -3.40282347e+38f;
        for (int half = BAND / 2; half > 0; half /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, half));
        float exponent = sees ? exponential_f32(score - largest) : 0.0f;
        float sum = exponent;
        for (int half = BAND / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
        // From here on `column` is a component again.
        float result = 0.0f;
#pragma unroll
        for (int other = 0; other < BAND; other++) {
            float weight = __shfl_sync(0xffffffffu, exponent, threadIdx.x % 32 / BAND * BAND + other);
            if (start + other <= row) result = fmaf(weight, values[(start + other) * BAND + column], result);
        }
        if (row < rows) {
            int to = row * call.heads * HEAD_DIM + head * HEAD_DIM + rank * BAND + column;
            if (hands_over(call.projection)) {
                to = place_of_operand<FORMAT>(row, head * HEAD_DIM + rank * BAND + column);
                write_operand<FORMAT>(call.output, to, result * (1.0f / sum) * call.projection.result_factor);
            } else {
                call.output[to] = result * (1.0f / sum);
            }
        }
    }
};
#endif

// Grid: blocks of a head, for each head.
template <int FORMAT>
__device__ __forceinline__ void project_and_attend(const ProjectedAttention& call) {
#ifdef HAS_CLUSTERS
    arrive_in_cluster();
    HeadAttention<FORMAT> attention(call);
    stream_weights<FORMAT>(call.projection, Share(attention.band(0), call.heads * HEAD_BANDS, 3), attention);
#else
    // As `multiply_in_cluster`.
    asm volatile("trap;");
#endif
}
