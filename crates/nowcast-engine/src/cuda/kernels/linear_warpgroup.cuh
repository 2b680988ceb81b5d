// Products of four warps together (sm_90a): sixteen rows of the left operand in the registers of each, the right operand
// in shared memory.
//
// There a link of a band is made of blocks of eight rows and eight inputs, 128 bytes each: [pieces, inputs / 8, 8, 8]. A
// lane then has the same sums as in `multiply_add`, in the same order; where there are no warpgroups it gets them so.
#pragma once

#include "fragments.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0
#endif

#if HAS_WARPGROUPS
// Rows of the right operand, and whether values are bf16.
template <int ROWS, bool BRAINS>
struct Warpgroup;

template <>
struct Warpgroup<64, false> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
            "{%32, %33, %34, %35}, %36, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

template <>
struct Warpgroup<64, true> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
            "{%32, %33, %34, %35}, %36, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

template <>
struct Warpgroup<96, false> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %53, 0;"
            "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
            "{%48, %49, %50, %51}, %52, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]),
          "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
          "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]),
          "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]),
          "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

template <>
struct Warpgroup<96, true> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %53, 0;"
            "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
            "{%48, %49, %50, %51}, %52, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]),
          "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
          "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]),
          "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]),
          "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

template <>
struct Warpgroup<128, false> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %69, 0;"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "{%64, %65, %66, %67}, %68, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]),
          "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
          "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]),
          "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]),
          "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3]),
          "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]),
          "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]),
          "+f"(sums[14][0]), "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]),
          "+f"(sums[15][0]), "+f"(sums[15][1]), "+f"(sums[15][2]), "+f"(sums[15][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

template <>
struct Warpgroup<128, true> {
    static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int adds) {
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %69, 0;"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "{%64, %65, %66, %67}, %68, adds, 1, 1, 0; }"
            : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]),
          "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]),
          "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
          "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]),
          "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
          "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
          "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]),
          "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]),
          "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
          "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]),
          "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]),
          "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3]),
          "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]),
          "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]),
          "+f"(sums[14][0]), "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]),
          "+f"(sums[15][0]), "+f"(sums[15][1]), "+f"(sums[15][2]), "+f"(sums[15][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(right), "r"(adds));
    }
};

// Where a right operand lies: its address, the bytes from one eight inputs to the next, and from one band to the next.
__device__ __forceinline__ u64 describe(const void* start, u32 band_bytes) {
    u64 address = (u64)__cvta_generic_to_shared(start);
    return (address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(band_bytes >> 4) << 32;
}
#endif

// Lets warpgroups see what this thread has copied; before a barrier.
__device__ __forceinline__ void publish_copies() {
#if HAS_WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// One chain: a link of two bands of weights for each warp, times `N` bands of rows.
template <int FORMAT, int N>
__device__ __forceinline__ void multiply_in_groups(float (*sums)[4], const uint4 (*left)[2], const uint4* right) {
    const int PIECES = Pieces<FORMAT>::COUNT, ROUNDS = Pieces<FORMAT>::ROUNDS;
#if HAS_WARPGROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        const uint4 &low = left[piece][0], &high = left[piece][1];
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            bool second = FORMAT == SPLIT ? round == 0 : round == 1;
            u32 a0 = second ? low.z : low.x, a1 = second ? high.z : high.x;
            u32 a2 = second ? low.w : low.y, a3 = second ? high.w : high.y;
            // Sixteen bytes each: 16 blocks of a step, 32 of what f16s leave.
            const uint4* from = right + (FORMAT == SPLIT ? piece * 16 + (round == 1 ? 32 : 0) : round * 16);
#if HAS_WARPGROUPS
            u64 place = describe(from, PIECES * 512);
            Warpgroup<N * BAND, FORMAT == BRAIN>::multiply(sums, a0, a1, a2, a3, place, piece > 0 || round > 0);
#else
            const u32* words = reinterpret_cast<const u32*>(from) + threadIdx.x % 32;
#pragma unroll
            for (int n = 0; n < N; n++) {
                if (piece == 0 && round == 0) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
                const u32* band = words + n * PIECES * 128;
                multiply_add<FORMAT>(sums[n], a0, a1, a2, a3, band[0], band[32]);
            }
#endif
        }
    }
#if HAS_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}
