// Tokens: from integers to embeddings, from signs and logits to integers, with the sums of `token_sampling.rs`.
#include "elementary.cuh"
#include "random.cuh"

struct RepeatRows {
    // [series, width] and [series, samples, width]
    const float* input;
    float* output;
    const Live* live;
    Rows rows;
    int width;
    int reserved;
};

// One thread for each value of the output.
KERNEL(repeat_rows, RepeatRows, 256) {
    i64 index = thread_index();
    i64 row = index / call.width;
    if (row >= count(call.rows, call.live)) return;
    call.output[index] = call.input[row / call.live->samples * call.width + index % call.width];
}

#define MOST_TERMS 8

struct EmbedTerm {
    const float* table;
    // [groups, length, columns]
    const int* index;
    Rows index_rows;
    Rows groups;
    // First row of every group.
    Rows first;
    int columns;
    int column;
    int width;
    int output_column;
};

struct Embed {
    // [outer, tokens, width]
    float* output;
    const Live* live;
    Rows rows;
    Rows tokens;
    int width;
    int terms;
    // Whether the sum goes on from what stands there.
    int continues;
    int reserved;
    EmbedTerm term[MOST_TERMS];
};

// One thread for each value of the output.
KERNEL(embed, Embed, 256) {
    i64 index = thread_index();
    i64 row = index / call.width;
    int column = (int)(index % call.width);
    int rows = count(call.rows, call.live);
    if (row >= rows) return;
    int tokens = count(call.tokens, call.live);
    if (tokens < 1) tokens = 1;
    i64 outer = rows / tokens;
    float sum = call.continues ? call.output[index] : 0.0f;
    for (int which = 0; which < call.terms; which++) {
        const EmbedTerm& term = call.term[which];
        int place = column - term.output_column;
        if (place < 0 || place >= term.width) continue;
        i64 groups = count(term.groups, call.live);
        i64 length = count(term.index_rows, call.live) / (groups > 1 ? groups : 1);
        i64 group = row / tokens * groups / outer;
        i64 source = group * length + count(term.first, call.live) + row % tokens;
        sum += term.table[(i64)term.index[source * term.columns + term.column] * term.width + place];
    }
    call.output[index] = sum;
}

struct QuantiseBits {
    // [rows, bits]
    const float* input;
    // [rows, 2]
    int* output;
    const Live* live;
    Rows rows;
    int bits;
    int first_bits;
};

// One thread for each row.
KERNEL(quantise_bits, QuantiseBits, 256) {
    i64 row = thread_index();
    if (row >= count(call.rows, call.live)) return;
    const float* values = call.input + row * call.bits;
    int first = 0, second = 0;
    for (int bit = call.first_bits - 1; bit >= 0; bit--) first = first << 1 | (values[bit] > 0.0f);
    for (int bit = call.bits - 1; bit >= call.first_bits; bit--) second = second << 1 | (values[bit] > 0.0f);
    call.output[2 * row] = first;
    call.output[2 * row + 1] = second;
}

struct WeighTokens {
    // [rows, vocabulary] each
    const float* logits;
    double* weights;
    const Live* live;
    Rows rows;
    int vocabulary;
    int reserved;
};

#define PARTS 8
#define CANDIDATES 16

// A number that orders like the float; NaN lies below all.
__device__ inline u32 order_of(float value) {
    u32 bits = (u32)__float_as_int(value);
    u32 key = bits >> 31 ? ~bits : bits | 0x80000000u;
    return value != value ? 0u : key;
}

// Values that a thread loads together before it adds them one after the other.
#define TOGETHER 8

// The sum of the weights with keys from `least` on, for the calling thread's part. Adding nothing changes no sum.
__device__ inline double part_of_weights(const double* weights, const u32* keys, int vocabulary, u32 least, int part) {
    double sum = 0.0;
    for (int start = part; start < vocabulary; start += PARTS * TOGETHER) {
        double some[TOGETHER];
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            int index = start + PARTS * next;
            some[next] = index < vocabulary && keys[index] >= least ? weights[index] : 0.0;
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) sum += some[next];
    }
    return sum;
}

// The largest digit whose candidate holds, or 0; every thread of a candidate says whether it does.
__device__ inline int largest_digit(bool holds, int candidate, int* digits) {
    if (threadIdx.x < CANDIDATES) digits[threadIdx.x] = 0;
    __syncthreads();
    if (holds && threadIdx.x % PARTS == 0) digits[candidate] = candidate;
    __syncthreads();
    int largest = 0;
#pragma unroll
    for (int next = 1; next < CANDIDATES; next++) largest = digits[next] > largest ? digits[next] : largest;
    __syncthreads();
    return largest;
}

__device__ inline double sum_of_parts(const double* parts) {
    double sum = 0.0;
    for (int part = 0; part < PARTS; part++) sum += parts[part];
    return sum;
}

