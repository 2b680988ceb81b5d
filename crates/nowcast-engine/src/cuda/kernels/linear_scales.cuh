// The scales of rows on their way to a block that does one tile after the other.
#pragma once

#include "fragments.cuh"
#include "pipeline.cuh"

#if HAS_PIPELINES
// Those of two tiles: on their way while the tile before is multiplied. `WARPS` multiply and use them.
template <int ROWS, int WARPS>
struct ScaleRing {
    const Product& call;
    // [2, ROWS]
    float* scales;
    u64 *full, *empty;
    // Of the tile: its place, and the parity of its phase.
    int slot, parity;

    __device__ __forceinline__ ScaleRing(const Product& product, float* memory, u64* barriers)
        : call(product), scales(memory), full(barriers), empty(barriers + 2), slot(0), parity(0) {}

    // Before the block meets; `unit` is the scale of rows that have none of their own.
    __device__ __forceinline__ void prepare(float unit) const {
        for (int row = threadIdx.x; !call.row_scale && row < 2 * ROWS; row += blockDim.x) scales[row] = unit;
        if (threadIdx.x > 0) return;
        for (int place = 0; place < 2; place++) {
            prepare_barrier(full + place, 1);
            prepare_barrier(empty + place, WARPS);
        }
        publish_barriers();
    }
    __device__ __forceinline__ void pass() {
        parity ^= slot;
        slot ^= 1;
    }
    // By one thread, for `count` rows from this one on; four at a time, of which the last may be nobody's: what
    // lies in the arena is padded.
    __device__ __forceinline__ void send(int first_row, int count) {
        if (call.row_scale) {
            u32 bytes = (count + 3) / 4 * 16;
            // A new barrier's phase before its first has ended.
            wait_for_phase(empty + slot, parity ^ 1);
            expect_bytes(full + slot, bytes);
            send_bytes(scales + slot * ROWS, call.row_scale + first_row, bytes, full + slot);
        }
        pass();
    }
    // By a warp that multiplies.
    __device__ __forceinline__ const float* current() const {
        return scales + slot * ROWS;
    }
    __device__ __forceinline__ void wait() const {
        if (call.row_scale) wait_for_phase(full + slot, parity);
    }
    __device__ __forceinline__ void leave() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(empty + slot);
        pass();
    }
};
#endif
