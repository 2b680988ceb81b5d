// Running statistics in f64 (Welford's form), in the order of `scaler.rs`.
//
// Only the sums are chains; one thread walks each of them while the divisions and roots between run in parallel.
#include "plan.cuh"

#define CHUNK 256
#define CAUSAL_MINIMUM 0.1
#define GLOBAL_MINIMUM 1e-3
#define STATE_WIDTH 6

enum { GLOBAL = 0, CAUSAL = 1, CAUSAL_PATCH = 2 };

struct Statistics {
    double count, sum, second_moment, mean, least_scale, greatest_scale;
};

__device__ inline double at_least_one(double value) {
    return value > 1.0 ? value : 1.0;
}

__device__ inline double bounded_scale(double count, double second_moment, double least, double greatest) {
    double variance = second_moment / at_least_one(at_least_one(count) - 1.0);
    double scale = sqrt(variance + CAUSAL_MINIMUM);
    scale = scale > least ? scale : least;
    return scale < greatest ? scale : greatest;
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
};

// Continues the statistics over `length` points and scales them; all threads of the block take part. Statistics of a
// patch hold for all its points where `kind` says so.
template <typename Value>
__device__ void continue_statistics(int kind, const Points<Value>& points, int length, int patch, Statistics* state) {
    __shared__ double counts[CHUNK], sums[CHUNK + 1], means[CHUNK + 1], terms[CHUNK];
    if (kind == GLOBAL) {
        for (int index = threadIdx.x; index < length; index += blockDim.x) {
            points.location[index] = state->mean;
            points.scale[index] = state->least_scale;
        }
    } else {
        for (int start = 0; start < length; start += CHUNK) {
            int size = length - start < CHUNK ? length - start : CHUNK;
            __syncthreads();
            if (threadIdx.x == 0) {
                double sum = state->sum;
                for (int index = 0; index < size; index++) {
                    double weight = points.mask ? (double)points.mask[start + index] : 1.0;
                    sum = sum + weight * (double)points.values[start + index];
                    sums[index] = sum;
                }
                state->sum = sum;
            } else if (threadIdx.x == 32) {
                double total = state->count;
                for (int index = 0; index < size; index++) {
                    total += points.mask ? (double)points.mask[start + index] : 1.0;
                    counts[index] = total;
                }
                state->count = total;
            }
            __syncthreads();
            if (threadIdx.x == 0) means[0] = state->mean;
            for (int index = threadIdx.x; index < size; index += blockDim.x) {
                means[index + 1] = sums[index] / at_least_one(counts[index]);
            }
            __syncthreads();
            for (int index = threadIdx.x; index < size; index += blockDim.x) {
                double value = (double)points.values[start + index];
                double weight = points.mask ? (double)points.mask[start + index] : 1.0;
                terms[index] = (value - means[index]) * (value - means[index + 1]) * weight;
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                double moment = state->second_moment;
                for (int index = 0; index < size; index++) {
                    moment += terms[index];
                    terms[index] = moment;
                }
                state->second_moment = moment;
                state->mean = means[size];
            }
            __syncthreads();
            for (int index = threadIdx.x; index < size; index += blockDim.x) {
                points.location[start + index] = means[index + 1];
                points.scale[start + index] =
                    bounded_scale(counts[index], terms[index], state->least_scale, state->greatest_scale);
            }
        }
    }
    __syncthreads();
    for (int index = threadIdx.x; index < length; index += blockDim.x) {
        int last = index / patch * patch + patch - 1;
        int source = kind == CAUSAL_PATCH ? last : index;
        double location = points.location[source], scale = points.scale[source];
        points.scaled[index] = (float)(((double)points.values[index] - location) / scale);
        // The last point of a patch keeps its own values, so others may read them at any time.
        if (source != index) {
            points.location[index] = location;
            points.scale[index] = scale;
        }
    }
}

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

struct ScaleContext {
    const float* values;
    const float* mask;
    float* scaled;
    double* location;
    double* scale;
    double* state;
    const Live* live;
    Rows series;
    // Rows of `values`, `patch` points each.
    Rows rows;
    int patch;
    int kind;
    // 10^-exponent and 10^exponent, or zeros where nothing is stabilised.
    double least_factor;
    double greatest_factor;
};

// Grid: series.
KERNEL(scale_context, ScaleContext, CHUNK) {
    __shared__ Statistics state;
    __shared__ double totals[2];
    int series = count(call.series, call.live);
    if ((int)blockIdx.x >= series) return;
    int length = count(call.rows, call.live) / series * call.patch;
    i64 start = (i64)blockIdx.x * length;
    Points<float> points = {call.values + start, call.mask + start, call.scaled + start, call.location + start,
                            call.scale + start};
    bool whole = call.kind == GLOBAL || call.greatest_factor != 0.0;
    if (whole) {
        // Moments of the whole context, each in the order of the points.
        if (threadIdx.x == 0) {
            double sum = 0.0;
            for (int index = 0; index < length; index++) {
                sum += (double)points.mask[index] * (double)points.values[index];
            }
            totals[0] = sum;
        } else if (threadIdx.x == 32) {
            double total = 0.0;
            for (int index = 0; index < length; index++) total += (double)points.mask[index];
            totals[1] = at_least_one(total);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        state = Statistics{0.0, 0.0, 0.0, 0.0, __longlong_as_double((i64)0xfff0000000000000ull),
                           __longlong_as_double(0x7ff0000000000000ll)};
        if (whole) {
            double mean = totals[0] / totals[1];
            if (!isfinite(mean)) mean = 0.0;
            double squares = 0.0;
            for (int index = 0; index < length; index++) {
                double term = ((double)points.values[index] - mean) * (double)points.mask[index];
                squares += term * term;
            }
            double variance = squares / totals[1];
            if (call.kind == GLOBAL) {
                state.mean = mean;
                state.least_scale = sqrt(variance + GLOBAL_MINIMUM);
            } else {
                double scale = sqrt(variance + CAUSAL_MINIMUM);
                double least = scale * call.least_factor;
                state.least_scale = CAUSAL_MINIMUM > least ? CAUSAL_MINIMUM : least;
                state.greatest_scale = scale * call.greatest_factor;
            }
        }
    }
    __syncthreads();
    continue_statistics(call.kind, points, length, call.patch, &state);
    if (threadIdx.x == 0) store_state(call.state + (i64)blockIdx.x * STATE_WIDTH, &state);
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
                             call.location + start, call.scale + start};
    continue_statistics(call.kind, points, call.patch, call.patch, &state);
    if (threadIdx.x == 0) store_state(call.state + row * STATE_WIDTH, &state);
}
