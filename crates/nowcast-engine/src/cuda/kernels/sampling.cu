// From logits to tokens, with the sums of `token_sampling.rs`.
//
// Those sums are chains, and only their outcomes matter: which logit ends the prefix, which token is drawn. So sums in
// another order decide wherever no rounding can make a difference, and the chains only where one could.
#include "elementary.cuh"
#include "random.cuh"
#include "sampling_border.cuh"
#include "sampling_chains.cuh"
#include "token.cuh"

// Logits that a thread asks for together.
#define ASKED 4

// What the threads of a block tell each other while they weigh, and while they draw.
struct WeighShare {
    BorderShare border;
    ChainShare chains;
    double sums[WARPS];
    float largest[WARPS];
};

struct DrawShare {
    double sums[WARPS];
    int uncertain, chosen, last;
};

// How far apart two sums of the same weights can lie, with room to spare.
__device__ inline double rounding_of(double total, int vocabulary) {
    return total * (double)vocabulary * 8.8817841970012523e-16;
}

// Drops the tokens with keys below `least`.
__device__ inline void drop_below(u32 least, double* weights, const u32* keys, int vocabulary) {
    FOR_TOKENS(index, vocabulary) {
        if (keys[index] < least) weights[index] = 0.0;
    }
    __syncthreads();
}

// Keeps the most probable tokens up to and including the first whose cumulative probability exceeds `top_p`.
__device__ inline void keep_prefix(double top_p, double* weights, const u32* keys, int vocabulary, WeighShare* share) {
    auto weight = [&](int index) { return weights[index]; };
    double own = 0.0;
    FOR_TOKENS(index, vocabulary) own += weight(index);
    double total = sum_of_block(own, share->sums), rounding = rounding_of(total, vocabulary);
    bool is_certain = false;
    // What has no sum is left to the chains.
    if (total > 0.0) {
        // All weights together are less than 2^31 units: its exponent is 30 less that of the total.
        u64 exponent = (u64)__double_as_longlong(total) >> 52;
        double unit = __longlong_as_double((i64)((2 * 1023 + 30 - exponent) << 52));
        u32 last = border(keys, weight, vocabulary, top_p * total, unit, rounding, &is_certain, &share->border);
        if (is_certain) drop_below(last, weights, keys, vocabulary);
    }
    if (!is_certain) keep_prefix_by_chains(top_p, weights, keys, vocabulary, &share->chains);
}

// Unnormalised probabilities of a row, 0 where tokens are filtered out.
__device__ inline void weigh(const float* logits, int vocabulary, const Live& live, double* weights, u32* keys,
                             WeighShare* share) {
    float temperature = live.temperature;
    float largest = __int_as_float(0xff800000);
#pragma unroll 1
    for (int start = threadIdx.x; start < vocabulary; start += ASKED * THREADS) {
        float some[ASKED];
#pragma unroll
        for (int next = 0; next < ASKED; next++) {
            int index = start + next * THREADS;
            some[next] = logits[index < vocabulary ? index : start];
        }
#pragma unroll
        for (int next = 0; next < ASKED; next++) {
            int index = start + next * THREADS;
            if (index < vocabulary) keys[index] = (u32)__float_as_int(some[next]);
        }
    }
    // Each thread has put those there that it takes.
    FOR_TOKENS(index, vocabulary) {
        float scaled = __int_as_float((int)keys[index]) / temperature;
        keys[index] = order_of(scaled);
        largest = fmaxf(largest, scaled);
    }
    largest = largest_of_warp(largest);
    if (threadIdx.x % 32 == 0) share->largest[threadIdx.x / 32] = largest;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) largest = fmaxf(largest, share->largest[warp]);
    int top_k = live.top_k;
    u32 least = 0;
    if (top_k > 0 && top_k < vocabulary) {
        bool is_certain;
        auto one = [](int) { return 1.0; };
        least = border(keys, one, vocabulary, (double)top_k - 0.5, 1.0, 0.0, &is_certain, &share->border);
    }
    FOR_TOKENS(index, vocabulary) {
        u32 key = keys[index];
        weights[index] = key < least ? 0.0 : exponential((double)value_of(key) - (double)largest);
    }
    __syncthreads();
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

// The sum of the values of all threads before this one, and of all threads, in some order; a barrier follows.
__device__ inline double sum_before(double value, double* total, double* sums) {
    double sum = sum_up_to_lane(value);
    int lane = threadIdx.x % 32;
    if (lane == 31) sums[threadIdx.x / 32] = sum;
    double before = __shfl_up_sync(0xffffffffu, sum, 1);
    before = lane == 0 ? 0.0 : before;
    __syncthreads();
    *total = 0.0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        if (warp == (int)threadIdx.x / 32) before += *total;
        *total += sums[warp];
    }
    return before;
}

