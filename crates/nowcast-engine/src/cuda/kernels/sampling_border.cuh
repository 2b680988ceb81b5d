// The token of a row at which the amounts of all larger logits, and its own, exceed a bound.
#pragma once

#include "plan.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
// Bits of a key that one pass decides: the first one takes the sign and the exponent of a logit.
#define DIGIT_BITS 11
#define BINS (1 << DIGIT_BITS)
#define OWN_BINS (BINS / THREADS)
// Tokens that are few enough to be compared with each other.
#define MOST_RIVALS 128
// Threads that compare one of few rivals with the others.
#define MOST_COMPARERS (4 * THREADS / MOST_RIVALS)

// Tokens of a thread: of most vocabularies, and of those that fill shared memory.
constexpr int FEW_TOKENS = 4, MANY_TOKENS = 48;

// Goes through the tokens of a thread, there or not. A few are written out, with their keys and weights in registers and
// conditions in predicates; many lie in local memory.
#define FOR_OWN(next, own)                              \
    _Pragma("unroll (EACH > FEW_TOKENS ? 1 : EACH)")    \
    for (int next = 0; next < (EACH > FEW_TOKENS ? (own).count : EACH); next++)

// Tokens that follow each other: those of a thread, at most so many.
template <int EACH>
struct OwnTokens {
    int first, count;
    // Numbers that order like the scaled logits, and unnormalised probabilities: 0 of those that are not there.
    u32 keys[EACH];
    double weights[EACH];

    __device__ __forceinline__ explicit OwnTokens(int vocabulary) {
        int each = (vocabulary + THREADS - 1) / THREADS, left = vocabulary - (int)threadIdx.x * each;
        first = threadIdx.x * each, count = left < 0 ? 0 : left < each ? left : each;
    }
    __device__ __forceinline__ bool has(int next) const {
        return next < count;
    }
    // The place of a token in the vocabulary; that of another one where it is not there.
    __device__ __forceinline__ int place(int next) const {
        return has(next) ? first + next : 0;
    }
};

// What the threads of a block tell each other.
struct BorderShare {
    // Empty between two passes.
    uint4 bins[BINS / 4];
    double rival_amounts[MOST_RIVALS], sums[WARPS];
    u32 rival_keys[MOST_RIVALS], warps[WARPS];
    u32 digit, above, key;
    int rivals, is_certain;
};

// A number that orders like the float; NaN lies below all.
__device__ inline u32 order_of(float value) {
    u32 bits = (u32)__float_as_int(value);
    u32 key = bits >> 31 ? ~bits : bits | 0x80000000u;
    return value != value ? 0u : key;
}

// The float of a key; that of 0 is a NaN.
__device__ inline float value_of(u32 key) {
    return __int_as_float((int)(key >> 31 ? key & 0x7fffffffu : ~key));
}

// The sum over all threads of a block, in some order; a barrier follows before the next one.
__device__ inline double sum_of_block(double value, double* sums) {
    for (int half = 16; half > 0; half /= 2) value += __shfl_xor_sync(0xffffffffu, value, half);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0.0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) sum += sums[warp];
    return sum;
}

__device__ inline void empty_bins(BorderShare* share) {
    for (int index = threadIdx.x; index < BINS / 4; index += THREADS) share->bins[index] = make_uint4(0, 0, 0, 0);
}

// Finds the digit of the bin in which the sum from the last bin on reaches `wanted`, and the sum above it. Empties the bins.
__device__ inline void find_digit(u32 above, u32 wanted, BorderShare* share) {
    // Threads take the last bins first.
    int first = BINS - OWN_BINS * (threadIdx.x + 1), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 own[OWN_BINS], sum = 0;
#pragma unroll
    for (int next = 0; next < OWN_BINS / 4; next++) {
        uint4 four = share->bins[first / 4 + next];
        share->bins[first / 4 + next] = make_uint4(0, 0, 0, 0);
        own[4 * next] = four.x, own[4 * next + 1] = four.y, own[4 * next + 2] = four.z, own[4 * next + 3] = four.w;
        sum += four.x + four.y + four.z + four.w;
    }
    u32 before = above - sum;
    sum = sum_up_to_lane(sum);
    if (lane == 31) share->warps[warp] = sum;
    __syncthreads();
    before += sum;
#pragma unroll
    for (int other = 0; other < WARPS; other++) before += other < warp ? share->warps[other] : 0;
#pragma unroll
    for (int next = OWN_BINS - 1; next >= 0; next--) {
        u32 reached = before + own[next];
        if (before < wanted && reached >= wanted) share->digit = first + next, share->above = before;
        before = reached;
    }
    __syncthreads();
}

