// From logits to tokens, with the sums of `token_sampling.rs`.
//
// Those sums are chains, and only their outcomes matter: which logit ends the prefix, which token is drawn. So sums in
// another order decide wherever no rounding can make a difference, and the chains only where one could.
#include "elementary.cuh"
#include "random.cuh"
#include "token.cuh"

#define THREADS 256
#define PARTS 8
#define CANDIDATES 16
// Threads that add up chains: parts of the sum for each candidate of the next 4 bits of a key.
#define CHAIN_THREADS (PARTS * CANDIDATES)
#define BINS THREADS
#define GROUP 16

// What the threads of a block tell each other.
struct SamplingShare {
    double parts[THREADS], groups[GROUP];
    u32 bins[BINS], warps[THREADS / 32];
    float largest[THREADS / 32];
    int digits[CANDIDATES];
    u32 chosen_bin, above;
    int ties, uncertain, chosen, last;
};

// A number that orders like the float; NaN lies below all.
__device__ inline u32 order_of(float value) {
    u32 bits = (u32)__float_as_int(value);
    u32 key = bits >> 31 ? ~bits : bits | 0x80000000u;
    return value != value ? 0u : key;
}

// The sum of the values of all threads before this one, and of all threads, in some order.
__device__ inline double sum_before(double value, double* total, SamplingShare* share) {
    share->parts[threadIdx.x] = value;
    __syncthreads();
    int group = threadIdx.x / GROUP;
    if (threadIdx.x < GROUP) {
        double sum = 0.0;
#pragma unroll
        for (int next = 0; next < GROUP; next++) sum += share->parts[threadIdx.x * GROUP + next];
        share->groups[threadIdx.x] = sum;
    }
    __syncthreads();
    double before = 0.0, all = 0.0;
#pragma unroll
    for (int next = 0; next < GROUP; next++) {
        if (next == group) before = all;
        all += share->groups[next];
    }
    for (int next = group * GROUP; next < (int)threadIdx.x; next++) before += share->parts[next];
    __syncthreads();
    *total = all;
    return before;
}

__device__ inline double sum_of_block(double value, SamplingShare* share) {
    double total;
    sum_before(value, &total, share);
    return total;
}

// How far apart two sums of the same weights can lie, with room to spare.
__device__ inline double rounding_of(double total, int vocabulary) {
    return total * (double)vocabulary * 8.8817841970012523e-16;
}

// The largest key from which on the amounts come to at least `wanted`, digit by digit of 8 bits; 0 where all do not.
template <typename Amount>
__device__ inline u32 largest_key(const u32* keys, Amount amount, int vocabulary, u32 wanted, SamplingShare* share) {
    u32 prefix = 0, above = 0;
#pragma unroll 1
    for (int shift = 24; shift >= 0; shift -= 8) {
        share->bins[threadIdx.x] = 0;
        if (threadIdx.x == 0) share->chosen_bin = 0, share->above = above;
        __syncthreads();
        for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
            u32 key = keys[index];
            // Shifts by 32 are none, so twice.
            bool same = (key >> shift >> 8) == (prefix >> shift >> 8);
            if (same) atomicAdd(&share->bins[key >> shift & 255u], amount(index));
        }
        __syncthreads();
        // The last bin comes first.
        u32 own = share->bins[BINS - 1 - threadIdx.x], sum = own;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        for (int distance = 1; distance < 32; distance *= 2) {
            u32 other = __shfl_up_sync(0xffffffffu, sum, distance);
            if (lane >= distance) sum += other;
        }
        if (lane == 31) share->warps[warp] = sum;
        __syncthreads();
        for (int other = 0; other < warp; other++) sum += share->warps[other];
        if (above + sum >= wanted && above + sum - own < wanted) {
            share->chosen_bin = BINS - 1 - threadIdx.x;
            share->above = above + sum - own;
        }
        __syncthreads();
        prefix |= share->chosen_bin << shift;
        above = share->above;
        __syncthreads();
    }
    return prefix;
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
__device__ inline int largest_digit(bool holds, int candidate, SamplingShare* share) {
    if (threadIdx.x < CANDIDATES) share->digits[threadIdx.x] = 0;
    __syncthreads();
    if (holds && threadIdx.x % PARTS == 0) share->digits[candidate] = candidate;
    __syncthreads();
    int largest = 0;
#pragma unroll
    for (int next = 1; next < CANDIDATES; next++) largest = share->digits[next] > largest ? share->digits[next] : largest;
    __syncthreads();
    return largest;
}

