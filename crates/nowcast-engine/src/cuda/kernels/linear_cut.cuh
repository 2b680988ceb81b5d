// Rows of products on tensor cores cut into fragments: a block cuts a band, or some rows of one.
#pragma once

#include "fragments.cuh"

#define BAND_THREADS (32 * BAND)
// Steps of a row that a thread keeps between looking for the largest value and cutting: rows of up to 768 inputs are
// read once, and where many rows are cut, rows of up to 3,072 too.
#define KEPT_STEPS 6
#define MOST_KEPT_STEPS 24
// Where few rows are cut, blocks are to find room beside those of the product before: few threads, of 64 registers each.
#define FEW_KEPT_STEPS 8
#define FEW_THREADS (BAND_THREADS / 2)
#define FEW_BLOCKS_TOGETHER 8

// What the groups of threads of a block tell each other of its rows.
struct BandShare {
    float largest[BAND][BAND];
    float squares[BAND][BAND];
};

// Cuts `ROWS` rows of a band into fragments, by groups of threads, each of which takes every so many-th step; thread
// `4 r + q` of every group takes row r. The rows' scales can be asked for after the next barrier. GROUPED writes the order of
// warpgroups (linear_warpgroup.cuh).
template <int FORMAT, bool GROUPED, int ROWS, int GROUPS>
struct BandCutter {
    static const bool IS_SCALED = Pieces<FORMAT>::IS_SCALED;
    // Eight groups sum squares: another number would sum them in another order.
    static const bool HAS_SQUARES = GROUPS == BAND;
    static const int WARPS = GROUPS * ROWS / BAND;
    // From one step of a thread to its next: inputs, and words of a fragment.
    static const int INPUTS = GROUPS * 16, WORDS = GROUPS * 64 * Pieces<FORMAT>::COUNT;
    static_assert(GROUPS % STEPS == 0, "a thread's steps stand alike in their links");
    // The thread's own first step.
    const float* from;
    u32* to;
    BandShare* share;
    int inputs;
    // Steps of the row from the own first one on; none where there is no row, or none is to be cut.
    int all_left, left;
    int group, place, quarter;
    float largest, factor, squares;

    // Everything that need not wait for the kernel before.
    __device__ __forceinline__ BandCutter(const float* rows, int live_rows, int first_row, int all_inputs, int links, uint4* band,
                                          BandShare* all) {
        group = threadIdx.x / (4 * ROWS), place = threadIdx.x / 4 % ROWS, quarter = threadIdx.x % 4;
        inputs = all_inputs, share = all;
        all_left = place < live_rows ? links * STEPS - group : 0;
        from = rows + place * inputs + group * 16 + quarter * 4;
        int lane = (first_row + place) * 4 + quarter;
        to = reinterpret_cast<u32*>(band);
        if (GROUPED) {
            to += place_of_pair<FORMAT>(group, lane);
        } else if (FORMAT == SPLIT) {
            to += (group * 32 + lane) * 4;
        } else {
            to += place_of_four(group, lane) * 2;
        }
        known_now(from), known_now(to), known_now(all_left);
    }

    // Begins with the rows, or goes through the same for none of them. The factor is 0 until the largest value decides it.
    __device__ __forceinline__ void begin(bool is_wanted, float known_factor) {
        left = is_wanted ? all_left : 0;
        factor = known_factor;
        largest = 0.0f, squares = 0.0f;
    }

    __device__ __forceinline__ bool looks() const {
        return IS_SCALED && factor == 0.0f;
    }
    __device__ __forceinline__ bool has(int index) const {
        return GROUPS * index < left;
    }
    // Four values of an own step, zeros where there is none: loads that nothing branches round are all on their way at once.
    __device__ __forceinline__ float4 load(int index) const {
        return load_four_if(has(index), from + index * INPUTS);
    }

    __device__ __forceinline__ void widen(const float4& four) {
        largest = fmaxf(largest, largest_magnitude(four));
    }

    // The largest value of the row, among all groups.
    __device__ __forceinline__ void agree() {
        auto with = [&](int other) { largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, other)); };
        with(2), with(1);
#pragma unroll
        for (int other = 4 * ROWS; other < 32; other *= 2) with(other);
        if (threadIdx.x % 32 == place * 4) share->largest[place][threadIdx.x / 32] = largest;
        __syncthreads();