// Places among the rivals of the block for those of a thread.
__device__ inline int places_of(int rivals, BorderShare* share) {
    int up_to = sum_up_to_lane(rivals), first = 0;
    if (threadIdx.x % 32 == 31 && up_to > 0) first = atomicAdd(&share->rivals, up_to);
    return __shfl_sync(0xffffffffu, first, 31) + up_to - rivals;
}

// The key of a rival with which the sum exceeds `most`, while that of all larger ones does not, if there is one.
template <bool COUNTS>
__device__ inline void compare_rivals(int rivals, double sum_above, double most, double rounding, BorderShare* share) {
    // The fewer rivals there are, the more threads of a warp share one.
    int comparers = rivals > MOST_RIVALS / 2 ? MOST_COMPARERS / 4 : rivals > MOST_RIVALS / 4 ? MOST_COMPARERS / 2 : MOST_COMPARERS;
    int place = threadIdx.x / comparers, ties = 0;
    if ((int)(threadIdx.x & ~31u) >= comparers * rivals) return;
    bool is_rival = place < rivals;
    u32 key = share->rival_keys[is_rival ? place : 0];
    double more = 0.0, same = 0.0;
#pragma unroll 4
    for (int other = threadIdx.x % comparers; other < rivals; other += comparers) {
        u32 rival = share->rival_keys[other];
        double amount = COUNTS ? 1.0 : share->rival_amounts[other];
        if (rival > key) more += amount;
        if (rival == key) same += amount, ties++;
    }
    for (int half = comparers / 2; half > 0; half /= 2) {
        more += __shfl_xor_sync(0xffffffffu, more, half);
        same += __shfl_xor_sync(0xffffffffu, same, half);
        ties += __shfl_xor_sync(0xffffffffu, ties, half);
    }
    double before = sum_above + more, from = before + same;
    if (is_rival && before <= most && from > most) {
        share->key = key;
        share->is_certain = before < most - rounding && from > most + rounding && ties == 1;
    }
}

// The key from which on tokens come to more than `most`, while those above it do not, by their number or by their weights. As
// numbers of 32 bits in units of `1 / unit` amounts find the neighbourhood; sums of the amounts decide there. It is certain
// where no sum comes nearer to `most` than `rounding`, and no other token has the key. Bins are empty, before and after.
template <bool COUNTS, int EACH>
__device__ inline u32 border(const OwnTokens<EACH>& own, double most, double unit, double rounding, bool* is_certain,
                             BorderShare* share) {
    u32 prefix = 0, above = 0, wanted = (u32)(most * unit) + 1;
    double sum_above;
    int shift = 32, rivals;
#pragma unroll 1
    do {
        // The first digit has a bit less.
        shift = shift == 32 ? 32 - DIGIT_BITS + 1 : shift - DIGIT_BITS;
        if (threadIdx.x == 0) share->digit = 0, share->above = above;
        u32* bins = &share->bins[0].x;
        FOR_OWN(next, own) {
            u32 key = own.keys[next] >> shift;
            u32 amount = COUNTS ? 1u : (u32)(own.weights[next] * unit + 0.5);
            if (own.has(next) & (key >> DIGIT_BITS == prefix)) atomicAdd(&bins[key % BINS], amount);
        }
        __syncthreads();
        if (threadIdx.x == 0) share->rivals = 0;
        find_digit(above, wanted, share);
        prefix = prefix << DIGIT_BITS | share->digit, above = share->above;
        double amount_above = 0.0;
        int own_rivals = 0;
        FOR_OWN(next, own) {
            u32 key = own.keys[next] >> shift;
            if (!COUNTS) amount_above += key > prefix ? own.weights[next] : 0.0;
            own_rivals += own.has(next) & (key == prefix);
        }
        int place = places_of(own_rivals, share);
        FOR_OWN(next, own) {
            bool is_rival = own.has(next) & (own.keys[next] >> shift == prefix);
            if (is_rival & (place < MOST_RIVALS)) {
                share->rival_keys[place] = own.keys[next];
                if (!COUNTS) share->rival_amounts[place] = own.weights[next];
            }
            place += is_rival;
        }
        if (threadIdx.x == 0) share->key = prefix << shift, share->is_certain = 0;
        if (COUNTS) {
            __syncthreads();
            sum_above = (double)above;
        } else {
            sum_above = sum_of_block(amount_above, share->sums);
        }
        rivals = share->rivals;
    } while (rivals > MOST_RIVALS && shift > 0);
    if (rivals <= MOST_RIVALS) compare_rivals<COUNTS>(rivals, sum_above, most, rounding, share);
    __syncthreads();
    *is_certain = share->is_certain;
    return share->key;
}
