// Attention in chunks of 64 keys, for any number of queries.
//
// For one query and head, a chunk gives its largest score, the sum of `p = exp(score - largest)` and the sum of
// `p * value`; chunks are merged in order, then chunks of eight of the path's own keys. Scores against the prefix are one
// chain over the head, against own keys sixteen; values are one chain over the keys of a chunk. Both kernels keep that
// order: one shares keys among 32 queries, the other shares out the keys of one query, and a row's digits are the same,
// however many chunks are gone through at once.
#include "attention.cuh"

#define CHUNK 64
#define OWN_CHUNK 8
// Threads that hold the result of one row, four components and every 64th behind each.
#define LANES 16
#define LEAST -3e38f

#define TILE_ROWS 32
#define TILE_THREADS 128
#define THREAD_ROWS (TILE_ROWS * LANES / TILE_THREADS)

#define ROW_WARPS 12
// Components of keys, and values of a chunk, on their way at once.
#define KEYS 32
#define VALUES 32

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

__device__ __forceinline__ float4 four_at(const float* from) {
    return *reinterpret_cast<const float4*>(from);
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
    float before = exponential_f32(answer->largest - largest), now = exponential_f32(chunk.largest - largest);
    answer->largest = largest;
    answer->sum = fmaf(chunk.sum, now, answer->sum * before);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        answer->value[group] = scaled_sum(chunk.value[group], now, scaled(answer->value[group], before));
    }
}

// The largest value and the sum of the sixteen threads of a row.
__device__ __forceinline__ float largest_of_row(float value) {
    for (int half = LANES / 2; half > 0; half /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}

__device__ __forceinline__ float sum_of_row(float value) {
    for (int half = LANES / 2; half > 0; half /= 2) value += __shfl_xor_sync(0xffffffffu, value, half);
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

// What the path's own keys from `start` on come to, as many as a chunk has; all threads of a warp come here together, each
// for its own row.
template <int GROUPS>
__device__ __forceinline__ void attend_own_chunk(const Attention& call, i64 row, int head, bool live, const float* query,
                                                 int start, Answer<GROUPS>* chunk) {
    int lane = threadIdx.x % LANES, head_dim = call.head_dim;
    i64 path = row / call.tokens;
    i64 place = (path * call.heads + head) * call.suffix_capacity * head_dim;
    // Own keys stand behind the prefix, of which the oldest may be hidden.
    int hidden = call.hidden - count(call.context, call.live);
    int end = live ? call.seen + (int)(row % call.tokens) : 0;
    // What is not seen is loaded from elsewhere and thrown away.
    auto place_of = [&](int index, int component) {
        int token = start + index;
        bool sees = token < end && token >= hidden;
        return place + (sees ? token * head_dim : 0) + (component < head_dim ? component : 0);
    };
    float4 values[OWN_CHUNK];
    auto load_values = [&](int component) {
#pragma unroll
        for (int index = 0; index < OWN_CHUNK; index++) values[index] = four_at(call.suffix_values + place_of(index, component));
    };
    // Together with the keys, if registers allow.
    if (GROUPS == 1) load_values(4 * lane);
    float scores[OWN_CHUNK];
    clear(chunk);
#pragma unroll
    for (int index = 0; index < OWN_CHUNK; index++) {
        scores[index] = 0.0f;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = 4 * (lane + LANES * group);
            bool inside = component < head_dim;
            float4 key = four_at(call.suffix_keys + place_of(index, component)), asked = four_at(query + (inside ? component : 0));
            float sum = fmaf(asked.x, key.x, fmaf(asked.y, key.y, fmaf(asked.z, key.z, fmaf(asked.w, key.w, scores[index]))));
            scores[index] = inside ? sum : scores[index];
        }
    }
    // Added as `sum_of_row` adds, but a thread goes on with half of the keys each time, until it has one.
#pragma unroll
    for (int half = LANES / 2, count = OWN_CHUNK / 2; count > 0; half /= 2, count /= 2) {
#pragma unroll
        for (int index = 0; index < count; index++) {
            bool upper = lane & half;
            float kept = upper ? scores[index + count] : scores[index], given = upper ? scores[index] : scores[index + count];
            scores[index] = kept + __shfl_xor_sync(0xffffffffu, given, half);
        }
    }
    float score = scores[0] + __shfl_xor_sync(0xffffffffu, scores[0], 1);
    int own = start + lane / 2;
    bool sees_own = own < end && own >= hidden;
    chunk->largest = largest_of_row(sees_own ? score : LEAST);
    float weight = sees_own ? exponential_f32(score - chunk->largest) : 0.0f, weights[OWN_CHUNK];
#pragma unroll
    for (int index = 0; index < OWN_CHUNK; index++) {
        weights[index] = __shfl_sync(0xffffffffu, weight, threadIdx.x % 32 / LANES * LANES + 2 * index);
        chunk->sum += weights[index];
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        int component = 4 * (lane + LANES * group);
        if (component >= head_dim) continue;
        if (GROUPS > 1) load_values(component);
#pragma unroll
        for (int index = 0; index < OWN_CHUNK; index++) {
            // Nothing times what is not seen may be no number.
            float4 sum = scaled_sum(values[index], weights[index], chunk->value[group]);
            if (start + index < end && start + index >= hidden) chunk->value[group] = sum;
        }
    }
}

// Own keys that the last of a path's queries sees.
__device__ __forceinline__ int own_keys(const Attention& call) {
    return call.tokens == 0 ? 0 : call.seen + call.tokens - 1;
}

template <int GROUPS>
__device__ __forceinline__ void write_answer(const Attention& call, i64 row, int head, const Answer<GROUPS>& answer) {
    float inverse = 1.0f / answer.sum;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        int component = 4 * (threadIdx.x % LANES + LANES * group);
        if (component >= call.head_dim) continue;
        float* to = call.output + row * call.output_width + head * call.head_dim + component;
        *reinterpret_cast<float4*>(to) = scaled(answer.value[group], inverse);
    }
}

