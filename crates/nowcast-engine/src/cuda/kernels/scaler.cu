// Statistics of contexts and of paths. Only the sums are chains.
#include "short_context.cuh"

// Continues the statistics over `length` points and scales them; all threads of the block take part, and none writes
// before the kernel ahead is done. Statistics of a patch hold for all its points where `kind` says so. `whole` is null
// where bounds (or, for the global scaler, mean and scale) are known already.
template <typename Value>
__device__ __forceinline__ void continue_statistics(int kind, int exact, const Points<Value>& points, int length, int patch,
                                                    const Whole* whole, Statistics* state) {
    __shared__ double first[CHUNK], second[CHUNK], near_location[CHUNK], near_scale[CHUNK];
    __shared__ double squares;
    PointSums sums_of_points = {exact, length, first, second};
    bool causal = kind != GLOBAL;
    // What is known up to every point: of few points in shared memory, of more where locations and scales will be.
    bool is_near = length <= CHUNK;
    double* locations = is_near ? near_location : points.location;
    double* scales = is_near ? near_scale : points.scale;
    if (!is_near) wait_for_previous();
    auto weigh = [&](int index, double* sum, double* count) {
        *count = points.weight(index);
        *sum = *count * points.value(index);
    };
    auto locate = [&](int index, double sum, double count) {
        locations[index] = sum / at_least_one(count);
        scales[index] = count;
    };
    if (causal || whole) sums_of_points.run({&state->sum, &state->count}, true, weigh, locate);
    double mean = state->sum / at_least_one(state->count), before = state->mean;
    if (!isfinite(mean)) mean = 0.0;
    if (threadIdx.x == 0) squares = 0.0;
    __syncthreads();
    // Second moments about the running mean and, for the bounds, about the mean of all.
    auto part = [&](int index, double* moment, double* square) {
        double value = points.value(index), weight = points.weight(index);
        double previous = index == 0 ? before : locations[index - 1], apart = (value - mean) * weight;
        *moment = (value - previous) * (value - locations[index]) * weight;
        *square = apart * apart;
    };
    auto spread = [&](int index, double moment, double) {
        double above = at_least_one(scales[index]) - 1.0;
        scales[index] = moment / at_least_one(above);
    };
    if (causal || whole) sums_of_points.run({&state->second_moment, &squares}, whole, part, spread);
    if (threadIdx.x == 0) {
        if (whole) {
            double variance = squares / at_least_one(state->count);
            if (kind == GLOBAL) {
                *state = Statistics{0.0, 0.0, 0.0, mean, sqrt(variance + GLOBAL_MINIMUM), state->greatest_scale};
            } else if (whole->greatest_factor != 0.0) {
                double scale = sqrt(variance + CAUSAL_MINIMUM), least = scale * whole->least_factor;
                state->least_scale = CAUSAL_MINIMUM > least ? CAUSAL_MINIMUM : least;
                state->greatest_scale = scale * whole->greatest_factor;
            }
        }
        if (causal) state->mean = locations[length - 1];
    }
    __syncthreads();
    wait_for_previous();
    for (int index = threadIdx.x; index < length; index += blockDim.x) {
        double location = state->mean, scale = state->least_scale;
        int source = kind == CAUSAL_PATCH ? index / patch * patch + patch - 1 : index;
        if (causal) {
            location = locations[source];
            scale = bounded_scale(scales[source], state->least_scale, state->greatest_scale);
        }
        points.scaled[index] = (float)((points.value(index) - location) / scale);
        // Where it is read from here, the last point of a patch keeps its own values until all others have read them.
        if (is_near || source != index || !causal) {
            points.location[index] = location;
            points.scale[index] = scale;
        }
        int last = index - (length - patch);
        if (points.last_location && last >= 0) {
            points.last_location[last] = location;
            points.last_scale[last] = scale;
        }
    }
    if (is_near || kind == GLOBAL) return;
    __syncthreads();
    for (int index = threadIdx.x; index < length; index += blockDim.x) {
        bool own = kind == CAUSAL || index % patch == patch - 1;
        if (own) points.scale[index] = bounded_scale(points.scale[index], state->least_scale, state->greatest_scale);
    }
}

struct ScaleContext {
    // Of all series; those of last patches are [series, patch].
    Points<float> points;
    double* state;
    const Live* live;
    Rows series;
    // Rows of `values`, `patch` points each.
    Rows rows;
    int patch;
    int kind;
    // Whether sums are those of the CPU.
    int exact;
    int reserved;
    // 10^-exponent and 10^exponent, or zeros where nothing is stabilised.
    double least_factor;
    double greatest_factor;
};

// Grid: series. The context is an input, which is there before all kernels.
KERNEL_AHEAD(scale_context, ScaleContext, CHUNK, 1) {
    __shared__ Statistics state;
    int series = count(call.series, call.live);
    if ((int)blockIdx.x >= series) return wait_for_previous();
    int length = count(call.rows, call.live) / series * call.patch;
    i64 start = (i64)blockIdx.x * length;
    Points<float> points = call.points.from(start, (i64)blockIdx.x * call.patch);
    Whole whole = {call.least_factor, call.greatest_factor};
    const Whole* bounds = call.kind == GLOBAL || call.greatest_factor != 0.0 ? &whole : nullptr;
    double* to = call.state + (i64)blockIdx.x * STATE_WIDTH;
    if (!call.exact && length <= CHUNK) return scale_short_context(call.kind, points, length, call.patch, bounds, to);
    if (threadIdx.x == 0) state = statistics_of_nothing();
    __syncthreads();
    continue_statistics(call.kind, call.exact, points, length, call.patch, bounds, &state);
    if (threadIdx.x == 0) store_state(to, &state);
}

