// Which tokens are kept by the sums of `token_sampling.rs` themselves, chains of additions, where another order of sums
// does not say.
#pragma once

#include "plan.cuh"
#include "sampling_border.cuh"

#define PARTS 8
#define CANDIDATES 16
// Threads that add up chains: parts of the sum for each candidate of the next 4 bits of a key.
#define CHAIN_THREADS (PARTS * CANDIDATES)
// Values that a thread loads together before it adds them one after the other.
#define TOGETHER 8

// What the threads of a block tell each other.
struct ChainShare {
    double parts[CHAIN_THREADS];
    int digits[CANDIDATES];
};

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
__device__ inline int largest_digit(bool holds, int candidate, ChainShare* share) {
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
__device__ __noinline__ void keep_prefix_by_chains(double top_p, double* weights, const u32* keys, int vocabulary,
                                             ChainShare* share) {
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
                bool keeps = !(kept > most);
                if (keeps) kept += weights[start + lane];
                __syncwarp();
                if (!keeps && lane == (int)threadIdx.x) weights[start + lane] = 0.0;
            }
        }
    }
    __syncthreads();
}