// Many queries. Grid: tiles of 32 rows of one series, heads, series. The block's `SHARERS` groups of 128 threads take
// chunks side by side and leave what they come to in shared memory, from where it is merged in order. In a group, sixteen
// threads own four rows: in turn four keys of their scores, and four components (and every 64th behind) of their answers.
template <int GROUPS, int SHARERS>
struct Tile {
    const Attention& call;
    int lane, sharer, member, band, head_dim, result_stride;
    // Where this group's next chunk starts, and the end of the keys that any row sees.
    int start, end;
    // [32, head_dim + 4]; for each group [32, `result_stride`], [head_dim, 64] and [64, head_dim].
    float *queries, *results, *keys, *values;
    const float *all_keys, *all_values;

    // Four numbers of every row's result stand behind its exponents or components.
    __device__ __forceinline__ Tile(const Attention& attention, float* memory, i64 prefix, int first, int last)
        : call(attention), head_dim(attention.head_dim) {
        lane = threadIdx.x % LANES, sharer = threadIdx.x / TILE_THREADS, member = threadIdx.x % TILE_THREADS;
        band = member / LANES, start = first + sharer * CHUNK, end = last;
        result_stride = (head_dim < CHUNK ? CHUNK : head_dim) + 4;
        queries = memory;
        results = queries + TILE_ROWS * (head_dim + 4);
        keys = results + SHARERS * TILE_ROWS * result_stride + sharer * 2 * CHUNK * head_dim;
        values = keys + CHUNK * head_dim;
        all_keys = attention.prefix_keys + prefix, all_values = attention.prefix_values + prefix;
    }

    // How many keys a chunk from here has; none behind the end.
    __device__ __forceinline__ int keys_from(int place) const {
        return place >= end ? 0 : end - place < CHUNK ? end - place : CHUNK;
    }

    __device__ __forceinline__ float* row_result(int group, int row) const {
        return results + (group * TILE_ROWS + row) * result_stride;
    }

