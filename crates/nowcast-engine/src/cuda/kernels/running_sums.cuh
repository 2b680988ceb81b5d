// Sums of f64 up to each of many points.
//
// With the sums of the CPU, in the order of `scaler.rs`, one thread walks each list; else warps sum 32 points each, or eight
// times as many where there are more than a chunk, and then the warps' sums are added in order.
#pragma once

#include "plan.cuh"

// Points of a block that are summed in shared memory.
#define CHUNK 512
// Points of a thread where there are more.
#define THREAD_POINTS 8

// Replaces values by their sums from the first on, continuing `sum`; one thread.
__device__ inline double running_sums(double* values, int size, double sum) {
#pragma unroll 8
    for (int index = 0; index < size; index++) {
        sum += values[index];
        values[index] = sum;
    }
    return sum;
}

// As `running_sums` for two lists, by all threads of the block; a barrier follows.
__device__ inline void running_sums_together(double* const (&lists)[2], int size, double* const (&sums)[2]) {
    __shared__ double totals[2][CHUNK / 32];
    int lane = threadIdx.x % 32;
    for (int part = threadIdx.x / 32; part * 32 < size; part += blockDim.x / 32) {
        int index = part * 32 + lane;
#pragma unroll
        for (int list = 0; list < 2; list++) {
            double sum = sum_up_to_lane(index < size ? lists[list][index] : 0.0);
            if (index < size) lists[list][index] = sum;
            if (lane == 31) totals[list][part] = sum;
        }
    }
    __syncthreads();
#pragma unroll
    for (int list = 0; list < 2; list++) {
        double before = *sums[list];
        for (int index = threadIdx.x; index < size; index += blockDim.x) {
            double start = before;
            for (int part = 0; part < index / 32; part++) start += totals[list][part];
            lists[list][index] += start;
        }
    }
    __syncthreads();
    if (threadIdx.x < 2) *sums[threadIdx.x] = lists[threadIdx.x][size - 1];
}

// As `running_sums` for two lists, of each so many neighbouring values for every thread of the block; a barrier follows.
__device__ inline void running_sums_of_threads(double (&lists)[2][THREAD_POINTS], double* const (&sums)[2]) {
    __shared__ double totals[2][CHUNK / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double before[2];
#pragma unroll
    for (int list = 0; list < 2; list++) {
#pragma unroll
        for (int point = 1; point < THREAD_POINTS; point++) lists[list][point] += lists[list][point - 1];
        double sum = sum_up_to_lane(lists[list][THREAD_POINTS - 1]);
        before[list] = __shfl_up_sync(0xffffffffu, sum, 1);
        if (lane == 31) totals[list][warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int list = 0; list < 2; list++) {
        double start = *sums[list];
        for (int part = 0; part < warp; part++) start += totals[list][part];
        if (lane > 0) start += before[list];
#pragma unroll
        for (int point = 0; point < THREAD_POINTS; point++) lists[list][point] += start;
    }
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
#pragma unroll
        for (int list = 0; list < 2; list++) *sums[list] = lists[list][THREAD_POINTS - 1];
    }
}

// Running sums over all points, by all threads of a block.
struct PointSums {
    int exact, length;
    // [CHUNK] each, in shared memory.
    double *first, *second;

    // Of two numbers that `make` gives for each point, continuing `sums`; `use` takes both up to each point. The second ones
    // may not be asked for. None goes on before all are done.
    template <typename Make, typename Use>
    __device__ __forceinline__ void run(double* const (&sums)[2], bool both, Make make, Use use) const {
        if (exact || length <= CHUNK) {
            run_in_chunks(sums, both, make, use);
            return;
        }
        for (int start = 0; start < length; start += blockDim.x * THREAD_POINTS) {
            int own = start + threadIdx.x * THREAD_POINTS;
            double lists[2][THREAD_POINTS];
#pragma unroll
            for (int point = 0; point < THREAD_POINTS; point++) {
                lists[0][point] = lists[1][point] = 0.0;
                if (own + point < length) make(own + point, &lists[0][point], &lists[1][point]);
            }
            running_sums_of_threads(lists, sums);
#pragma unroll
            for (int point = 0; point < THREAD_POINTS; point++) {
                if (own + point < length) use(own + point, lists[0][point], lists[1][point]);
            }
            __syncthreads();
        }
    }

    template <typename Make, typename Use>
    __device__ __forceinline__ void run_in_chunks(double* const (&sums)[2], bool both, Make make, Use use) const {
        for (int start = 0; start < length; start += CHUNK) {
            int size = length - start < CHUNK ? length - start : CHUNK;
            for (int index = threadIdx.x; index < size; index += blockDim.x) make(start + index, first + index, second + index);
            __syncthreads();
            if (!exact) {
                running_sums_together({first, second}, size, sums);
            } else {
                if (threadIdx.x == 0) *sums[0] = running_sums(first, size, *sums[0]);
                if (threadIdx.x == 32 && both) *sums[1] = running_sums(second, size, *sums[1]);
            }
            __syncthreads();
            for (int index = threadIdx.x; index < size; index += blockDim.x) use(start + index, first[index], second[index]);
            __syncthreads();
        }
    }
};
