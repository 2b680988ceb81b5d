// Sums of attention in the order of the CPU: a scalar product is sixteen chains, and so is a sum of exponentials.
#pragma once

#include "elementary.cuh"

// The scalar product in sixteen chains, summed in halves.
template <typename Row>
__device__ inline float product_in_chains(const float* left, const Row& right, int length) {
    float parts[16];
#pragma unroll
    for (int part = 0; part < 16; part++) parts[part] = 0.0f;
    for (int start = 0; start < length; start += 16) {
#pragma unroll
        for (int part = 0; part < 16; part++) {
            if (start + part < length) parts[part] = fmaf(left[start + part], right[start + part], parts[part]);
        }
    }
#pragma unroll
    for (int half = 8; half > 0; half /= 2) {
#pragma unroll
        for (int part = 0; part < half; part++) parts[part] += parts[part + half];
    }
    return parts[0];
}

// Replaces scores by exponentials and returns their sum, for one warp.
__device__ inline float exponentials(float* scores, int keys) {
    int lane = threadIdx.x % 32;
    float largest = __int_as_float(0xff800000);
    for (int key = lane; key < keys; key += 32) largest = fmaxf(largest, scores[key]);
    largest = largest_of_warp(largest);
    __syncwarp();
    for (int key = lane; key < keys; key += 32) scores[key] = exponential_f32(scores[key] - largest);
    __syncwarp();
    float part = 0.0f;
    if (lane < 16) {
        for (int key = lane; key < keys; key += 16) part += scores[key];
    }
    return sum_in_halves(part);
}