    __device__ __forceinline__ void send_keys(int place) const {
        int limit = keys_from(place);
        if (call.prefix_capacity % 4 == 0) {
            // Keys beyond the limit are never looked at, but lie within the cache.
            int last = call.prefix_capacity - place - 4;
            for (int index = member; index < (limit > 0 ? head_dim * (CHUNK / 4) : 0); index += TILE_THREADS) {
                int component = index / (CHUNK / 4), key = index % (CHUNK / 4) * 4;
                const float* from = all_keys + (i64)component * call.prefix_capacity + place;
                copy_ahead(keys + component * CHUNK + key, from + (key < last ? key : last));
            }
        } else {
            for (int index = member; index < head_dim * CHUNK; index += TILE_THREADS) {
                int component = index / CHUNK, key = index % CHUNK;
                if (key < limit) keys[index] = all_keys[(i64)component * call.prefix_capacity + place + key];
            }
        }
        end_copies();
    }

    __device__ __forceinline__ void send_values(int place) const {
        int limit = keys_from(place);
        for (int index = member; index < limit * (head_dim / 4); index += TILE_THREADS) {
            copy_ahead(values + 4 * index, all_values + (i64)place * head_dim + 4 * index);
        }
        end_copies();
        // Values go four by four.
        for (int index = limit * head_dim + member; index < (limit + 3) / 4 * 4 * head_dim; index += TILE_THREADS) {
            values[index] = 0.0f;
        }
    }

    // Four keys of four rows each.
    __device__ __forceinline__ void score(float4 (&scores)[THREAD_ROWS]) const {
#pragma unroll
        for (int index = 0; index < THREAD_ROWS; index++) scores[index] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
        for (int component = 0; component < head_dim; component += 4) {
            float4 four[4];
#pragma unroll
            for (int next = 0; next < 4; next++) four[next] = four_at(keys + (component + next) * CHUNK + 4 * lane);
#pragma unroll
            for (int index = 0; index < THREAD_ROWS; index++) {
                float4 asked = four_at(queries + (band * THREAD_ROWS + index) * (head_dim + 4) + component);
                scores[index] = scaled_sum(four[0], asked.x, scores[index]);
                scores[index] = scaled_sum(four[1], asked.y, scores[index]);
                scores[index] = scaled_sum(four[2], asked.z, scores[index]);
                scores[index] = scaled_sum(four[3], asked.w, scores[index]);
            }
        }
    }

    // Exponents of the keys between `hidden` and the last that a row sees, with the largest score and their sum.
    __device__ __forceinline__ void weigh(const Window& window, int first, int hidden,
                                          const float4 (&scores)[THREAD_ROWS]) const {
#pragma unroll
        for (int index = 0; index < THREAD_ROWS; index++) {
            int row = band * THREAD_ROWS + index;
            int visible = visible_keys(window, first + row) - start, key = 4 * lane, from = hidden - start;
            auto sees = [&](int next) { return key + next < visible && key + next >= from; };
            float4 score = scores[index], p = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            score.x = sees(0) ? score.x : LEAST;
            score.y = sees(1) ? score.y : LEAST;
            score.z = sees(2) ? score.z : LEAST;
            score.w = sees(3) ? score.w : LEAST;
            float largest = largest_of_row(fmaxf(fmaxf(score.x, score.y), fmaxf(score.z, score.w)));
            if (sees(0)) p.x = exponential_f32(score.x - largest);
            if (sees(1)) p.y = exponential_f32(score.y - largest);
            if (sees(2)) p.z = exponential_f32(score.z - largest);
            if (sees(3)) p.w = exponential_f32(score.w - largest);
            float sum = sum_of_row((p.x + p.y) + (p.z + p.w));
            float* result = row_result(sharer, row);
            *reinterpret_cast<float4*>(result + key) = p;
            if (lane == 0) *reinterpret_cast<float2*>(result + result_stride - 4) = make_float2(largest, sum);
        }
    }

