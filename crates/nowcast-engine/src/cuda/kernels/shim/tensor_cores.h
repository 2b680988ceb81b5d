// Products on tensor cores. Sums of a product are exact up to f64 and rounded towards zero, as the hardware rounds them; it
// may drop some bits more, which the tests' tolerances allow for.
#pragma once

#include "shim.h"

#pragma GCC visibility push(hidden)
namespace shim {
// A lane's part of mma.m16n8k16, for some bands of eight rows of the right operand: lane `4 g + q` holds rows g and g + 8 of
// the left operand and column g of the right one, inputs 2 q, 2 q + 1, and those eight behind; of the result, rows g and
// g + 8, columns 2 q and 2 q + 1.
struct Factors {
    // Whether values are bf16, not f16.
    bool are_brains;
    // Words of the left operand; of the right one, the first of each band.
    unsigned left[4];
    const unsigned *right_near, *right_behind;
    // Four for each band, which products are added to.
    float* sums;
    // Bands, and words from one to the next.
    unsigned bands, stride;
};
}  // namespace shim
#pragma GCC visibility pop

// `FORMAT` 2 is bf16, as `Format` in fragments.cuh.
template <int FORMAT>
inline void multiply_add(float* sums, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    shim::multiply_together({FORMAT == 2, {a0, a1, a2, a3}, &b0, &b1, sums, 1, 0});
}

// The same of some bands, whose words lie `stride` apart, the second one a band's 32 lanes behind the first.
template <int FORMAT, int BANDS>
inline void multiply_add_bands(float (*sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned* words,
                               unsigned stride) {
    shim::multiply_together({FORMAT == 2, {a0, a1, a2, a3}, words, words + 32, *sums, BANDS, stride});
}
