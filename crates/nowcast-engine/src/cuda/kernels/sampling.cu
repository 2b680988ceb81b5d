// From logits to tokens, with the sums of `token_sampling.rs`.
//
// Those sums are chains, and only their outcomes matter: which logit ends the prefix, which token is drawn. So sums in
// another order decide wherever no rounding can make a difference, and the chains only where one could.
#include "elementary.cuh"
#include "predicates.cuh"
#include "random.cuh"
#include "sampling_border.cuh"
#include "sampling_chains.cuh"
#include "token.cuh"

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

// Where chains walk: weights of all tokens, the sums up to each of them, and their keys.
struct ChainRoom {
    double *weights, *reached;
    u32* keys;

    __device__ __forceinline__ ChainRoom(float* memory, int vocabulary) {
        weights = reinterpret_cast<double*>(memory), reached = weights + vocabulary;
        keys = reinterpret_cast<u32*>(reached + vocabulary);
    }

    // A barrier follows.
    template <int EACH>
    __device__ __forceinline__ void put(const OwnTokens<EACH>& own) const {
        FOR_OWN(next, own) {
            if (own.has(next)) weights[own.place(next)] = own.weights[next], keys[own.place(next)] = own.keys[next];
        }
        __syncthreads();
    }
};

// Keeps the most probable tokens up to and including the first whose cumulative probability exceeds `top_p`.
template <int EACH>
__device__ inline void keep_prefix(double top_p, OwnTokens<EACH>* own, int vocabulary, const ChainRoom& room, WeighShare* share) {
    double sum = 0.0;
    FOR_OWN(next, *own) sum += own->weights[next];
    double total = sum_of_block(sum, share->sums), rounding = rounding_of(total, vocabulary);
    bool is_certain = false;
    // What has no sum is left to the chains.
    if (total > 0.0) {
        // All weights together are less than 2^31 units: its exponent is 30 less that of the total.
        u64 exponent = (u64)__double_as_longlong(total) >> 52;
        double unit = __longlong_as_double((i64)((2 * 1023 + 30 - exponent) << 52));
        u32 last = border<false>(*own, top_p * total, unit, rounding, &is_certain, &share->border);
        FOR_OWN(next, *own) own->weights[next] = is_certain && own->keys[next] < last ? 0.0 : own->weights[next];
    }
    if (is_certain) return;
    room.put(*own);
    keep_prefix_by_chains(top_p, room.weights, room.keys, vocabulary, &share->chains);
    FOR_OWN(next, *own) own->weights[next] = own->has(next) ? room.weights[own->place(next)] : 0.0;
}