    // The chunk's values times exponents, in whose place they are left.
    __device__ __forceinline__ void add_values() const {
        float4 sums[THREAD_ROWS][GROUPS];
#pragma unroll
        for (int index = 0; index < THREAD_ROWS * GROUPS; index++) {
            sums[index / GROUPS][index % GROUPS] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        int limit = keys_from(start);
        for (int key = 0; key < limit; key += 4) {
            float4 p[THREAD_ROWS];
#pragma unroll
            for (int index = 0; index < THREAD_ROWS; index++) {
                p[index] = four_at(row_result(sharer, band * THREAD_ROWS + index) + key);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                int component = 4 * (lane + LANES * group);
                if (component >= head_dim) continue;
                float4 four[4];
#pragma unroll
                for (int next = 0; next < 4; next++) four[next] = four_at(values + (key + next) * head_dim + component);
#pragma unroll
                for (int index = 0; index < THREAD_ROWS; index++) {
                    float4& sum = sums[index][group];
                    sum = scaled_sum(four[0], p[index].x, sum);
                    sum = scaled_sum(four[1], p[index].y, sum);
                    sum = scaled_sum(four[2], p[index].z, sum);
                    sum = scaled_sum(four[3], p[index].w, sum);
                }
            }
        }
        __syncwarp();
#pragma unroll
        for (int index = 0; index < THREAD_ROWS; index++) {
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                int component = 4 * (lane + LANES * group);
                float* result = row_result(sharer, band * THREAD_ROWS + index) + component;
                if (component < head_dim) *reinterpret_cast<float4*>(result) = sums[index][group];
            }
        }
    }

    // Merges what the groups came to for a row, whose sixteen threads come here.
    __device__ __forceinline__ void merge_chunks(int row, Answer<GROUPS>* answer) const {
#pragma unroll
        for (int group = 0; group < SHARERS; group++) {
            // The first group's chunk comes first.
            if (start + (group - sharer) * CHUNK >= end) break;
            const float* result = row_result(group, row);
            Answer<GROUPS> chunk;
            float2 numbers = *reinterpret_cast<const float2*>(result + result_stride - 4);
            chunk.largest = numbers.x, chunk.sum = numbers.y;
#pragma unroll
            for (int part = 0; part < GROUPS; part++) {
                int component = 4 * (lane + LANES * part);
                chunk.value[part] = four_at(result + (component < head_dim ? component : 0));
            }
            if (chunk.largest > LEAST) merge(answer, chunk);
        }
    }
};

template <int GROUPS, int SHARERS>
__device__ __forceinline__ void attend_tile(const Attention& call) {
    const int THREADS = SHARERS * TILE_THREADS, OWNED = TILE_ROWS * LANES / THREADS;
    SHARED_MEMORY(memory);
    int series = count(call.series, call.live);
    if ((int)blockIdx.z >= series) return;
    Window window = window_of(call, series);
    int head = blockIdx.y, head_dim = call.head_dim;
    // The longest first.
    int first = (gridDim.x - 1 - blockIdx.x) * TILE_ROWS;
    if (first >= window.series_rows) return;
    i64 first_row = (i64)blockIdx.z * window.series_rows + first;
    int rows = window.series_rows - first < TILE_ROWS ? window.series_rows - first : TILE_ROWS;
    int common = visible_keys(window, first + rows - 1), hidden = hidden_keys(call, window);
    i64 prefix = ((i64)blockIdx.z * call.heads + head) * head_dim * call.prefix_capacity;
    int first_chunk = hidden / CHUNK * CHUNK;
    Tile<GROUPS, SHARERS> tile(call, memory, prefix, first_chunk, common);
    tile.send_keys(tile.start);
    tile.send_values(tile.start);
    int query_stride = head_dim + 4;
    for (int index = threadIdx.x; index < TILE_ROWS * head_dim / 4; index += THREADS) {
        int row = index / (head_dim / 4), component = index % (head_dim / 4) * 4;
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < rows) {
            four = four_at(call.query + (first_row + row) * call.query_width + call.query_column + head * head_dim + component);
        }
        *reinterpret_cast<float4*>(tile.queries + row * query_stride + component) = four;
    }
    Answer<GROUPS> answers[OWNED];
