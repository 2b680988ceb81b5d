// What queries know of the keys so far, and a path's own keys, eight at a time on multiply-adds.
#pragma once

#include "attention.cuh"
#include "fragments.cuh"

#define OWN_CHUNK 8
// Threads that hold the result of one row, four components and every 64th behind each.
#define LANES 16
#define LEAST -3e38f

// What the keys so far come to.
template <int GROUPS>
struct Answer {
    float largest, sum;
    float4 value[GROUPS];
};

__device__ __forceinline__ float4 scaled(const float4& x, float factor) {
    return make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
}

// x * factor + y
__device__ __forceinline__ float4 scaled_sum(const float4& x, float factor, const float4& y) {
    return make_float4(fmaf(x.x, factor, y.x), fmaf(x.y, factor, y.y), fmaf(x.z, factor, y.z), fmaf(x.w, factor, y.w));
}

template <int GROUPS>
__device__ __forceinline__ void clear(Answer<GROUPS>* answer) {
    answer->largest = LEAST;
    answer->sum = 0.0f;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) answer->value[group] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

template <int GROUPS>
__device__ __forceinline__ void merge(Answer<GROUPS>* answer, const Answer<GROUPS>& chunk) {
    float largest = fmaxf(answer->largest, chunk.largest);
    float before = exponential_of_negative(answer->largest - largest), now = exponential_of_negative(chunk.largest - largest);
    answer->largest = largest;
    answer->sum = fmaf(chunk.sum, now, answer->sum * before);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        answer->value[group] = scaled_sum(chunk.value[group], now, scaled(answer->value[group], before));
    }
}

// The largest value of the sixteen threads of a row.
__device__ __forceinline__ float largest_of_row(float value) {
    for (int half = LANES / 2; half > 0; half /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}

// What a block knows of its rows.
struct Window {
    int context;
    // Rows of one series, and where the first of them stands among the tokens of the prefix.
    int series_rows;
    int before;
    bool causal;
};

__device__ __forceinline__ Window window_of(const Attention& call, int series) {
    Window window;
    window.context = count(call.context, call.live);
    window.series_rows = count(call.rows, call.live) / series;
    window.causal = call.tokens == 0;
    window.before = window.context - window.series_rows;
    return window;
}

// Prefix keys that a row of a series sees: from `hidden` up to this.
__device__ __forceinline__ int visible_keys(const Window& window, int row) {
    return window.causal ? window.before + row + 1 : window.context;
}

__device__ __forceinline__ int hidden_keys(const Attention& call, const Window& window) {
    return window.causal ? 0 : call.hidden;
}

// Some of the own keys of a row's path, from `start` on: as many as `COUNT`, or the first `LOADED` of them, if no row sees
// more. All threads of a warp come here together, each for its own row.
template <bool CAN_PACK, int GROUPS, int COUNT, int LOADED = COUNT>
struct OwnKeys {
    const float *query, *all_keys, *all_values;
    // Place of the path's keys, the first that is not hidden and the end of those that the row sees.
    i64 place;
    int hidden, end, start, head_dim;
    bool is_packed;
    // Words of both stand among keys until they are asked for.
    float4 keys[GROUPS][LOADED], values[GROUPS][LOADED];

    __device__ __forceinline__ void begin(const Attention& call, const float* asked, int row, int head, int first, bool live) {
        query = asked;
        int path = call.tokens == 1 ? row : row / call.tokens;
        place = ((i64)path * call.heads + head) * call.suffix_capacity * call.head_dim;
        all_keys = call.suffix_keys, all_values = call.suffix_values, head_dim = call.head_dim;
        is_packed = packs_own<CAN_PACK>(call);
        hidden = first, end = live ? call.seen + row - path * call.tokens : 0;
    }

    // Known to the compiler where it is never so.
    __device__ __forceinline__ bool packs() const {
        return CAN_PACK && is_packed;
    }

    __device__ __forceinline__ bool sees(int index) const {
        return start + index < end && start + index >= hidden;
    }

    __device__ __forceinline__ static int component(int group) {
        return 4 * (threadIdx.x % LANES + LANES * group);
    }

    // What is not seen is loaded from elsewhere and thrown away.
    __device__ __forceinline__ void load(const float* from, int group, float4 (&loaded)[LOADED]) const {
        int inside = component(group) < head_dim ? component(group) : 0;
#pragma unroll
        for (int index = 0; index < LOADED; index++) {
            loaded[index] = four_at(from + place + (sees(index) ? (start + index) * head_dim : 0) + inside);
        }
    }

    __device__ __forceinline__ void load_all(const float* from, float4 (&loaded)[GROUPS][LOADED]) const {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) load(from, group, loaded[group]);
    }

    // Keys and values together, if registers allow.
    __device__ __forceinline__ void send(int first) {
        start = first;
        load_all(all_keys, keys);
        if (GROUPS == 1 && !packs()) load_all(all_values, values);
    }

    __device__ __forceinline__ void load_values() {
        if (!packs()) return load_all(all_values, values);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
#pragma unroll
            for (int index = 0; index < LOADED; index++) values[group][index] = packed_value(keys[group][index]);
        }
    }

    // What one of the keys and its value are (of one group), where they have yet to come into the cache: as it will have them.
    __device__ __forceinline__ void replace(int which, const float* key, const float* value) {
        int inside = component(0) < head_dim ? component(0) : 0;
#pragma unroll
        for (int index = 0; index < LOADED; index++) {
            if (start + index != which) continue;
            keys[0][index] = four_at(key + inside);
            if (!packs()) values[0][index] = four_at(value + inside);
        }
    }

    __device__ __forceinline__ void attend(Answer<GROUPS>* chunk) {
        int lane = threadIdx.x % LANES;
        float scores[COUNT];
        float4 asked[GROUPS];
#pragma unroll
        for (int index = 0; index < COUNT; index++) scores[index] = 0.0f;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            asked[group] = four_at(query + (component(group) < head_dim ? component(group) : 0));
        }
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            bool inside = component(group) < head_dim;
            const float4& four = asked[group];
