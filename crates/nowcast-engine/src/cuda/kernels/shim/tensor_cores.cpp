// A warp's products, all at once. See tensor_cores.h.
#include "warp.h"
#include "tensor_cores.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HAS_CONVERSIONS 1
#include <immintrin.h>
#else
#define HAS_CONVERSIONS 0
#endif

namespace shim {
namespace {

// Rows of the left operand, columns, and inputs.
const unsigned ROWS = 16, COLUMNS = 8, INPUTS = 16;
// Rows that are multiplied together: as many sums as find registers.
const unsigned TOGETHER = 4;

typedef double Four __attribute__((vector_size(32)));
typedef float FourShort __attribute__((vector_size(16)));
typedef long long FourWide __attribute__((vector_size(32)));
typedef int FourWords __attribute__((vector_size(16)));
typedef unsigned short Halves[8];

// The values of eight f16s or bf16s.
inline void widen(const Halves& from, bool are_brains, double* to) {
#if HAS_CONVERSIONS
    __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    __m256i upper = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    __m256 values = are_brains ? _mm256_castsi256_ps(upper) : _mm256_cvtph_ps(halves);
    _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(values)));
    _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
#else
    for (unsigned at = 0; at < 8; at++) to[at] = are_brains ? half_value<2>(from[at], 0) : half_value<1>(from[at], 0);
#endif
}

// Of f16s and bf16s, products are exact: it is the same whether a sum is rounded once or they are rounded before.
inline Four multiply_add(Four left, Four right, Four sum) {
#if HAS_CONVERSIONS
    return _mm256_fmadd_pd(left, right, sum);
#else
    return left * right + sum;
#endif
}

inline FourShort towards_zero(Four values) {
    FourShort nearest = __builtin_convertvector(values, FourShort);
    Four found = __builtin_convertvector(nearest, Four);
    Four found_size = found < 0.0 ? -found : found, size = values < 0.0 ? -values : values;
    // One less in size where it is too large; infinity becomes the largest number.
    FourWide excess = found_size > size;
    return (FourShort)((FourWords)nearest + __builtin_convertvector(excess, FourWords));
}

// Of a band.
struct alignas(32) Operands {
    double left[ROWS][INPUTS];
    double right[INPUTS][COLUMNS];
    float sums[ROWS][COLUMNS];
};

void multiply_band(Operands& operands) {
    for (unsigned row = 0; row < ROWS; row += TOGETHER) {
        Four sums[TOGETHER][2];
#pragma GCC unroll 8
        for (unsigned index = 0; index < TOGETHER * 2; index++) {
            FourShort before;
            memcpy(&before, operands.sums[row + index / 2] + index % 2 * 4, sizeof(before));
            sums[index / 2][index % 2] = __builtin_convertvector(before, Four);
        }
#pragma GCC unroll 1
        for (unsigned input = 0; input < INPUTS; input++) {
            Four right[2];
            memcpy(right, operands.right[input], sizeof(right));
#pragma GCC unroll 8
            for (unsigned index = 0; index < TOGETHER * 2; index++) {
                double value = operands.left[row + index / 2][input];
                Four left = {value, value, value, value};
                Four& sum = sums[index / 2][index % 2];
                sum = multiply_add(left, right[index % 2], sum);
            }
        }
#pragma GCC unroll 8
        for (unsigned index = 0; index < TOGETHER * 2; index++) {
            FourShort after = towards_zero(sums[index / 2][index % 2]);
            memcpy(operands.sums[row + index / 2] + index % 2 * 4, &after, sizeof(after));
        }
    }
}

}  // namespace

void multiply(const Factors* const (&lanes)[LANES]) {
    const Factors& first = *lanes[0];
    Operands operands;
    Halves halves[INPUTS];
    for (unsigned quadrant = 0; quadrant < 4; quadrant++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            memcpy(&halves[lane / 4][lane % 4 * 2], &lanes[lane]->left[quadrant], 4);
        }
        for (unsigned row = 0; row < 8; row++) {
            widen(halves[row], first.are_brains, operands.left[quadrant % 2 * 8 + row] + quadrant / 2 * 8);
        }
    }
    for (unsigned lane = 1; lane < LANES; lane++) {
        const Factors& own = *lanes[lane];
        if (own.are_brains == first.are_brains && own.bands == first.bands && own.stride == first.stride) continue;
        fprintf(stderr, "lanes of a warp multiply different things\n");
        abort();
    }
    for (unsigned band = 0; band < first.bands; band++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            const Factors& own = *lanes[lane];
            unsigned near = own.right_near[band * own.stride], behind = own.right_behind[band * own.stride];
            unsigned input = lane % 4 * 2, column = lane / 4;
            halves[input][column] = (unsigned short)near, halves[input + 1][column] = (unsigned short)(near >> 16);
            halves[input + 8][column] = (unsigned short)behind, halves[input + 9][column] = (unsigned short)(behind >> 16);
            memcpy(&operands.sums[column][input], own.sums + band * 4, 8);
            memcpy(&operands.sums[column + 8][input], own.sums + band * 4 + 2, 8);
        }
        for (unsigned input = 0; input < INPUTS; input++) widen(halves[input], first.are_brains, operands.right[input]);
        multiply_band(operands);
        for (unsigned lane = 0; lane < LANES; lane++) {
            float* sums = lanes[lane]->sums + band * 4;
            memcpy(sums, &operands.sums[lane / 4][lane % 4 * 2], 8);
            memcpy(sums + 2, &operands.sums[lane / 4 + 8][lane % 4 * 2], 8);
        }
    }
}

}  // namespace shim
