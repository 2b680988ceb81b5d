// Own keys and values beside products of bf16, both of a component in one word of the cache: the nearest bf16 of the key in
// the lower half, that of the value in the upper one. Words go about as the f32 whose bits they have.
//
// A product of bf16 would hand queries, keys and values on as bf16, so they are rounded before they are rotated; a key is
// rounded again for the cache. Whoever asks for the newest token asks for what the cache has.
#pragma once

#include "fragments.cuh"

__device__ __forceinline__ float nearest_bf16(float value) {
    return __int_as_float((int)nearest_pair<BRAIN>(0.0f, value));
}
__device__ __forceinline__ float2 nearest_bf16(const float2& two) {
    return make_float2(nearest_bf16(two.x), nearest_bf16(two.y));
}
__device__ __forceinline__ float4 nearest_bf16(const float4& four) {
    return make_float4(nearest_bf16(four.x), nearest_bf16(four.y), nearest_bf16(four.z), nearest_bf16(four.w));
}

__device__ __forceinline__ float packed_own(float key, float value) {
    return __int_as_float((int)nearest_pair<BRAIN>(key, value));
}
__device__ __forceinline__ float2 packed_own(const float2& key, const float2& value) {
    return make_float2(packed_own(key.x, value.x), packed_own(key.y, value.y));
}
__device__ __forceinline__ float4 packed_own(const float4& key, const float4& value) {
    return make_float4(packed_own(key.x, value.x), packed_own(key.y, value.y), packed_own(key.z, value.z),
                       packed_own(key.w, value.w));
}

__device__ __forceinline__ float packed_key(float word) {
    return lower_bf16((u32)__float_as_int(word));
}
__device__ __forceinline__ float4 packed_key(const float4& words) {
    return make_float4(packed_key(words.x), packed_key(words.y), packed_key(words.z), packed_key(words.w));
}

// Nobody chooses between this and its word: GCC 12, which may build the emulation, then always takes the word.
__device__ __forceinline__ float packed_value(float word) {
    return upper_bf16((u32)__float_as_int(word));
}
__device__ __forceinline__ float4 packed_value(const float4& words) {
    return make_float4(packed_value(words.x), packed_value(words.y), packed_value(words.z), packed_value(words.w));
}