#pragma unroll
    for (int index = 0; index < OWNED; index++) clear(&answers[index]);
    int own_row = threadIdx.x / LANES * OWNED;
    for (int round = first_chunk; round < common; round += SHARERS * CHUNK) {
        wait_for_copies<1>();
        __syncthreads();
        float4 scores[THREAD_ROWS];
        bool has_chunk = tile.start < common;
        if (has_chunk) tile.score(scores);
        __syncthreads();
        tile.send_keys(tile.start + SHARERS * CHUNK);
        if (has_chunk) tile.weigh(window, first, hidden, scores);
        wait_for_copies<1>();
        __syncthreads();
        if (has_chunk) tile.add_values();
        __syncthreads();
#pragma unroll
        for (int index = 0; index < OWNED; index++) tile.merge_chunks(own_row + index, &answers[index]);
        tile.start += SHARERS * CHUNK;
        tile.send_values(tile.start);
    }
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int index = 0; index < OWNED; index++) {
        int row = own_row + index;
        for (int start = 0; start < own_keys(call); start += OWN_CHUNK) {
            Answer<GROUPS> chunk;
            attend_own_chunk(call, first_row + row, head, row < rows, tile.queries + row * query_stride, start, &chunk);
            merge(&answers[index], chunk);
        }
        if (row < rows) write_answer(call, first_row + row, head, answers[index]);
    }
}

// Few queries. Grid: rows of one series, heads, series. The warps take chunks of keys in turn, then of own ones.
template <int GROUPS>
__device__ __forceinline__ void attend_row(const Attention& call) {
    SHARED_MEMORY(memory);
    int series = count(call.series, call.live);
    if ((int)blockIdx.z >= series) return;
    Window window = window_of(call, series);
    int row = blockIdx.x, head = blockIdx.y, head_dim = call.head_dim;
    if (row >= window.series_rows) return;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 first_row = (i64)blockIdx.z * window.series_rows + row;
    int visible = visible_keys(window, row), hidden = hidden_keys(call, window);
    // [head_dim], [warps, 64], then for each chunk the largest score, the sum and [head_dim].
    float* query = memory;
    float* exponents = query + head_dim + warp * CHUNK;
    float* chunks = query + head_dim + ROW_WARPS * CHUNK;
    int chunk_stride = head_dim + 4;
    const float* asked = call.query + first_row * call.query_width + call.query_column + head * head_dim;
    for (int component = threadIdx.x; component < head_dim; component += 32 * ROW_WARPS) query[component] = asked[component];
    __syncthreads();
    i64 prefix = ((i64)blockIdx.z * call.heads + head) * head_dim * call.prefix_capacity;
    int first_chunk = hidden / CHUNK;
    for (int chunk = first_chunk + warp; chunk * CHUNK < visible; chunk += ROW_WARPS) {
        int key = chunk * CHUNK + 2 * lane;
        bool low = key < visible && key >= hidden, high = key + 1 < visible && key + 1 >= hidden;
        float scores[2] = {0.0f, 0.0f};
        const float* from = call.prefix_keys + prefix;
        auto add = [&](int component, float low_key, float high_key) {
            scores[0] = fmaf(low_key, query[component], scores[0]);
            scores[1] = fmaf(high_key, query[component], scores[1]);
        };
        // Keys beyond the visible ones are never looked at, but lie within the cache.
        if (call.prefix_capacity % 2 == 0) {
            from += key < call.prefix_capacity ? key : 0;
            for (int start = 0; start < head_dim; start += KEYS) {
                float2 pairs[KEYS];
#pragma unroll
                for (int next = 0; next < KEYS; next++) {
                    int component = start + next < head_dim ? start + next : head_dim - 1;
                    pairs[next] = *reinterpret_cast<const float2*>(from + (i64)component * call.prefix_capacity);
                }
#pragma unroll
                for (int next = 0; next < KEYS; next++) {
                    if (start + next < head_dim) add(start + next, pairs[next].x, pairs[next].y);
                }
            }
        } else {
            int first_key = low ? key : 0, second_key = high ? key + 1 : 0;
#pragma unroll 16
            for (int component = 0; component < head_dim; component++) {
                const float* both = from + (i64)component * call.prefix_capacity;
                add(component, both[first_key], both[second_key]);
            }
        }
        float largest = largest_of_warp(fmaxf(low ? scores[0] : LEAST, high ? scores[1] : LEAST));
        float2 p = make_float2(low ? exponential_f32(scores[0] - largest) : 0.0f,
                               high ? exponential_f32(scores[1] - largest) : 0.0f);
        // As sixteen threads with four keys each would add them.
        float sum = p.x + p.y;
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        for (int half = 16; half > 1; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
        __syncwarp();
        *reinterpret_cast<float2*>(exponents + 2 * lane) = p;
        __syncwarp();
        float* result = chunks + (chunk - first_chunk) * chunk_stride;
        int limit = visible - chunk * CHUNK < CHUNK ? visible - chunk * CHUNK : CHUNK;
        for (int component = 2 * lane; component < head_dim; component += 64) {
            const float* values = call.prefix_values + prefix + (i64)chunk * CHUNK * head_dim + component;
            float2 total = make_float2(0.0f, 0.0f);
            // Beyond the limit exponents are zero, and the last value stands in.
            for (int start = 0; start < limit; start += VALUES) {
                float2 some[VALUES];
#pragma unroll
                for (int next = 0; next < VALUES; next++) {
                    int index = start + next < limit ? start + next : limit - 1;
                    some[next] = *reinterpret_cast<const float2*>(values + (i64)index * head_dim);
                }
#pragma unroll
                for (int next = 0; next < VALUES; next++) {
                    total.x = fmaf(some[next].x, exponents[start + next], total.x);
                    total.y = fmaf(some[next].y, exponents[start + next], total.y);
                }
            }
            result[4 + component] = total.x;
            result[5 + component] = total.y;
        }
        if (lane == 0) {
            result[0] = largest;
            result[1] = sum;
        }
    }
    // Own chunks stand behind those of the prefix; their warps follow, too, so that few have both.
    int prefix_chunks = visible > first_chunk * CHUNK ? (visible - 1) / CHUNK + 1 - first_chunk : 0;
    int own_chunks = (own_keys(call) + OWN_CHUNK - 1) / OWN_CHUNK;
    for (int own = (warp + ROW_WARPS - prefix_chunks % ROW_WARPS) % ROW_WARPS; own < own_chunks; own += ROW_WARPS) {
        Answer<GROUPS> chunk;
        attend_own_chunk(call, first_row, head, true, query, own * OWN_CHUNK, &chunk);
        float* result = chunks + (prefix_chunks + own) * chunk_stride;
        // Both halves of the warp hold the row; one writes it.
        if (lane >= LANES) continue;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = 4 * (lane + LANES * group);
            if (component < head_dim) *reinterpret_cast<float4*>(result + 4 + component) = chunk.value[group];
        }
        if (lane == 0) result[0] = chunk.largest, result[1] = chunk.sum;
    }
    __syncthreads();
    if (warp > 0) return;
    Answer<GROUPS> answer;
    clear(&answer);
    for (int chunk = 0; chunk < prefix_chunks + own_chunks; chunk++) {
        const float* result = chunks + chunk * chunk_stride;
        Answer<GROUPS> part;
        clear(&part);
        part.largest = result[0];
        part.sum = result[1];
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = 4 * (lane % LANES + LANES * group);
            if (component < head_dim) part.value[group] = four_at(result + 4 + component);
        }
        if (part.largest > LEAST) merge(&answer, part);
    }
    if (lane < LANES) write_answer(call, first_row, head, answer);
}