#pragma unroll
        for (int other = 0; other < WARPS; other++) largest = fmaxf(largest, share->largest[place][other]);
        factor = power_of_two(LARGEST_EXPONENT - exponent_of(largest));
    }

    // Four values of an own step, if there is one, of which the compiler may know.
    __device__ __forceinline__ void cut(int index, const float4& four, bool is_there) {
        Cut cut = cut_values<FORMAT>(four, factor, &squares);
        u32* words = to + index * WORDS;
        if (GROUPED) {
            write_pairs_if<FORMAT>(is_there, words, cut);
        } else if (!is_there) {
            return;
        } else if (FORMAT == SPLIT) {
            *reinterpret_cast<uint4*>(words) = make_uint4(cut.near.x, cut.near.y, cut.rest.x, cut.rest.y);
        } else {
            *reinterpret_cast<uint2*>(words) = cut.near;
        }
    }

    __device__ __forceinline__ void end() {
        if (!HAS_SQUARES) return;
        for (int half = 2; half > 0; half /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, half);
        if (quarter == 0) share->squares[place][group] = squares;
    }

    // Rows of whole links, of which `KEPT` steps are kept.
    template <int KEPT>
    __device__ __forceinline__ void run() {
        float4 kept[KEPT];
#pragma unroll
        for (int index = 0; index < KEPT; index++) kept[index] = load(index);
        if (looks()) {
#pragma unroll 1
            for (int start = KEPT; has(start); start += 4) {
                float4 some[4];
#pragma unroll
                for (int next = 0; next < 4; next++) some[next] = load(start + next);
#pragma unroll
                for (int next = 0; next < 4; next++) widen(some[next]);
            }
#pragma unroll
            for (int index = 0; index < KEPT; index++) widen(kept[index]);
            agree();
        }
#pragma unroll
        for (int index = 0; index < KEPT; index++) {
            // Few rows are gone through without branches, so that their instructions come for none of them too.
            if (ROWS < BAND) {
                cut(index, kept[index], has(index));
            } else if (has(index)) {
                cut(index, kept[index], true);
            }
        }
#pragma unroll 2
        for (int index = KEPT; has(index); index++) cut(index, load(index), true);
        end();
    }

    // Any rows, value by value.
    __device__ __forceinline__ void run_ragged() {
        auto four = [&](int index) {
            int input = group * 16 + quarter * 4 + index * INPUTS;
            return four_inputs(from + index * INPUTS - input, input, inputs);
        };
        if (looks()) {
#pragma unroll 1
            for (int index = 0; has(index); index++) widen(four(index));
            agree();
        }
#pragma unroll 1
        for (int index = 0; has(index); index++) cut(index, four(index), true);
        end();
    }

    // Once the rows are there.
    __device__ __forceinline__ void cut_all(int links) {
        if (inputs % LINK != 0) {
            run_ragged();
        } else if constexpr (ROWS < BAND) {
            run<FEW_KEPT_STEPS>();
        } else if (links * STEPS <= BAND * KEPT_STEPS) {
            run<KEPT_STEPS>();
        } else if (links * STEPS <= BAND * 2 * KEPT_STEPS) {
            run<2 * KEPT_STEPS>();
        } else {
            run<MOST_KEPT_STEPS>();
        }
    }
};

// What the results of a row are multiplied by: the power of two that its values were divided by, if any, and the inverse
// root mean square, if there is a norm. So many warps looked for the largest value.
template <int FORMAT, int WARPS = BAND>
__device__ inline float scale_of_row(const BandShare& share, int place, double inverse_inputs, int has_norm, float epsilon) {
    float largest = 0.0f, squares = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS && Pieces<FORMAT>::IS_SCALED; warp++) largest = fmaxf(largest, share.largest[place][warp]);
    int exponent = Pieces<FORMAT>::IS_SCALED ? exponent_of(largest) : LARGEST_EXPONENT;
    if (!has_norm) return power_of_two(exponent - LARGEST_EXPONENT);
#pragma unroll
    for (int group = 0; group < BAND; group++) squares += share.squares[place][group];
    // Squares beyond f32, which only values without a power of two have, must not end as zeros.
    if (!Pieces<FORMAT>::IS_SCALED && isinf(squares)) return squares;
    // Of the scaled values, whose squares are larger by the square of the factor.
    double factor = (double)power_of_two(LARGEST_EXPONENT - exponent);
    return (float)rsqrt((double)squares * inverse_inputs + (double)epsilon * (factor * factor));
}