__device__ inline double sum_of_parts(const double* parts) {
    double sum = 0.0;
    for (int part = 0; part < PARTS; part++) sum += parts[part];
    return sum;
}

// Keeps the prefix of the most probable tokens by the chains themselves.
__device__ inline void keep_prefix_by_chains(double top_p, double* weights, const u32* keys, int vocabulary,
                                             SamplingShare* share) {
    int part = threadIdx.x % PARTS, candidate = threadIdx.x / PARTS;
    double* parts = share->parts;
    bool adds = threadIdx.x < CHAIN_THREADS;
    if (candidate == 0) parts[part] = part_of_weights(weights, keys, vocabulary, 0, part);
    __syncthreads();
    double most = top_p * sum_of_parts(parts);
    __syncthreads();
    u32 last = 0;
    for (int shift = 28; shift >= 0; shift -= 4) {
        if (adds) parts[threadIdx.x] = part_of_weights(weights, keys, vocabulary, last | (u32)candidate << shift, part);
        __syncthreads();
        bool holds = adds && sum_of_parts(parts + candidate * PARTS) > most;
        last |= (u32)largest_digit(holds, candidate, share) << shift;
    }
    if (candidate == 0) parts[part] = last == 0xffffffffu ? 0.0 : part_of_weights(weights, keys, vocabulary, last + 1, part);
    __syncthreads();
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
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

// Keeps the most probable tokens up to and including the first whose cumulative probability exceeds `top_p`.
__device__ inline void keep_prefix(double top_p, double* weights, const u32* keys, int vocabulary, SamplingShare* share) {
    // Weights are at most 1: as many bits behind the point as the sum of all leaves.
    int bits = 31;
    while (vocabulary >> (31 - bits) > 0 && bits > 0) bits--;
    float unit = __int_as_float((127 + bits) << 23);
    double sum = 0.0;
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) sum += weights[index];
    double total = sum_of_block(sum, share), most = top_p * total;
    u32 last = largest_key(
        keys, [&](int index) { return (u32)((float)weights[index] * unit); }, vocabulary, (u32)(most * (double)unit) + 1, share);
    double from = 0.0, above = 0.0;
    int own_ties = 0;
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
        if (keys[index] >= last) from += weights[index];
        if (keys[index] > last) above += weights[index];
        own_ties += keys[index] == last;
    }
    if (threadIdx.x == 0) share->ties = 0;
    from = sum_of_block(from, share);
    above = sum_of_block(above, share);
    if (own_ties) atomicAdd(&share->ties, own_ties);
    __syncthreads();
    double rounding = rounding_of(total, vocabulary);
    bool certain = from > most + rounding && above < most - rounding && share->ties == 1;
    if (!certain) return keep_prefix_by_chains(top_p, weights, keys, vocabulary, share);
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
        if (keys[index] < last) weights[index] = 0.0;
    }
    __syncthreads();
}

// Unnormalised probabilities of a row, 0 where tokens are filtered out.
__device__ inline void weigh(const float* logits, int vocabulary, const Live& live, double* weights, u32* keys,
                             SamplingShare* share) {
    float temperature = live.temperature;
    float largest = __int_as_float(0xff800000);
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
        float scaled = logits[index] / temperature;
        keys[index] = order_of(scaled);
        largest = fmaxf(largest, scaled);
    }
    largest = largest_of_warp(largest);
    if (threadIdx.x % 32 == 0) share->largest[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < THREADS / 32; warp++) largest = fmaxf(largest, share->largest[warp]);
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
        weights[index] = exponential((double)(logits[index] / temperature) - (double)largest);
    }
    __syncthreads();
    int top_k = live.top_k;
    if (top_k > 0 && top_k < vocabulary) {
        u32 least = largest_key(keys, [](int) { return 1u; }, vocabulary, (u32)top_k, share);
        for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
            if (keys[index] < least) weights[index] = 0.0;
        }
        __syncthreads();
    }
    if (live.top_p < 1.0 && (top_k == 0 || live.both_filters)) keep_prefix(live.top_p, weights, keys, vocabulary, share);
}

