// Quantiles of mixtures with the operations of `student_t/quantile.rs`: roots of their distribution functions.
#include "student_t.cuh"

#define LANES 8
#define TOLERANCE 1e-14
#define STEP_LIMIT 2200
#define LARGEST 1.7976931348623157e308

struct MixtureQuantiles {
    // [rows, positions, components] each, in the units of the head.
    const float* degrees_of_freedom;
    const float* location;
    const float* scale;
    const float* logits;
    // [rows, affine_width]
    const double* affine_location;
    const double* affine_scale;
    // [levels], each in (0, 1)
    const double* levels;
    // [rows, levels, positions]
    double* quantiles;
    const Live* live;
    Rows rows;
    int positions;
    int components;
    int level_count;
    int affine_width;
};

// What root finding needs to know about one point.
struct Evaluation {
    double lower;
    double upper;
    double density;
    double slope;
    double rate;
};

// A mixture in shared memory; a warp works on it together, and every thread has the same results.
struct Mixture {
    // Numbers of the components, their values at the last point, and sums over those that share a lane.
    double* numbers;
    double* values;
    double* sums;
    int count;
    double mean;
    double spread;

    __device__ Component component(int index) const { return Component{numbers + index, count}; }

    // Takes the parameters of a step to real units; false where they are no mixture.
    __device__ bool load(const MixtureQuantiles& call, i64 step, double affine_location, double affine_scale) {
        i64 first = step * count;
        double largest = -INFINITE;
        for (int index = 0; index < count; index++) {
            double logit = (double)call.logits[first + index];
            largest = logit > largest ? logit : largest;
        }
        for (int index = threadIdx.x; index < count; index += blockDim.x) {
            Component own = component(index);
            double below = (double)call.logits[first + index] - largest;
            own.weight() = below < -708.0 ? 0.0 : exponential(below);
            own.degrees_of_freedom() = (double)call.degrees_of_freedom[first + index];
            own.location() = (double)call.location[first + index] * affine_scale + affine_location;
            own.scale() = (double)call.scale[first + index] * affine_scale;
        }
        __syncthreads();
        double sum = 0.0;
        bool is_mixture = true;
        for (int index = 0; index < count; index++) {
            Component other = component(index);
            sum += other.weight();
            is_mixture &= other.weight() >= 0.0 && other.degrees_of_freedom() >= 2.0 && other.scale() > 0.0;
            is_mixture &= other.degrees_of_freedom() <= LARGEST && other.scale() <= LARGEST;
            is_mixture &= fabs(other.location()) <= LARGEST;
        }
        is_mixture &= sum > 0.0 && sum <= LARGEST;
        __syncthreads();
        for (int index = threadIdx.x; index < count; index += blockDim.x) {
            Component own = component(index);
            own.weight() = own.weight() / sum;
            own.prepare();
        }
        __syncthreads();
        mean = 0.0;
        for (int index = 0; index < count; index++) mean += component(index).weight() * component(index).location();
        spread = 0.0;
        for (int index = 0; index < count; index++) {
            double reach = component(index).scale() + fabs(component(index).location() - mean);
            spread = reach > spread ? reach : spread;
        }
        return is_mixture;
    }

    __device__ Evaluation evaluate(double x) const {
        if (!(fabs(x) <= LARGEST)) {
            double nothing = x == x ? 0.0 : NOT_A_NUMBER;
            return Evaluation{(x > 0.0 ? 1.0 : 0.0) + nothing, (x > 0.0 ? 0.0 : 1.0) + nothing, nothing, nothing, nothing};
        }
        for (int index = threadIdx.x; index < count; index += blockDim.x) {
            ComponentValues own = component(index).evaluate(x);
            values[index] = own.lower;
            values[count + index] = own.upper;
            values[2 * count + index] = own.density;
            values[3 * count + index] = own.slope;
            values[4 * count + index] = own.rate;
        }
        __syncthreads();
        int which = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        double sum = 0.0;
        for (int index = lane; index < count; index += LANES) sum += numbers[index] * values[which * count + index];
        sums[threadIdx.x] = sum;
        __syncthreads();
        double totals[4] = {}, rate = 0.0;
        for (int lane = 0; lane < LANES; lane++) {
            for (int which = 0; which < 4; which++) totals[which] += sums[which * LANES + lane];
        }
        for (int index = 0; index < count; index++) {
            double own = numbers[index] > 0.0 ? values[4 * count + index] : 0.0;
            rate = own > rate ? own : rate;
        }
        __syncthreads();
        return Evaluation{totals[0], totals[1], totals[2], totals[3], rate};
    }

    // Halley steps from the mean; see quantile.rs.
    __device__ double quantile(double level) const {
        double tail = level < 1.0 - level ? level : 1.0 - level;
        double low = -INFINITE, high = INFINITE, reach = spread, last = INFINITE, before_last = INFINITE;
        double x = mean;
        for (int steps_left = STEP_LIMIT; steps_left > 0; steps_left--) {
            Evaluation at = evaluate(x);
            double excess = level < 0.5 ? at.lower - level : (1.0 - level) - at.upper;
            if (fabs(excess) <= TOLERANCE * tail || steps_left == 1) return x;
            if (excess > 0.0) {
                high = x;
            } else {
                low = x;
            }
            double newton = -excess / at.density;
            double curve = 1.0 + 0.5 * newton * at.slope / at.density;
            curve = curve < 0.5 ? 0.5 : curve;
            curve = curve > 2.0 ? 2.0 : curve;
            double halley = newton / curve, next = x + halley;
            if (low > -INFINITE && high < INFINITE) {
                bool inside = low < next && next < high;
                if (!inside || fabs(halley) > 0.5 * before_last) {
                    next = 0.5 * low + 0.5 * high;
                    if (next <= low || next >= high) return next;
                }
            } else {
                if (!(fabs(halley) <= reach)) next = x - (excess > 0.0 ? reach : -reach);
                reach *= 2.0;
            }
            next = next < -LARGEST ? -LARGEST : next;
            next = next > LARGEST ? LARGEST : next;
            double length = fabs(next - x), turn = length * at.rate;
            if (turn < 0.1 && next == x + halley && turn * turn * length * at.density <= TOLERANCE * tail) return next;
            before_last = last;
            last = length;
            x = next;
        }
        return x;
    }
};

// One warp for each level of each step.
KERNEL(mixture_quantiles, MixtureQuantiles, 32) {
    SHARED_MEMORY(memory);
    int position = blockIdx.x % call.positions, level = blockIdx.x / call.positions % call.level_count;
    i64 row = blockIdx.x / call.positions / call.level_count;
    if (row >= count(call.rows, call.live)) return;
    Mixture mixture;
    mixture.count = call.components;
    mixture.numbers = reinterpret_cast<double*>(memory);
    mixture.values = mixture.numbers + COMPONENT_NUMBERS * call.components;
    mixture.sums = mixture.values + 5 * call.components;
    i64 affine = row * call.affine_width + position;
    bool is_mixture = mixture.load(call, row * call.positions + position, call.affine_location[affine],
                                   call.affine_scale[affine]);
    double quantile = is_mixture ? mixture.quantile(call.levels[level]) : NOT_A_NUMBER;
    if (threadIdx.x == 0) call.quantiles[blockIdx.x] = quantile;
}
