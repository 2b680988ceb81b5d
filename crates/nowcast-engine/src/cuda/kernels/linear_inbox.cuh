// How the blocks of a cluster that share out the parts of a product bring their sums together.
#pragma once

#include "cluster.cuh"
#include "linear_links.cuh"

// Threads that multiply.
#define SPLIT_WORKERS 128

#if HAS_PIPELINES
// The sums that the blocks of a cluster send each other, and the share of the rows that each finishes.
template <int BLOCKS>
struct Inbox {
    static const int N = SPLIT_ROW_BANDS, BANDS = N / BLOCKS, OWN_PARTS = PARTS / BLOCKS, SLOTS = PARTS - OWN_PARTS;
    typedef const float (&Tile)[N][4];
    typedef float Own[BANDS][4];
    // [SLOTS, BANDS, workers]
    float4* places;
    u64* arrived;
    int rank;

    // Before the blocks meet.
    __device__ __forceinline__ void prepare() const {
        prepare_barrier(arrived, 1);
        expect_bytes(arrived, SLOTS * BANDS * SPLIT_WORKERS * sizeof(float4));
    }
    // Where the first part of one block waits at another.
    static __device__ __forceinline__ int slot_of(int sender, int receiver) {
        return (sender < receiver ? sender : sender - 1) * OWN_PARTS;
    }
    __device__ __forceinline__ float4* at(int slot, int band) const {
        return places + (slot * BANDS + band) * SPLIT_WORKERS + threadIdx.x;
    }
    __device__ __forceinline__ void send(int peer, int slot, int band, const float (&sums)[4]) const {
        send_to_peer(at(slot, band), arrived, peer, sums);
    }
    __device__ __forceinline__ void receive(int slot, int band, float (&sums)[4]) const {
        float4 some = *at(slot, band);
        sums[0] = some.x, sums[1] = some.y, sums[2] = some.z, sums[3] = some.w;
    }
    static __device__ __forceinline__ void copy(const float (&from)[4], float (&to)[4]) {
        to[0] = from[0], to[1] = from[1], to[2] = from[2], to[3] = from[3];
    }
    static __device__ __forceinline__ void clear(Own& sums) {
#pragma unroll
        for (int index = 0; index < BANDS * 4; index++) sums[index / 4][index % 4] = 0.0f;
    }
    static __device__ __forceinline__ void copy(const Own& from, Own& to) {
#pragma unroll
        for (int band = 0; band < BANDS; band++) copy(from[band], to[band]);
    }
    static __device__ __forceinline__ void add(const float (&other)[4], float (&sums)[4]) {
        sums[0] += other[0], sums[1] += other[1], sums[2] += other[2], sums[3] += other[3];
    }

    // Sends every other block its share of one of the own parts, as soon as it is summed, and keeps the own share. Written out
    // for every rank, which takes fewer instructions than a choice for each value.
    template <int RANK = 0>
    __device__ __forceinline__ void send_part(int which, Tile part, Own& own) const {
        if constexpr (RANK + 1 < BLOCKS) {
            if (rank != RANK) return send_part<RANK + 1>(which, part, own);
        }
#pragma unroll
        for (int peer = 0; peer < BLOCKS; peer++) {
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                const float(&some)[4] = part[peer * BANDS + band];
                if (peer == RANK) {
                    copy(some, own[band]);
                } else {
                    send(peer, slot_of(RANK, peer) + which, band, some);
                }
            }
        }
    }

    // The sums of all parts, in order, for the own share, from those of the own parts. `wait` comes before.
    template <int RANK = 0>
    __device__ __forceinline__ void gather(const Own (&owns)[OWN_PARTS], Own& sums) const {
        if constexpr (RANK + 1 < BLOCKS) {
            if (rank != RANK) return gather<RANK + 1>(owns, sums);
        }
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                int peer = part / OWN_PARTS, which = part % OWN_PARTS;
                float some[4];
                if (peer == RANK) {
                    copy(owns[which][band], some);
                } else {
                    receive(slot_of(peer, RANK) + which, band, some);
                }
                if (part == 0) {
                    copy(some, sums[band]);
                } else {
                    add(some, sums[band]);
                }
            }
        }
    }
    __device__ __forceinline__ void wait() const {
        wait_for_phase(arrived, 0);
    }
};
#endif