// Named by the most components of a head and, for tiles, by the chunks at once.
KERNEL_AHEAD(attend_tile_64_1, Attention, TILE_THREADS, 4) {
    wait_for_previous();
    attend_tile<1, 1>(call);
}
KERNEL_AHEAD(attend_tile_64_2, Attention, 2 * TILE_THREADS, 2) {
    wait_for_previous();
    attend_tile<1, 2>(call);
}
KERNEL_AHEAD(attend_tile_64_4, Attention, 4 * TILE_THREADS, 1) {
    wait_for_previous();
    attend_tile<1, 4>(call);
}
KERNEL(attend_tile_128_1, Attention, TILE_THREADS) {
    attend_tile<2, 1>(call);
}
KERNEL(attend_tile_128_2, Attention, 2 * TILE_THREADS) {
    attend_tile<2, 2>(call);
}
KERNEL(attend_tile_256_1, Attention, TILE_THREADS) {
    attend_tile<4, 1>(call);
}
KERNEL(attend_row_64, Attention, 32 * ROW_WARPS) {
    attend_row<1>(call);
}
KERNEL(attend_row_128, Attention, 32 * ROW_WARPS) {
    attend_row<2>(call);
}
KERNEL(attend_row_256, Attention, 32 * ROW_WARPS) {
    attend_row<4>(call);
}