// Chooses a token by the chain of the sums up to each.
__device__ __noinline__ void draw_by_chain(double uniform, const double* weights, double* reached, int vocabulary,
                                     DrawShare* share) {
    if (threadIdx.x == 0) {
        double chain = 0.0;
        for (int index = 0; index < vocabulary; index++) reached[index] = chain += weights[index];
        share->chosen = vocabulary, share->last = 0;
    }
    __syncthreads();
    double target = uniform * reached[vocabulary - 1];
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) {
        if (weights[index] > 0.0) atomicMax(&share->last, index);
        if (weights[index] > 0.0 && reached[index] > target) atomicMin(&share->chosen, index);
    }
    __syncthreads();
    if (threadIdx.x == 0 && share->chosen == vocabulary) share->chosen = share->last;
}

// The number between 0 and 1 that chooses the token of a path.
__device__ inline double uniform_of(const SampleToken& call, const Live& live, int path) {
    u32 sample = live.first_sample + (u32)(path % live.samples), stream = call.streams[path / live.samples];
    Words bits = philox((u32)call.position, (u32)call.step, sample, stream, live.seed_low, live.seed_high);
    return uniform_from_64(bits.words[0], bits.words[1]);
}

// Draws the token of a path; sums up to each token go to `reached`.
__device__ inline void draw(const SampleToken& call, int path, double uniform, const double* weights, double* reached,
                            DrawShare* share) {
    int vocabulary = call.vocabulary;
    if (threadIdx.x == 0) share->chosen = vocabulary, share->uncertain = 0;
    // Each thread takes some tokens that follow each other.
    int each = (vocabulary + THREADS - 1) / THREADS, start = threadIdx.x * each;
    int end = start + each < vocabulary ? start + each : vocabulary;
    double own = 0.0, total;
#pragma unroll 1
    for (int index = start; index < end; index++) own += weights[index];
    double sum = sum_before(own, &total, share->sums), target = uniform * total, rounding = rounding_of(total, vocabulary);
    bool is_near = false;
    int chosen = vocabulary;
#pragma unroll 1
    for (int index = start; index < end && chosen == vocabulary; index++) {
        sum += weights[index];
        if (!(weights[index] > 0.0)) continue;
        is_near |= !(fabs(sum - target) > rounding);
        // What comes behind is larger still, and can only be nearer where this is near.
        if (sum > target) chosen = index;
    }
    if (is_near) share->uncertain = 1;
    // The first thread that chooses a token has the first one.
    u32 choosers = __ballot_sync(0xffffffffu, chosen < vocabulary);
    if (chosen < vocabulary && (choosers & ((1u << threadIdx.x % 32) - 1)) == 0) atomicMin(&share->chosen, chosen);
    __syncthreads();
    if (share->uncertain) draw_by_chain(uniform, weights, reached, vocabulary, share);
    if (threadIdx.x == 0) call.tokens[path * call.width + call.column] = total != total ? NO_TOKEN : share->chosen;
}

// Grid: rows of logits.
KERNEL_AHEAD(weigh_tokens, SampleToken, THREADS, 2) {
    SHARED_MEMORY(memory);
    __shared__ WeighShare share;
    __shared__ DrawShare draw_share;
    const Live live = *call.live;
    int row = blockIdx.x, vocabulary = call.vocabulary;
    bool is_live = row < count(call.rows, &live);
    // Each path has a row of its own, or draws from it later. Random numbers depend on inputs alone.
    double uniform = call.shared || !is_live ? 0.0 : uniform_of(call, live, row);
    known_now(uniform);
    wait_for_previous();
    if (!is_live) return;
    double* weights = reinterpret_cast<double*>(memory);
    u32* keys = reinterpret_cast<u32*>(weights + 2 * vocabulary);
    weigh(call.logits + (i64)row * vocabulary, vocabulary, live, weights, keys, &share);
    FOR_TOKENS(index, vocabulary) call.weights[(i64)row * vocabulary + index] = weights[index];
    if (!call.shared) draw(call, row, uniform, weights, weights + vocabulary, &draw_share);
}

// Grid: paths that share rows of weights.
KERNEL_AHEAD(draw_token, SampleToken, THREADS, 2) {
    SHARED_MEMORY(memory);
    __shared__ DrawShare share;
    const Live live = *call.live;
    int path = blockIdx.x, vocabulary = call.vocabulary;
    bool is_live = path < count(call.paths, &live);
    double uniform = is_live ? uniform_of(call, live, path) : 0.0;
    known_now(uniform);
    wait_for_previous();
    if (!is_live) return;
    double* weights = reinterpret_cast<double*>(memory);
    const double* source = call.weights + (i64)(path / live.samples) * vocabulary;
    for (int index = threadIdx.x; index < vocabulary; index += THREADS) weights[index] = source[index];
    __syncthreads();
    draw(call, path, uniform, weights, weights + vocabulary, &share);
}
