// Elementary functions with the operations of `elementary.rs` and `cpu/math.rs`, one by one: the same digits.
#pragma once

#include "plan.cuh"

// Adding and subtracting this rounds to the nearest integer.
#define ROUND_F64 6755399441055744.0
#define LN_2_HIGH 0.6931471803691238
#define LN_2_LOW 1.9082149292705877e-10

// 2^n and exp(r) - 1 for x = n ln 2 + r.
__device__ inline double exponential_parts(double x, double* rest) {
    const double coefficients[12] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
        1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      0.5};
    double shifted = fma(x, 1.4426950408889634, ROUND_F64);
    double n = shifted - ROUND_F64;
    double r = fma(-n, LN_2_LOW, fma(-n, LN_2_HIGH, x));
    double sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < 12; index++) sum = fma(sum, r, coefficients[index]);
    *rest = fma(r * r, sum, r);
    u64 bits = ((u64)__double_as_longlong(shifted) << 52) + (u64)__double_as_longlong(1.0);
    return __longlong_as_double((i64)bits);
}

// exp(x), saturated at the ends of -708 to 709.
__device__ inline double exponential(double x) {
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    double rest;
    double scale = exponential_parts(x, &rest);
    return fma(scale, rest, scale);
}

// exp(x) - 1 for |x| up to 700.
__device__ inline double exponential_minus_one(double x) {
    double rest;
    double scale = exponential_parts(x, &rest);
    return fma(scale, rest, scale - 1.0);
}

// The natural logarithm of a positive, normal, finite number.
__device__ inline double logarithm(double x) {
    const double coefficients[10] = {2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0,
                                     2.0 / 11.0, 2.0 / 9.0,  2.0 / 7.0,  2.0 / 5.0,  2.0 / 3.0};
    u64 bits = (u64)__double_as_longlong(x);
    u64 offset = (u64)__double_as_longlong(1.0) - (u64)__double_as_longlong(0.70710678118654752440);
    u64 field = (bits + offset) >> 52;
    double m = __longlong_as_double((i64)(bits - ((field - 1023) << 52)));
    double e = __longlong_as_double((i64)((u64)__double_as_longlong(ROUND_F64) + field)) - (ROUND_F64 + 1023.0);
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < 10; index++) sum = fma(sum, z, coefficients[index]);
    double series = z * sum;
    double half_square = 0.5 * f * f;
    double correction = fma(s, half_square + series, e * LN_2_LOW);
    return fma(e, LN_2_HIGH, f - (half_square - correction));
}

// cos(2 pi turns) for turns from 0 to 1.
__device__ inline double cosine_of_turns(double turns) {
    const double coefficients[10] = {1.0 / 51090942171709440000.0, -1.0 / 121645100408832000.0, 1.0 / 355687428096000.0,
                                     -1.0 / 1307674368000.0,       1.0 / 6227020800.0,          -1.0 / 39916800.0,
                                     1.0 / 362880.0,               -1.0 / 5040.0,               1.0 / 120.0,
                                     -1.0 / 6.0};
    double angle = 6.283185307179586 * (fabs(turns - 0.5) - 0.25);
    double square = angle * angle;
    double sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < 10; index++) sum = fma(sum, square, coefficients[index]);
    return fma(angle * square, sum, angle);
}

// exp(x) in f32, as the attention and the gates of the CPU take it.
__device__ inline float exponential_f32(float x) {
    const float rounder = 12582912.0f;
    const float coefficients[5] = {0.0013814467f, 0.008368781f, 0.041668393f, 0.1666652f, 0.49999994f};
    x = -104.0f > x ? -104.0f : x;
    x = 89.0f < x ? 89.0f : x;
    float exponent = fmaf(x, 1.44269504088896340736f, rounder) - rounder;
    float rest = fmaf(exponent, -(355.0f / 512.0f), x);
    rest = fmaf(exponent, 0.00021219444f, rest);
    float sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < 5; index++) sum = fmaf(sum, rest, coefficients[index]);
    sum = fmaf(rest * rest, sum, rest) + 1.0f;
    float half = fmaf(exponent, 0.5f, rounder);
    float other = exponent - (half - rounder) + rounder;
    float first = __int_as_float((int)(((u32)__float_as_int(half) << 23) + 0x3f800000u));
    float second = __int_as_float((int)(((u32)__float_as_int(other) << 23) + 0x3f800000u));
    return sum * first * second;
}

// exp(x) for x up to 0, with the polynomial of `exponential_f32`; below -87, where nothing is left of it beside 1, as there.
__device__ __forceinline__ float exponential_of_negative(float x) {
    const float rounder = 12582912.0f;
    const float coefficients[5] = {0.0013814467f, 0.008368781f, 0.041668393f, 0.1666652f, 0.49999994f};
    x = x < -87.0f ? -87.0f : x;
    float shifted = fmaf(x, 1.44269504088896340736f, rounder), exponent = shifted - rounder;
    float rest = fmaf(exponent, 0.00021219444f, fmaf(exponent, -(355.0f / 512.0f), x));
    float sum = coefficients[0];
#pragma unroll
    for (int index = 1; index < 5; index++) sum = fmaf(sum, rest, coefficients[index]);
    sum = fmaf(rest * rest, sum, rest) + 1.0f;
    return __int_as_float((int)((u32)__float_as_int(sum) + ((u32)__float_as_int(shifted) << 23)));
}

#ifndef NOWCAST_SHIM
// 2^x and 1 / x within 2^-22, by one instruction each.
__device__ __forceinline__ float short_power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ __forceinline__ float short_inverse(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
#endif