// Grid: rows. Threads: 8 parts of the sum for each of 16 candidates of the next 4 bits of a key.
KERNEL(weigh_tokens, WeighTokens, PARTS * CANDIDATES) {
    SHARED_MEMORY(memory);
    __shared__ double parts[CANDIDATES * PARTS];
    __shared__ float warp_largest[4];
    __shared__ int digits[CANDIDATES];
    i64 row = blockIdx.x;
    if (row >= count(call.rows, call.live)) return;
    int vocabulary = call.vocabulary;
    double* weights = reinterpret_cast<double*>(memory);
    u32* keys = reinterpret_cast<u32*>(weights + vocabulary);
    const float* logits = call.logits + row * vocabulary;
    float temperature = call.live->temperature;
    float largest = __int_as_float(0xff800000);
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
        float scaled = logits[index] / temperature;
        keys[index] = order_of(scaled);
        largest = fmaxf(largest, scaled);
    }
    largest = largest_of_warp(largest);
    if (threadIdx.x % 32 == 0) warp_largest[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < 4; warp++) largest = fmaxf(largest, warp_largest[warp]);
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
        weights[index] = exponential((double)(logits[index] / temperature) - (double)largest);
    }
    __syncthreads();

    int part = threadIdx.x % PARTS, candidate = threadIdx.x / PARTS;
    int top_k = call.live->top_k;
    if (top_k > 0 && top_k < vocabulary) {
        u32 least = 0;
        for (int shift = 28; shift >= 0; shift -= 4) {
            u32 key = least | (u32)candidate << shift;
            int kept = 0;
            for (int index = part; index < vocabulary; index += PARTS) kept += keys[index] >= key;
            parts[threadIdx.x] = (double)kept;
            __syncthreads();
            bool holds = sum_of_parts(parts + candidate * PARTS) >= (double)top_k;
            least |= (u32)largest_digit(holds, candidate, digits) << shift;
        }
        for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
            if (keys[index] < least) weights[index] = 0.0;
        }
        __syncthreads();
    }
    double top_p = call.live->top_p;
    if (top_p < 1.0 && (top_k == 0 || call.live->both_filters)) {
        if (candidate == 0) parts[part] = part_of_weights(weights, keys, vocabulary, 0, part);
        __syncthreads();
        double most = top_p * sum_of_parts(parts);
        __syncthreads();
        u32 last = 0;
        for (int shift = 28; shift >= 0; shift -= 4) {
            parts[threadIdx.x] = part_of_weights(weights, keys, vocabulary, last | (u32)candidate << shift, part);
            __syncthreads();
            bool holds = sum_of_parts(parts + candidate * PARTS) > most;
            last |= (u32)largest_digit(holds, candidate, digits) << shift;
        }
        if (candidate == 0) parts[part] = last == 0xffffffffu ? 0.0 : part_of_weights(weights, keys, vocabulary, last + 1, part);
        __syncthreads();
        for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
            if (keys[index] < last) weights[index] = 0.0;
        }
        if (threadIdx.x < 32) {
            // Among tokens of the last logit, the first ones are kept: every lane goes through them in order.
            double kept = sum_of_parts(parts);
            for (int start = 0; start < vocabulary; start += 32) {
                int own = start + threadIdx.x;
                u32 ties = __ballot_sync(0xffffffffu, own < vocabulary && keys[own] == last);
                for (int lane = 0; lane < 32 && ties >> lane; lane++) {
                    if (!(ties >> lane & 1)) continue;
                    bool keeps = kept <= most;
                    if (keeps) kept += weights[start + lane];
                    __syncwarp();
                    if (!keeps && lane == (int)threadIdx.x) weights[start + lane] = 0.0;
                }
            }
        }
        __syncthreads();
    }
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
        call.weights[row * vocabulary + index] = weights[index];
    }
}

struct DrawToken {
    // [rows, vocabulary]
    const double* weights;
    // [series]
    const u32* streams;
    // [paths, width]
    int* tokens;
    const Live* live;
    // Rows of `tokens`.
    Rows rows;
    int vocabulary;
    int width;
    int column;
    int step;
    int position;
    // Whether the samples of a series share one row of weights.
    int shared;
};

// Grid: paths.
KERNEL(draw_token, DrawToken, 128) {
    SHARED_MEMORY(memory);
    __shared__ int chosen, last;
    i64 path = blockIdx.x;
    if (path >= count(call.rows, call.live)) return;
    int vocabulary = call.vocabulary;
    double* weights = reinterpret_cast<double*>(memory);
    double* reached = weights + vocabulary;
    i64 series = path / call.live->samples;
    const double* source = call.weights + (call.shared ? series : path) * vocabulary;
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) weights[index] = source[index];
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int start = 0; start < vocabulary; start += TOGETHER) {
            double some[TOGETHER];
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) some[next] = start + next < vocabulary ? weights[start + next] : 0.0;
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                sum += some[next];
                if (start + next < vocabulary) reached[start + next] = sum;
            }
        }
        last = 0;
        chosen = vocabulary;
    }
    __syncthreads();
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
        if (weights[index] > 0.0) atomicMax(&last, index);
    }
    __syncthreads();
    u32 sample = call.live->first_sample + (u32)(path % call.live->samples);
    Words bits = philox((u32)call.position, (u32)call.step, sample, call.streams[series], call.live->seed_low,
                        call.live->seed_high);
    double target = uniform_from_64(bits.words[0], bits.words[1]) * reached[vocabulary - 1];
    for (int index = threadIdx.x; index < vocabulary; index += blockDim.x) {
        if (weights[index] > 0.0 && reached[index] > target) atomicMin(&chosen, index);
    }
    __syncthreads();
    if (threadIdx.x == 0) call.tokens[path * call.width + call.column] = chosen < vocabulary ? chosen : last;
}
