// Philox 4x32-10 and uniform numbers from its bits, as in `random.rs`.
#pragma once

#include "plan.cuh"

struct Words {
    u32 words[4];
};

__device__ inline Words philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
    for (int round = 0; round < 10; round++) {
        u64 first = (u64)c0 * 0xD2511F53u, second = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(second >> 32) ^ c1 ^ k0;
        c1 = (u32)second;
        c2 = (u32)(first >> 32) ^ c3 ^ k1;
        c3 = (u32)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Words{{c0, c1, c2, c3}};
}

// Inside the open interval (0, 1), down to 2^-65.
__device__ inline double uniform_from_64(u32 high, u32 low) {
    const double two_pow_minus_64 = 1.0 / 4294967296.0 / 4294967296.0;
    double value = ((double)high * 4294967296.0 + ((double)low + 0.5)) * two_pow_minus_64;
    const double largest = 1.0 - 1.1102230246251565e-16;
    return value < largest ? value : largest;
}

__device__ inline double uniform_from_32(u32 bits) {
    return ((double)bits + 0.5) * (1.0 / 4294967296.0);
}