struct ScaleStep {
    // [paths, horizon]
    const double* paths;
    // Statistics of each series to start from, or null to continue those of the paths.
    const double* context_state;
    double* state;
    float* scaled;
    double* location;
    double* scale;
    const Live* live;
    Rows rows;
    int horizon;
    int column;
    int patch;
    int kind;
    int exact;
    int reserved;
};

// Grid: paths.
KERNEL(scale_step, ScaleStep, CHUNK) {
    __shared__ Statistics state;
    i64 row = blockIdx.x;
    if (row >= count(call.rows, call.live)) return;
    if (threadIdx.x == 0) {
        const double* from = call.context_state ? call.context_state + row / call.live->samples * STATE_WIDTH
                                                : call.state + row * STATE_WIDTH;
        load_state(&state, from);
    }
    __syncthreads();
    i64 start = row * call.patch;
    Points<double> points = {call.paths + row * call.horizon + call.column, nullptr, call.scaled + start,
                             call.location + start, call.scale + start, nullptr, nullptr};
    continue_statistics(call.kind, call.exact, points, call.patch, call.patch, nullptr, &state);
    if (threadIdx.x == 0) store_state(call.state + row * STATE_WIDTH, &state);
}

// Points of a lane where a warp continues the statistics of a path: all that there are.
#define LANE_POINTS 2

// As `running_sums_together`, for one list by one warp whose lanes have every 32nd value.
__device__ __forceinline__ void running_sums_of_warp(double (&values)[LANE_POINTS], double start) {
#pragma unroll
    for (int point = 0; point < LANE_POINTS; point++) {
        double sum = sum_up_to_lane(values[point]);
        values[point] = sum + start;
        start += __shfl_sync(0xffffffffu, sum, 31);
    }
}

// The value at a place that is the same for all lanes.
__device__ __forceinline__ double value_of_warp(const double (&values)[LANE_POINTS], int place) {
    double found = 0.0;
#pragma unroll
    for (int point = 0; point < LANE_POINTS; point++) {
        double value = __shfl_sync(0xffffffffu, values[point], place % 32);
        found = place / 32 == point ? value : found;
    }
    return found;
}

// `scale_step` with sums in the order of warps, for patches of at most 32 LANE_POINTS points: no barriers. One warp for each
// path.
KERNEL(scale_step_of_warp, ScaleStep, 128) {
    i64 row = thread_index() / 32;
    int lane = threadIdx.x % 32, patch = call.patch;
    if (row >= count(call.rows, call.live)) return;
    const double* path = call.paths + row * call.horizon + call.column;
    double values[LANE_POINTS], sums[LANE_POINTS], counts[LANE_POINTS], locations[LANE_POINTS], moments[LANE_POINTS];
#pragma unroll
    for (int point = 0; point < LANE_POINTS; point++) {
        int index = lane + 32 * point;
        values[point] = sums[point] = index < patch ? path[index] : 0.0;
    }
    Statistics state;
    load_state(&state, call.context_state ? call.context_state + row / call.live->samples * STATE_WIDTH
                                          : call.state + row * STATE_WIDTH);
    double scale = state.least_scale;
    if (call.kind != GLOBAL) {
        running_sums_of_warp(sums, state.sum);
        double start = state.count;
#pragma unroll
        for (int point = 0; point < LANE_POINTS; point++) {
            // Every point is valid.
            counts[point] = (double)(lane + 1) + start;
            start += 32.0;
            locations[point] = sums[point] / at_least_one(counts[point]);
        }
        double before = state.mean;
#pragma unroll
        for (int point = 0; point < LANE_POINTS; point++) {
            double previous = __shfl_up_sync(0xffffffffu, locations[point], 1);
            if (lane == 0) previous = before;
            before = __shfl_sync(0xffffffffu, locations[point], 31);
            double moment = (values[point] - previous) * (values[point] - locations[point]);
            moments[point] = lane + 32 * point < patch ? moment : 0.0;
        }
        running_sums_of_warp(moments, state.second_moment);
        state.count = value_of_warp(counts, patch - 1);
        state.sum = value_of_warp(sums, patch - 1);
        state.second_moment = value_of_warp(moments, patch - 1);
        state.mean = value_of_warp(locations, patch - 1);
        scale = scale_from(state.second_moment, state.count, state);
    }
#pragma unroll
    for (int point = 0; point < LANE_POINTS; point++) {
        int index = lane + 32 * point;
        if (index >= patch) continue;
        // Those of the last point hold for a patch.
        double location = state.mean;
        if (call.kind == CAUSAL) {
            location = locations[point];
            scale = scale_from(moments[point], counts[point], state);
        }
        i64 to = row * patch + index;
        call.scaled[to] = (float)((values[point] - location) / scale);
        call.location[to] = location;
        call.scale[to] = scale;
    }
    // All lanes have read it.
    __syncwarp();
    if (lane == 0) store_state(call.state + row * STATE_WIDTH, &state);
}