// Unnormalised probabilities of a row, 0 where tokens are filtered out.
template <int EACH>
__device__ inline void weigh(const float* logits, int vocabulary, const Live& live, OwnTokens<EACH>* own, const ChainRoom& room,
                             WeighShare* share) {
    float largest = __int_as_float(0xff800000);
    FOR_OWN(next, *own) own->keys[next] = (u32)__float_as_int(load_if(own->has(next), logits + own->place(next)));
    FOR_OWN(next, *own) {
        float scaled = __int_as_float((int)own->keys[next]) / live.temperature;
        own->keys[next] = order_of(scaled);
        largest = own->has(next) ? fmaxf(largest, scaled) : largest;
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
        least = border<true>(*own, (double)top_k - 0.5, 1.0, 0.0, &is_certain, &share->border);
    }
    FOR_OWN(next, *own) {
        u32 key = own->keys[next];
        own->weights[next] = 0.0;
        if (own->has(next) & (key >= least)) own->weights[next] = exponential((double)value_of(key) - (double)largest);
    }
    if (live.top_p < 1.0 && (top_k == 0 || live.both_filters)) keep_prefix(live.top_p, own, vocabulary, room, share);
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
__device__ __noinline__ void draw_by_chain(double uniform, const ChainRoom& room, int vocabulary, DrawShare* share) {
    const double* weights = room.weights;
    double* reached = room.reached;
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

// Draws the token of a path.
template <int EACH>
__device__ inline void draw(const SampleToken& call, int path, double uniform, const OwnTokens<EACH>& own, const ChainRoom& room,
                            DrawShare* share) {
    int vocabulary = call.vocabulary;
    if (threadIdx.x == 0) share->chosen = vocabulary, share->uncertain = 0;
    double own_sum = 0.0, total;
    FOR_OWN(next, own) own_sum += own.weights[next];
    double sum = sum_before(own_sum, &total, share->sums);
    double target = uniform * total, rounding = rounding_of(total, vocabulary);
    bool is_near = false;
    int chosen = vocabulary;
    FOR_OWN(next, own) {
        sum += own.weights[next];
        // What comes behind the chosen one is larger still, and can only be nearer where that is near.
        bool counts = (own.weights[next] > 0.0) & (chosen == vocabulary);
        is_near |= counts & !(fabs(sum - target) > rounding);
        chosen = counts & (sum > target) ? own.place(next) : chosen;
    }
    if (is_near) share->uncertain = 1;
    // The first thread that chooses a token has the first one.
    u32 choosers = __ballot_sync(0xffffffffu, chosen < vocabulary);
    if (chosen < vocabulary && (choosers & ((1u << threadIdx.x % 32) - 1)) == 0) atomicMin(&share->chosen, chosen);
    __syncthreads();
    if (share->uncertain) {
        room.put(own);
        draw_by_chain(uniform, room, vocabulary, share);
    }
    if (threadIdx.x == 0) call.tokens[path * call.width + call.column] = total != total ? NO_TOKEN : share->chosen;
}

// Grid: rows of logits.
template <int EACH>
__device__ __forceinline__ void weigh_row(const SampleToken& call) {
    SHARED_MEMORY(memory);
    __shared__ WeighShare share;
    __shared__ DrawShare draw_share;
    const Live live = *call.live;
    int row = blockIdx.x, vocabulary = call.vocabulary;
    bool is_live = row < count(call.rows, &live);
    // Each path has a row of its own, or draws from it later. Random numbers depend on inputs alone.
    double uniform = call.shared || !is_live ? 0.0 : uniform_of(call, live, row);
    known_now(uniform);
    empty_bins(&share.border);
    wait_for_previous();
    if (!is_live) return;
    OwnTokens<EACH> own(vocabulary);
    ChainRoom room(memory, vocabulary);
    weigh(call.logits + (i64)row * vocabulary, vocabulary, live, &own, room, &share);
    double* weights = call.weights + (i64)row * vocabulary;
    FOR_OWN(next, own) {
        if (own.has(next)) weights[own.place(next)] = own.weights[next];
    }
    if (!call.shared) draw(call, row, uniform, own, room, &draw_share);
}

// Grid: paths that share rows of weights.
template <int EACH>
__device__ __forceinline__ void draw_path(const SampleToken& call) {
    SHARED_MEMORY(memory);
    __shared__ DrawShare share;
    const Live live = *call.live;
    int path = blockIdx.x, vocabulary = call.vocabulary;
    bool is_live = path < count(call.paths, &live);
    double uniform = is_live ? uniform_of(call, live, path) : 0.0;
    known_now(uniform);
    wait_for_previous();
    if (!is_live) return;
    OwnTokens<EACH> own(vocabulary);
    const double* weights = call.weights + (i64)(path / live.samples) * vocabulary;
    FOR_OWN(next, own) own.weights[next] = weights[own.place(next)], own.keys[next] = 0;
    FOR_OWN(next, own) own.weights[next] = own.has(next) ? own.weights[next] : 0.0;
    draw(call, path, uniform, own, ChainRoom(memory, vocabulary), &share);
}

KERNEL_AHEAD(weigh_tokens, SampleToken, THREADS, 2) { weigh_row<FEW_TOKENS>(call); }
KERNEL_AHEAD(draw_token, SampleToken, THREADS, 2) { draw_path<FEW_TOKENS>(call); }
KERNEL_AHEAD(weigh_many_tokens, SampleToken, THREADS, 1) { weigh_row<MANY_TOKENS>(call); }
KERNEL_AHEAD(draw_of_many_tokens, SampleToken, THREADS, 1) { draw_path<MANY_TOKENS>(call); }
