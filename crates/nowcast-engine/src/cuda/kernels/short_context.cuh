// Statistics of a context of at most one point for each thread: what is known of a point stays with its thread.
#pragma once

#include "running_sums.cuh"
#include "statistics.cuh"

// Two sums up to a thread's point, in the order of `running_sums_together`, and those of all points.
struct PairOfSums {
    double upto[2], all[2];
};

__device__ __forceinline__ PairOfSums sums_of_threads(double first, double second) {
    __shared__ double totals[CHUNK / 32][2];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    PairOfSums sums = {{first, second}, {0.0, 0.0}};
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
#pragma unroll
        for (int which = 0; which < 2; which++) {
            double before = __shfl_up_sync(0xffffffffu, sums.upto[which], distance);
            if (lane >= distance) sums.upto[which] += before;
        }
    }
    if (lane == 31) totals[warp][0] = sums.upto[0], totals[warp][1] = sums.upto[1];
    __syncthreads();
    double before[2] = {0.0, 0.0};
#pragma unroll
    for (int other = 0; other < CHUNK / 32; other++) {
#pragma unroll
        for (int which = 0; which < 2; which++) {
            if (other == warp) before[which] = sums.all[which];
            sums.all[which] += totals[other][which];
        }
    }
#pragma unroll
    for (int which = 0; which < 2; which++) sums.upto[which] += before[which];
    // The next sums may take the place.
    __syncthreads();
    return sums;
}

// As `continue_statistics` from the first point on, for all threads of a block; that of the last point leaves the statistics.
__device__ __forceinline__ void scale_short_context(int kind, const Points<float>& points, int length, int patch,
                                                    const Whole* whole, double* state) {
    __shared__ double locations[CHUNK], scales[CHUNK];
    int index = threadIdx.x;
    bool is_point = index < length;
    double value = is_point ? points.value(index) : 0.0, weight = is_point ? points.weight(index) : 0.0;
    PairOfSums sums = sums_of_threads(weight * value, weight);
    double location = sums.upto[0] / at_least_one(sums.upto[1]), mean = sums.all[0] / at_least_one(sums.all[1]);
    if (!isfinite(mean)) mean = 0.0;
    locations[index] = location;
    __syncthreads();
    double previous = index > 0 ? locations[index - 1] : 0.0, apart = (value - mean) * weight;
    PairOfSums moments = sums_of_threads((value - previous) * (value - location) * weight, apart * apart);
    Statistics nothing = statistics_of_nothing();
    Statistics own = {sums.upto[1], sums.upto[0], moments.upto[0], location, nothing.least_scale, nothing.greatest_scale};
    double variance = moments.all[1] / at_least_one(sums.all[1]);
    if (kind == GLOBAL) {
        own = Statistics{0.0, 0.0, 0.0, mean, sqrt(variance + GLOBAL_MINIMUM), own.greatest_scale};
    } else if (whole && whole->greatest_factor != 0.0) {
        double scale = sqrt(variance + CAUSAL_MINIMUM), least = scale * whole->least_factor;
        own.least_scale = CAUSAL_MINIMUM > least ? CAUSAL_MINIMUM : least;
        own.greatest_scale = scale * whole->greatest_factor;
    }
    double scale = kind == GLOBAL ? own.least_scale : scale_from(own.second_moment, own.count, own);
    location = own.mean;
    if (kind == CAUSAL_PATCH) {
        // Those of a patch's last point hold for all of it; no location is read any more.
        locations[index] = location, scales[index] = scale;
        __syncthreads();
        int source = is_point ? index / patch * patch + patch - 1 : index;
        location = locations[source], scale = scales[source];
    }
    wait_for_previous();
    if (!is_point) return;
    points.scaled[index] = (float)((value - location) / scale);
    points.location[index] = location;
    points.scale[index] = scale;
    int last = index - (length - patch);
    if (last >= 0) points.last_location[last] = location, points.last_scale[last] = scale;
    if (index == length - 1) store_state(state, &own);
}
