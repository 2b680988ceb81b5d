// What a lane has of sixteen rows of heads of 64 components: sixteen components of two rows, four of each sixteen, as
// tensor cores take values and hand sums out.
#pragma once

#include "attention_shares.cuh"

// Rows of a lane: one of each band.
#define LANE_ROWS (TILE_ROWS / BAND)

struct LaneRows {
    // What a lane has of a row.
    typedef float4 Row[CHUNK_STEPS];

    static const int HEAD_DIM = GROUP;
    int place, quarter;

    __device__ __forceinline__ LaneRows() {
        place = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
    }

    __device__ __forceinline__ int component(int step) const {
        return step * 16 + quarter * 4;
    }

    __device__ __forceinline__ void load(const float* from, Row& row) const {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            row[step] = four_at(from + component(step));
        }
    }
    // Where the lane's operands of a row begin, from a column that is a multiple of sixteen on.
    template <int FORMAT, typename Word>
    __device__ __forceinline__ Word* own_operands(Word* operands, int width, i64 row, int column) const {
        return operands_at<FORMAT>(operands, width, row, column / 16, quarter);
    }
    __device__ __forceinline__ static void load_operands(const u32* from, Row& row) {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            int place = place_of_pair<BRAIN>(step, 0);
            u32 low = from[place], high = from[place + PAIR_WORDS];
            row[step] = make_float4(lower_bf16(low), upper_bf16(low), lower_bf16(high), upper_bf16(high));
        }
    }
    template <int FORMAT>
    __device__ __forceinline__ static void store_operands(u32* to, float factor, const Row& row) {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            write_pairs<FORMAT>(to + place_of_pair<FORMAT>(step, 0), cut_values<FORMAT>(row[step], factor));
        }
    }
    __device__ __forceinline__ void store(float* to, const Row& row) const {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            *reinterpret_cast<float4*>(to + component(step)) = row[step];
        }
    }

    // Both components of a pair are the lane's own: neighbours, or, of 64 components, half a head apart.
    template <bool INTERLEAVED>
    __device__ __forceinline__ static float4 partners(const Row& row, int step) {
        const float4& own = row[step];
        return INTERLEAVED ? make_float4(own.y, own.x, own.w, own.z) : row[step ^ CHUNK_STEPS / 2];
    }
    // As `RotaryPair` rotates.
    __device__ __forceinline__ static float4 rotated(const float4& own, const float4& partner, const float4& cosine,
                                                     const float4& sine) {
        return make_float4(own.x * cosine.x + partner.x * sine.x, own.y * cosine.y + partner.y * sine.y,
                           own.z * cosine.z + partner.z * sine.z, own.w * cosine.w + partner.w * sine.w);
    }
    // By the cosines of queries and the sines behind them, or those of keys.
    __device__ __forceinline__ void rotate(const float* cosines, bool interleaved, Row (&all)[LANE_ROWS]) const {
        if (interleaved) {
            rotate_pairs<true>(cosines, all);
        } else {
            rotate_pairs<false>(cosines, all);
        }
    }
    template <bool INTERLEAVED>
    __device__ __forceinline__ void rotate_pairs(const float* cosines, Row (&all)[LANE_ROWS]) const {
        Row turned[LANE_ROWS];
#pragma unroll
        for (int index = 0; index < LANE_ROWS * CHUNK_STEPS; index++) {
            int which = index % LANE_ROWS, step = index / LANE_ROWS;
            float4 cosine = four_at(cosines + component(step)), sine = four_at(cosines + HEAD_DIM + component(step));
            turned[which][step] = rotated(all[which][step], partners<INTERLEAVED>(all[which], step), cosine, sine);
        }
#pragma unroll
        for (int index = 0; index < LANE_ROWS * CHUNK_STEPS; index++) {
            int which = index % LANE_ROWS, step = index / LANE_ROWS;
            all[which][step] = turned[which][step];
        }
    }

    __device__ __forceinline__ static void round(Row& row) {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) row[step] = nearest_bf16(row[step]);
    }
    // As own_tokens.cuh has them.
    __device__ __forceinline__ static void unpack_key(Row& row) {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) row[step] = packed_key(row[step]);
    }
    __device__ __forceinline__ static void unpack_value(Row& row) {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) row[step] = packed_value(row[step]);
    }

    // A row of shared memory. Lanes of odd rows take neighbouring steps the other way round, and so other banks.
    __device__ __forceinline__ void load_own(const float* rows_of_token, int which, Row& row) const {
        const float* from = rows_of_token + (which * BAND + place) * HEAD_DIM;
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            row[step] = four_at(from + component(step ^ place % 2));
        }
    }
    __device__ __forceinline__ void turn(Row& row) const {
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step += 2) {
            float4 one = row[step], other = row[step + 1];
            row[step] = place % 2 ? other : one, row[step + 1] = place % 2 ? one : other;
        }
    }

    // The product of two rows, in the order of `OwnKeys`.
    __device__ __forceinline__ static float product(const Row& one, const Row& other) {
        float sums[CHUNK_STEPS];
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            const float4 &a = one[step], &b = other[step];
            sums[step] = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, 0.0f))));
        }
        float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        return sum + __shfl_xor_sync(0xffffffffu, sum, 1);
    }
};