#pragma unroll
            for (int index = 0; index < LOADED; index++) {
                float4 key = packs() ? packed_key(keys[group][index]) : keys[group][index];
                float sum = fmaf(four.x, key.x, fmaf(four.y, key.y, fmaf(four.z, key.z, fmaf(four.w, key.w, scores[index]))));
                scores[index] = inside ? sum : scores[index];
            }
        }
        // In the registers where keys were.
        if (GROUPS > 1 || packs()) load_values();
        // Halves are added, but a thread goes on with half of the keys each time, until it has one.
#pragma unroll
        for (int half = LANES / 2, count = COUNT / 2; half > 0; half /= 2, count /= 2) {
            if (count == 0) scores[0] += __shfl_xor_sync(0xffffffffu, scores[0], half);
#pragma unroll
            for (int index = 0; index < count; index++) {
                bool upper = lane & half;
                float kept = upper ? scores[index + count] : scores[index], given = upper ? scores[index] : scores[index + count];
                scores[index] = kept + __shfl_xor_sync(0xffffffffu, given, half);
            }
        }
        const int SAME = LANES / COUNT;
        bool sees_own = sees(lane / SAME);
        clear(chunk);
        chunk->largest = largest_of_row(sees_own ? scores[0] : LEAST);
        float weight = sees_own ? exponential_of_negative(scores[0] - chunk->largest) : 0.0f, weights[LOADED];
#pragma unroll
        for (int index = 0; index < LOADED; index++) {
            weights[index] = __shfl_sync(0xffffffffu, weight, threadIdx.x % 32 / LANES * LANES + SAME * index);
            chunk->sum += weights[index];
        }
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (component(group) >= head_dim) continue;
#pragma unroll
            for (int index = 0; index < LOADED; index++) {
                // Nothing times what is not seen may be no number.
                float4 sum = scaled_sum(values[group][index], weights[index], chunk->value[group]);
                if (sees(index)) chunk->value[group] = sum;
            }
        }
    }
};

// Own keys that the last of a path's queries sees.
__device__ __forceinline__ int own_keys(const Attention& call) {
    return call.tokens == 0 ? 0 : call.seen + call.tokens - 1;
}

// Four results cut.
template <int FORMAT>
__device__ __forceinline__ void write_operands(const Attention& call, i64 row, int column, const float4& four) {
    u32* words = reinterpret_cast<u32*>(call.output);
    write_pairs<FORMAT>(operands_at<FORMAT>(words, call.output_width, row, column / 16, column % 16 / 4),
                        cut_values<FORMAT>(four, call.result_factor));
}

// Kernels that are `NARROW` stand before products of tf32 or bf16.
template <bool NARROW>
__device__ __forceinline__ void write_four(const Attention& call, i64 row, int column, const float4& four) {
    if (call.result_factor == 0.0f) {
        *reinterpret_cast<float4*>(call.output + row * call.output_width + column) = four;
    } else if (!NARROW) {
        write_operands<SPLIT>(call, row, column, four);
    } else if (call.hands_bf16) {
        write_operands<BRAIN>(call, row, column, four);
    } else {
        write_operands<HALF>(call, row, column, four);
    }
}

template <bool NARROW, int GROUPS>
__device__ __forceinline__ void write_answer(const Attention& call, i64 row, int head, const Answer<GROUPS>& answer) {
    float inverse = 1.0f / answer.sum;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        int component = 4 * (threadIdx.x % LANES + LANES * group);
        if (component >= call.head_dim) continue;
        write_four<NARROW>(call, row, head * call.head_dim + component, scaled(answer.value[group], inverse));
    }
}
