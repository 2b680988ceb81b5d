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

// Threads that compare one rival with the others.
#define COMPARERS 4

// Goes through all tokens. A launch reads every instruction for the first time: short code is there sooner than loops that
// are rolled out.
#define FOR_TOKENS(index, vocabulary) \
    _Pragma("unroll 1") for (int index = threadIdx.x; index < (vocabulary); index += THREADS)

// What the threads of a block tell each other.
struct BorderShare {
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

// Finds the digit of the bin in which the sum from the last bin on reaches `wanted`, and the sum above it.
__device__ inline void find_digit(u32 above, u32 wanted, BorderShare* share) {
    // Threads take the last bins first.
    int first = BINS - OWN_BINS * (threadIdx.x + 1), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 own[OWN_BINS], sum = 0;
#pragma unroll
    for (int next = 0; next < OWN_BINS / 4; next++) {
        uint4 four = share->bins[first / 4 + next];
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

// The key from which on the amounts come to more than `most`, while those above it do not. As numbers of 32 bits in units of
// `1 / unit` amounts find the neighbourhood; sums of the amounts decide there. It is certain where no sum comes nearer to
// `most` than `rounding`, and no other token has the key.
template <typename Amount>
__device__ inline u32 border(const u32* keys, Amount amount, int vocabulary, double most, double unit, double rounding,
                             bool* is_certain, BorderShare* share) {
    u32 prefix = 0, above = 0, wanted = (u32)(most * unit) + 1;
    double sum_above;
    int shift = 32, rivals;
#pragma unroll 1
    do {
        // The first digit has a bit less.
        shift = shift == 32 ? 32 - DIGIT_BITS + 1 : shift - DIGIT_BITS;
        for (int index = threadIdx.x; index < BINS / 4; index += THREADS) share->bins[index] = make_uint4(0, 0, 0, 0);
        if (threadIdx.x == 0) share->digit = 0, share->above = above;
        __syncthreads();
        if (threadIdx.x == 0) share->rivals = 0;
        u32* bins = &share->bins[0].x;
        FOR_TOKENS(index, vocabulary) {
            u32 key = keys[index] >> shift;
            if (key >> DIGIT_BITS == prefix) atomicAdd(&bins[key % BINS], (u32)(amount(index) * unit + 0.5));
        }
        __syncthreads();
        find_digit(above, wanted, share);
        prefix = prefix << DIGIT_BITS | share->digit, above = share->above;
        double own = 0.0;
        FOR_TOKENS(index, vocabulary) {
            u32 key = keys[index] >> shift;
            if (key > prefix) own += amount(index);
            int place = key == prefix ? atomicAdd(&share->rivals, 1) : MOST_RIVALS;
            if (place < MOST_RIVALS) share->rival_keys[place] = keys[index], share->rival_amounts[place] = amount(index);
        }
        if (threadIdx.x == 0) share->key = prefix << shift, share->is_certain = 0;
        sum_above = sum_of_block(own, share->sums);
        rivals = share->rivals;
    } while (rivals > MOST_RIVALS && shift > 0);
    // Some threads of a warp share a rival.
#pragma unroll 1
    for (int first = 0; rivals <= MOST_RIVALS && first < rivals; first += THREADS / COMPARERS) {
        int place = first + threadIdx.x / COMPARERS, ties = 0;
        bool is_rival = place < rivals;
        u32 key = share->rival_keys[is_rival ? place : 0];
        double more = 0.0, same = 0.0;
#pragma unroll 2
        for (int other = threadIdx.x % COMPARERS; other < rivals; other += COMPARERS) {
            u32 rival = share->rival_keys[other];
            if (rival > key) more += share->rival_amounts[other];
            if (rival == key) same += share->rival_amounts[other], ties++;
        }
        for (int half = COMPARERS / 2; half > 0; half /= 2) {
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
    __syncthreads();
    *is_certain = share->is_certain;
    return share->key;
}
