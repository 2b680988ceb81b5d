// The head's raw outputs on their way to distributions and paths, with the operations of `cpu/mixture`.
//
// A position's raw values are `[df K | location K | scale K | logits K]` for K components, or three for a single
// Student-t.
#include "elementary.cuh"
#include "random.cuh"

__device__ inline float softplus(float x) {
    float value = (float)logarithm(1.0 + exponential((double)x));
    return x <= 20.0f ? value : x;
}

__device__ inline float scale_from(float raw) {
    float value = softplus(raw);
    return value < 1.1920929e-7f ? 1.1920929e-7f : value;
}

__device__ inline float degrees_of_freedom_from(float raw) {
    return 2.0f + scale_from(raw);
}

// What is infinite or at least half the largest f32 is 0; NaN stays, for a forecast of it is refused.
__device__ inline double replace_extreme(double value) {
    return fabsf((float)value) >= 0.5f * 3.40282347e+38f ? 0.0 : value;
}

struct Activate {
    // [rows, positions, values]
    const float* parameters;
    // [rows, positions, components] each.
    float* degrees_of_freedom;
    float* location;
    float* scale;
    float* logits;
    const Live* live;
    Rows rows;
    int positions;
    int components;
    int parameter_width;
    int has_logits;
};

// One thread for each row, position and component.
KERNEL(activate_mixture, Activate, 256) {
    i64 index = thread_index();
    int components = call.components, values = components * (call.has_logits ? 4 : 3);
    i64 row = index / (call.positions * components);
    if (row >= count(call.rows, call.live)) return;
    int position = (int)(index / components % call.positions), component = (int)(index % components);
    const float* raw = call.parameters + row * call.parameter_width + position * values + component;
    call.degrees_of_freedom[index] = degrees_of_freedom_from(raw[0]);
    call.location[index] = raw[components];
    call.scale[index] = scale_from(raw[2 * components]);
    call.logits[index] = call.has_logits ? raw[3 * components] : 0.0f;
}

struct Draw {
    // [rows, positions, values], one row per series or per path.
    const float* parameters;
    const double* location;
    const double* scale;
    // [series]
    const u32* streams;
    // [paths, horizon]
    double* paths;
    // The nearest f32s, or null.
    float* rounded;
    const Live* live;
    // Rows of `paths`.
    Rows rows;
    int parameter_width;
    int affine_width;
    int positions;
    int components;
    int has_logits;
    int horizon;
    int column;
    int step;
    // Whether the samples of a series share one row of parameters.
    int shared;
    // Whether shared memory holds the logits of a block's positions.
    int staged;
};

__device__ inline float largest_logit(const float* logits, int components) {
    float largest = __int_as_float(0xff800000);
    for (int index = 0; index < components; index++) largest = logits[index] > largest ? logits[index] : largest;
    return largest;
}

// One thread for each path and position.
KERNEL(mean_mixture, Draw, 128) {
    i64 index = thread_index();
    i64 row = index / call.positions;
    int position = (int)(index % call.positions), components = call.components;
    if (row >= count(call.rows, call.live)) return;
    int values = components * (call.has_logits ? 4 : 3);
    const float* raw = call.parameters + row * call.parameter_width + position * values;
    double total = 0.0, sum = 0.0;
    if (call.has_logits) {
        const float* logits = raw + 3 * components;
        float largest = largest_logit(logits, components);
        for (int component = 0; component < components; component++) {
            double weight = (double)exponential_f32(logits[component] - largest);
            total += weight;
            sum += weight * (double)raw[components + component];
        }
    } else {
        total = 1.0;
        sum = (double)raw[1];
    }
    i64 affine = row * call.affine_width + position;
    call.paths[row * call.horizon + call.column + position] =
        replace_extreme(call.scale[affine] * (sum / total) + call.location[affine]);
}

// The sums of the components' weights up to each, `[positions, components]`, by all threads of a block.
__device__ inline void sum_weights(const float* parameters, int positions, int components, double* sums) {
    int values = 4 * components;
    for (int index = threadIdx.x; index < positions * components; index += blockDim.x) {
        const float* logits = parameters + index / components * values + 3 * components;
        sums[index] = (double)exponential_f32(logits[index % components] - largest_logit(logits, components));
    }
    __syncthreads();
    for (int position = threadIdx.x; position < positions; position += blockDim.x) {
        double sum = 0.0;
#pragma unroll 8
        for (int component = 0; component < components; component++) {
            sum += sums[position * components + component];
            sums[position * components + component] = sum;
        }
    }
    __syncthreads();
}

// Floats of a staged position: an odd number of fours, so that those of neighbouring threads lie in different banks.
__device__ inline int staged_stride(int components) {
    return (components / 4 | 1) * 4;
}

// Copies the logits of each lane of a warp, or none where it has null, to `[32, staged_stride]`; neighbouring lanes ask for
// neighbouring fours.
__device__ inline void stage_logits(const float* logits, int components, float* staged) {
    int fours = components / 4, stride = staged_stride(components), lane = threadIdx.x % 32;
    int owner = lane / fours, four = lane % fours, owners = 32 / fours, left = 32 % fours;
    for (int step = 0; step < fours; step++) {
        const float* from = reinterpret_cast<const float*>(__shfl_sync(0xffffffffu, reinterpret_cast<u64>(logits), owner));
        if (from) copy_ahead(staged + owner * stride + 4 * four, from + 4 * four);
        owner += owners;
        four += left;
        if (four >= fours) {
            four -= fours;
            owner++;
        }
    }
    end_copies();
}

