// Words under a condition: by a predicate, since branches would keep results from being made side by side, and loads from being
// on their way together.
#pragma once

#include "plan.cuh"

#ifndef NOWCAST_SHIM
template <typename Word>
__device__ __forceinline__ void store_if(bool is_wanted, Word* to, Word word) {
    static_assert(sizeof(Word) == 4, "a word");
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %0, 0; @wanted st.global.b32 [%1], %2; }" ::"r"((int)is_wanted), "l"(to),
                 "r"(reinterpret_cast<const u32&>(word))
                 : "memory");
}
// Zero where it is not wanted.
__device__ __forceinline__ float load_if(bool is_wanted, const float* from) {
    float value;
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %1, 0; mov.b32 %0, 0; @wanted ld.global.f32 %0, [%2]; }"
                 : "=f"(value)
                 : "r"((int)is_wanted), "l"(from)
                 : "memory");
    return value;
}

__device__ __forceinline__ float4 load_four_if(bool is_wanted, const float* from) {
    float4 four;
    asm volatile(
        "{ .reg .pred wanted; setp.ne.b32 wanted, %4, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
        "@wanted ld.global.v4.f32 {%0, %1, %2, %3}, [%5]; }"
        : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
        : "r"((int)is_wanted), "l"(from)
        : "memory");
    return four;
}
#endif
