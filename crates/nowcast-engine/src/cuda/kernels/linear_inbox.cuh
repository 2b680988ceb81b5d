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
    static const int N = SPLIT_ROW_BANDS, BANDS = N / BLOCKS, SLOTS = PARTS - PARTS / BLOCKS;
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
    static __device__ __forceinline__ void add(const float (&other)[4], float (&sums)[4]) {
        sums[0] += other[0], sums[1] += other[1], sums[2] += other[2], sums[3] += other[3];
    }

    // Of two blocks: sends the other its share of one of two parts, as soon as it is summed, and keeps the own.
    __device__ __forceinline__ void send_share(int which, Tile part, Own& own) const {
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            float other[4];
#pragma unroll
            for (int each = 0; each < 4; each++) {
                float upper = part[band][each], lower = part[BANDS + band][each];
                own[band][each] = rank == 0 ? upper : lower, other[each] = rank == 0 ? lower : upper;
            }
            send(1 - rank, which, band, other);
        }
    }
    // The sums of all parts, in order, for the own share, from those of the last own part and, of two blocks, the own share of
    // the one before it.
    __device__ __forceinline__ void exchange(const Own& before, Tile last, Own& sums) const {
        if constexpr (BLOCKS == 2) {
            exchange_halves(before, last, sums);
        } else {
            exchange_quarters(last, sums);
        }
    }
    __device__ __forceinline__ void exchange_halves(const Own& before, Tile last, Own& sums) const {
        float after[BANDS][4];
        send_share(1, last, after);
        wait_for_phase(arrived, 0);
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            float one[4], other[4];
            receive(0, band, one), receive(1, band, other);
#pragma unroll
            for (int each = 0; each < 4; each++) {
                float first = rank == 0 ? before[band][each] : one[each], second = rank == 0 ? after[band][each] : other[each];
                float third = rank == 0 ? one[each] : before[band][each], fourth = rank == 0 ? other[each] : after[band][each];
                sums[band][each] = first + second + third + fourth;
            }
        }
    }
    __device__ __forceinline__ void exchange_quarters(Tile last, Own& sums) const {
        float own[BANDS][4];
#pragma unroll
        for (int peer = 0; peer < BLOCKS; peer++) {
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                const float(&some)[4] = last[peer * BANDS + band];
                if (peer != rank) {
                    send(peer, rank < peer ? rank : rank - 1, band, some);
                } else {
                    own[band][0] = some[0], own[band][1] = some[1], own[band][2] = some[2], own[band][3] = some[3];
                }
            }
        }
        wait_for_phase(arrived, 0);
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
#pragma unroll
            for (int part = 0; part < BLOCKS; part++) {
                float some[4] = {own[band][0], own[band][1], own[band][2], own[band][3]};
                if (part != rank) receive(part < rank ? part : part - 1, band, some);
                if (part == 0) {
                    sums[band][0] = some[0], sums[band][1] = some[1], sums[band][2] = some[2], sums[band][3] = some[3];
                } else {
                    add(some, sums[band]);
                }
            }
        }
    }
};
#endif
