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
// The sums of eight rows of the right operand, as operands of an instruction, and their names there.
#define SUMS(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define SUMS_32 \
    SUMS(0), SUMS(1), SUMS(2), SUMS(3)
#define NAMES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_48 \
    SUMS_32, SUMS(4), SUMS(5)
#define NAMES_48 \
    NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SUMS_64 \
    SUMS_48, SUMS(6), SUMS(7)
#define NAMES_64 \
    NAMES_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_88 \
    SUMS_64, SUMS(8), SUMS(9), SUMS(10)
#define NAMES_88 \
    NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43"
#define SUMS_96 \
    SUMS_88, SUMS(11)
#define NAMES_96 \
    NAMES_88 ", %44, %45, %46, %47"
#define SUMS_128 \
    SUMS_96, SUMS(12), SUMS(13), SUMS(14), SUMS(15)
#define NAMES_128 \
    NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_176 \
    SUMS_128, SUMS(16), SUMS(17), SUMS(18), SUMS(19), SUMS(20), SUMS(21)
#define NAMES_176 \
    NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, " \
    "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87"

// Rows of the right operand, and whether values are bf16.
template <int ROWS, bool BRAINS>
struct Warpgroup;

#define WARPGROUP(rows, brains, type, left, right, adding)                                                             \
    template <>                                                                                                        \
    struct Warpgroup<rows, brains> {                                                                                   \
        static __device__ __forceinline__ void multiply(float (*sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 place,   \
                                                        int adds) {                                                    \
            asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " adding ", 0;"                                         \
                         "wgmma.mma_async.sync.aligned.m64n" #rows "k16.f32." type "." type " {" NAMES_##rows "}, {"   \
                         left "}, " right ", adds, 1, 1, 0; }"                                                         \
                         : SUMS_##rows                                                                                 \
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(place), "r"(adds));                                 \
        }                                                                                                              \
    }
WARPGROUP(32, false, "f16", "%16, %17, %18, %19", "%20", "%21");
WARPGROUP(48, false, "f16", "%24, %25, %26, %27", "%28", "%29");
WARPGROUP(64, false, "f16", "%32, %33, %34, %35", "%36", "%37");
WARPGROUP(88, false, "f16", "%44, %45, %46, %47", "%48", "%49");
WARPGROUP(96, false, "f16", "%48, %49, %50, %51", "%52", "%53");
WARPGROUP(96, true, "bf16", "%48, %49, %50, %51", "%52", "%53");
WARPGROUP(128, false, "f16", "%64, %65, %66, %67", "%68", "%69");
WARPGROUP(128, true, "bf16", "%64, %65, %66, %67", "%68", "%69");
WARPGROUP(176, false, "f16", "%88, %89, %90, %91", "%92", "%93");
WARPGROUP(176, true, "bf16", "%88, %89, %90, %91", "%92", "%93");

#endif

// A place in shared memory in pieces of sixteen bytes, as instructions want it told: without the bits above, which say
// whose memory it is in a cluster.
struct Place {
#if HAS_WARPGROUPS
    u32 piece;
    __device__ __forceinline__ Place(const uint4* start) : piece((u32)__cvta_generic_to_shared(start) >> 4 & 0x3fff) {}
    // A right operand that starts here: the pieces from one eight inputs to the next, and from one band to the next.
    __device__ __forceinline__ u64 describe(u32 band_size) const {
        return (piece | 8 << 16) | (u64)band_size << 32;
    }
#else
    const uint4* piece;
    __device__ __forceinline__ Place(const uint4* start) : piece(start) {}
#endif
    __device__ __forceinline__ Place operator+(int pieces) const {
        Place place = *this;
        place.piece += pieces;
        return place;
    }
};

// The same words, by an order of their bytes that the compiler cannot know, 0x3210. Where it knew that these are copies, it
// would load words straight into registers that a product still reads, and let every product wait for the one before.
__device__ __forceinline__ uint4 copy_operand(const uint4& words, u32 byte_order) {
#if HAS_WARPGROUPS
    uint4 copies;
    asm volatile("prmt.b32 %0, %4, 0, %8; prmt.b32 %1, %5, 0, %8; prmt.b32 %2, %6, 0, %8; prmt.b32 %3, %7, 0, %8;"
                 : "=r"(copies.x), "=r"(copies.y), "=r"(copies.z), "=r"(copies.w)
                 : "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(byte_order)
                 : "memory");
    return copies;
#else
    return words;
#endif
}

// Multiplies a link of two bands of weights for each warp by `N` bands of rows, `BAND_SIZE` pieces of sixteen bytes apart;
// a chain goes on if it `continues`, else it begins. Until `wait_for_groups` the sums are not to be touched.
template <int FORMAT, int N, int BAND_SIZE = Pieces<FORMAT>::COUNT * 32>
__device__ __forceinline__ void start_in_groups(float (*sums)[4], const uint4 (*left)[2], Place right,
                                                bool continues = false) {
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
            Place from = right + (FORMAT == SPLIT ? piece * 16 + (round == 1 ? 32 : 0) : round * 16);
#if HAS_WARPGROUPS
            u64 place = from.describe(BAND_SIZE);
            Warpgroup<N * BAND, FORMAT == BRAIN>::multiply(sums, a0, a1, a2, a3, place, continues || piece > 0 || round > 0);
#elif defined(NOWCAST_SHIM)
            if (!continues && piece == 0 && round == 0) {
                for (int n = 0; n < N; n++) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
            }
            const u32* words = reinterpret_cast<const u32*>(from.piece) + threadIdx.x % 32;
            multiply_add_bands<FORMAT, N>(sums, a0, a1, a2, a3, words, BAND_SIZE * 4);
#endif
        }
    }
#if HAS_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until all links but the `LEFT` begun last are multiplied.
template <int LEFT>
__device__ __forceinline__ void wait_for_groups() {
#if HAS_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}

// The same; these sums are made then.
template <int LEFT, int N>
__device__ __forceinline__ void wait_for_groups(float (&sums)[N][4]) {
    wait_for_groups<LEFT>();
#if HAS_WARPGROUPS
    // Whoever uses the sums stays behind.
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])::"memory");
#endif
}
