// How components of a head are rotated.
#pragma once

#include "plan.cuh"

// Components of a pair.
__device__ inline void pair_of(int pair, int head_dim, int interleaved, int* a, int* b) {
    *a = interleaved ? 2 * pair : pair;
    *b = interleaved ? 2 * pair + 1 : pair + head_dim / 2;
}

// Cosines and sines of both components of a pair at one position, for queries and for keys.
struct RotaryPair {
    float2 query_cosines, query_sines, key_cosines, key_sines;

    RotaryPair() = default;
    // From the position's row of the table.
    __device__ __forceinline__ RotaryPair(const float* entry, int head_dim, int first, int second) {
        auto at = [&](int part) { return make_float2(entry[part * head_dim + first], entry[part * head_dim + second]); };
        query_cosines = at(0), query_sines = at(1), key_cosines = at(2), key_sines = at(3);
    }

    __device__ __forceinline__ float2 query(const float2& pair) const {
        return rotated(pair, query_cosines, query_sines);
    }

    __device__ __forceinline__ float2 key(const float2& pair) const {
        return rotated(pair, key_cosines, key_sines);
    }

    __device__ __forceinline__ static float2 rotated(const float2& pair, const float2& cosines, const float2& sines) {
        return make_float2(pair.x * cosines.x + pair.y * sines.x, pair.y * cosines.y + pair.x * sines.y);
    }
};