// The component that a number from 0 to 1 falls to by staged logits, which are replaced by their weights, and the sum of
// these.
__device__ inline int choose_staged(float* staged, int components, double uniform, double* total) {
    float4* fours = reinterpret_cast<float4*>(staged);
    float largest = __int_as_float(0xff800000);
#pragma unroll 2
    for (int index = 0; index < components / 4; index++) {
        float4 four = fours[index];
        largest = fmaxf(largest, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
    }
    double sum = 0.0;
#pragma unroll 2
    for (int index = 0; index < components / 4; index++) {
        float4 four = fours[index];
        four = make_float4(exponential_f32(four.x - largest), exponential_f32(four.y - largest),
                           exponential_f32(four.z - largest), exponential_f32(four.w - largest));
        fours[index] = four;
        sum = sum + (double)four.x + (double)four.y + (double)four.z + (double)four.w;
    }
    *total = sum;
    double share = uniform * sum, cumulative = 0.0;
    int chosen = 0;
    auto pass = [&](float weight) {
        cumulative += (double)weight;
        chosen += share >= cumulative;
    };
#pragma unroll 2
    for (int index = 0; index < components / 4; index++) {
        float4 four = fours[index];
        pass(four.x);
        pass(four.y);
        pass(four.z);
        if (4 * index + 4 < components) pass(four.w);
    }
    return chosen;
}

// Grid: blocks of paths and positions, then series where the samples of one share their parameters. One thread for each
// path and position. Random numbers depend on inputs alone, which are there before all kernels.
KERNEL_AHEAD(sample_mixture, Draw, 128, 1) {
    SHARED_MEMORY(memory);
    double* sums = reinterpret_cast<double*>(memory);
    i64 index = thread_index();
    int position = (int)(index % call.positions), components = call.components, samples = call.live->samples;
    int values = components * (call.has_logits ? 4 : 3);
    i64 row = index / call.positions, rows = call.shared ? samples : count(call.rows, call.live);
    i64 series = call.shared ? blockIdx.y : row / samples, source = call.shared ? series : row;
    bool is_series = !call.shared || series < count(call.rows, call.live) / samples;
    const float* parameters = call.parameters + source * call.parameter_width;
    bool is_summed = call.shared && call.has_logits, is_path = is_series && row < rows;
    u32 sample = call.live->first_sample + (u32)(row % samples);
    u32 stream = is_path ? call.streams[series] : 0;
    Words bits = philox((u32)position, (u32)call.step, sample, stream, call.live->seed_low, call.live->seed_high);
    double exponent = -2.0 * logarithm(uniform_from_64(bits.words[1], bits.words[2]));
    double cosine = cosine_of_turns(uniform_from_32(bits.words[3]));
    wait_for_previous();
    if (!is_series) return;
    const float* raw = parameters + position * values;
    i64 affine = source * call.affine_width + position;
    double affine_scale = is_path ? call.scale[affine] : 0.0, affine_location = is_path ? call.location[affine] : 0.0;
    int stride = staged_stride(components);
    if (is_summed) sum_weights(parameters, call.positions, components, sums);
    if (call.staged) {
        stage_logits(is_path ? raw + 3 * components : nullptr, components, memory + threadIdx.x / 32 * 32 * stride);
        wait_for_copies<0>();
        __syncwarp();
    }
    if (!is_path) return;
    row = call.shared ? series * samples + row : row;
    int chosen = 0;
    double total = 1.0, uniform = uniform_from_32(bits.words[0]);
    if (is_summed) {
        const double* own = sums + position * components;
        total = own[components - 1];
        double share = uniform * total;
#pragma unroll 8
        for (int component = 0; component + 1 < components; component++) chosen += share >= own[component];
    } else if (call.staged) {
        chosen = choose_staged(memory + threadIdx.x * stride, components, uniform, &total);
    } else if (call.has_logits) {
        const float* logits = raw + 3 * components;
        float largest = largest_logit(logits, components);
        total = 0.0;
        for (int component = 0; component < components; component++) {
            total += (double)exponential_f32(logits[component] - largest);
        }
        double share = uniform * total, cumulative = 0.0;
        for (int component = 0; component + 1 < components; component++) {
            cumulative += (double)exponential_f32(logits[component] - largest);
            chosen += share >= cumulative;
        }
    }
    float raw_freedom = raw[chosen], centre = raw[components + chosen], raw_scale = raw[2 * components + chosen];
    ask_now();
    double nu = (double)degrees_of_freedom_from(raw_freedom);
    double sigma = (double)scale_from(raw_scale);
    double radius = nu * exponential_minus_one(exponent / nu);
    double t = sqrt(radius) * cosine;
    double value = (double)centre + sigma * t + 0.0 * total;
    i64 to = row * call.horizon + call.column + position;
    double drawn = replace_extreme(affine_scale * value + affine_location);
    call.paths[to] = drawn;
    if (call.rounded) call.rounded[to] = (float)drawn;
}
