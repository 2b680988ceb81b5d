// Running statistics in f64 (Welford's form), and what they are of.
#pragma once

#include "plan.cuh"

#define CAUSAL_MINIMUM 0.1
#define GLOBAL_MINIMUM 1e-3
#define STATE_WIDTH 6

enum { GLOBAL = 0, CAUSAL = 1, CAUSAL_PATCH = 2 };

struct Statistics {
    double count, sum, second_moment, mean, least_scale, greatest_scale;
};

// Before the first point.
__device__ inline Statistics statistics_of_nothing() {
    return Statistics{0.0, 0.0, 0.0, 0.0, __longlong_as_double((i64)0xfff0000000000000ull),
                      __longlong_as_double(0x7ff0000000000000ll)};
}

__device__ inline double at_least_one(double value) {
    return value > 1.0 ? value : 1.0;
}

__device__ inline double bounded_scale(double variance, double least, double greatest) {
    double scale = sqrt(variance + CAUSAL_MINIMUM);
    scale = scale > least ? scale : least;
    return scale < greatest ? scale : greatest;
}

// The bounded scale from the second moment of so many points.
__device__ __forceinline__ double scale_from(double second_moment, double count, const Statistics& state) {
    double variance = second_moment / at_least_one(at_least_one(count) - 1.0);
    return bounded_scale(variance, state.least_scale, state.greatest_scale);
}

// Where one series or path reads and writes.
template <typename Value>
struct Points {
    const Value* values;
    // Null where every point is valid.
    const float* mask;
    float* scaled;
    double* location;
    double* scale;
    // Those of the last patch once more, or null.
    double* last_location;
    double* last_scale;

    // Those of a series, with a mask and a last patch, by the places of both.
    __device__ Points from(i64 start, i64 last) const {
        return {values + start, mask + start, scaled + start, location + start,
                scale + start, last_location + last, last_scale + last};
    }
    __device__ double value(int index) const {
        return (double)values[index];
    }
    __device__ double weight(int index) const {
        return mask ? (double)mask[index] : 1.0;
    }
};

// Bounds of all scales from the moments of the whole context.
struct Whole {
    double least_factor, greatest_factor;
};

__device__ inline void load_state(Statistics* state, const double* from) {
    *state = Statistics{from[0], from[1], from[2], from[3], from[4], from[5]};
}

__device__ inline void store_state(double* to, const Statistics* state) {
    to[0] = state->count;
    to[1] = state->sum;
    to[2] = state->second_moment;
    to[3] = state->mean;
    to[4] = state->least_scale;
    to[5] = state->greatest_scale;
}