struct SampleToken {
    // [rows, vocabulary] each
    const float* logits;
    double* weights;
    // [series]
    const u32* streams;
    // [paths, width]
    int* tokens;
    const Live* live;
    Rows rows;
    Rows paths;
    int vocabulary;
    int width;
    int column;
    int step;
    int position;
    // Whether the samples of a series share one row of weights.
    int shared;
};

// Draws the token of a path; sums up to each token go to `reached`.
__device__ inline void draw(const SampleToken& call, i64 path, const double* weights, double* reached, SamplingShare* share) {
    int vocabulary = call.vocabulary;
    u32 sample = call.live->first_sample + (u32)(path % call.live->samples);
    u32 stream = call.streams[path / call.live->samples];
    Words bits = philox((u32)call.position, (u32)call.step, sample, stream, call.live->seed_low, call.live->seed_high);
    double uniform = uniform_from_64(bits.words[0], bits.words[1]);
    if (threadIdx.x == 0) share->last = 0, share->chosen = vocabulary, share->uncertain = 0;
    // Each thread takes some tokens that follow each other.
    int each = (vocabulary + THREADS - 1) / THREADS, start = threadIdx.x * each;
    int end = start + each < vocabulary ? start + each : vocabulary;
    double own = 0.0, total;
    for (int index = start; index < end; index++) own += weights[index];
    double sum = sum_before(own, &total, share), target = uniform * total, rounding = rounding_of(total, vocabulary);
    for (int index = start; index < end; index++) {
        sum += weights[index];
        if (!(weights[index] > 0.0)) continue;
        atomicMax(&share->last, index);
        if (!(fabs(sum - target) > rounding)) share->uncertain = 1;
        if (sum > target) {
            atomicMin(&share->chosen, index);
            // What comes behind is larger still, and can only be nearer where this is near.
            break;
        }
    }
    __syncthreads();
    if (share->uncertain) {
        if (threadIdx.x == 0) {
            double chain = 0.0;
            for (int index = 0; index < vocabulary; index++) reached[index] = chain += weights[index];
            share->chosen = vocabulary;
        }
        __syncthreads();
        target = uniform * reached[vocabulary - 1];
        for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
            if (weights[index] > 0.0) atomicMax(&share->last, index);
            if (weights[index] > 0.0 && reached[index] > target) atomicMin(&share->chosen, index);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        int token = share->chosen < vocabulary ? share->chosen : share->last;
        call.tokens[path * call.width + call.column] = total != total ? NO_TOKEN : token;
    }
}

// Grid: rows of logits.
KERNEL(weigh_tokens, SampleToken, THREADS) {
    SHARED_MEMORY(memory);
    __shared__ SamplingShare share;
    i64 row = blockIdx.x;
    if (row >= count(call.rows, call.live)) return;
    double* weights = reinterpret_cast<double*>(memory);
    weigh(call.logits + row * call.vocabulary, call.vocabulary, *call.live, weights,
          reinterpret_cast<u32*>(weights + 2 * call.vocabulary), &share);
    for (int index = threadIdx.x; index < call.vocabulary; index += THREADS) {
        call.weights[row * call.vocabulary + index] = weights[index];
    }
    // Each path has a row of its own, or draws from it later.
    if (!call.shared) draw(call, row, weights, weights + call.vocabulary, &share);
}

// Grid: paths that share rows of weights.
KERNEL(draw_token, SampleToken, THREADS) {
    SHARED_MEMORY(memory);
    __shared__ SamplingShare share;
    i64 path = blockIdx.x;
    if (path >= count(call.paths, call.live)) return;
    double* weights = reinterpret_cast<double*>(memory);
    const double* source = call.weights + path / call.live->samples * call.vocabulary;
    for (int index = threadIdx.x; index < call.vocabulary; index += THREADS) weights[index] = source[index];
    __syncthreads();
    draw(call, path, weights, weights + call.vocabulary, &share);
}
