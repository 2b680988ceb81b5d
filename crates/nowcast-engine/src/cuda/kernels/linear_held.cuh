// As `multiply_in_cluster`, for f32 and few bands: the weights of a block wait in registers until the rows are there, so that
// it finds room beside a block of the kernel before, whose weights fill shared memory.
#pragma once

#include "linear_clustered.cuh"

// Bands of a cluster, one for each block that finishes one, and links that a warp multiplies by, at most.
#define HELD_BANDS 3
#define HELD_LINKS 3

#ifdef HAS_CLUSTERS
// What a lane holds of the weights: every eighth link of a part from its warp's on.
struct HeldWeights {
    static const int PIECES = Pieces<SPLIT>::COUNT, LINK_SIZE = PIECES * 32;
    uint4 operands[HELD_LINKS][HELD_BANDS][PIECES];

    // From `links` links of some bands, `band_size` apart; zeros behind them.
    __device__ __forceinline__ void load(const uint4* from, int links, int bands, int band_size) {
        from += threadIdx.x / 32 * LINK_SIZE + threadIdx.x % 32;
        links -= threadIdx.x / 32;
#pragma unroll
        for (int index = 0; index < HELD_LINKS; index++) {
#pragma unroll
            for (int band = 0; band < HELD_BANDS; band++) {
                const uint4* place = from + band * band_size + index * STREAM_WARPS * LINK_SIZE;
                bool is_there = index * STREAM_WARPS < links && band < bands;
#pragma unroll
                for (int piece = 0; piece < PIECES; piece++) {
                    operands[index][band][piece] = is_there ? load_once(place + piece * 32) : make_uint4(0, 0, 0, 0);
                }
            }
        }
    }

    // By rows of which `right(index, piece)` are the lane's operands. The sums of each link and band are left in `results`, in
    // the place of the link.
    template <typename Right>
    __device__ __forceinline__ void multiply(uint4* results, Right right_of) const {
        const int PAIRS = (HELD_BANDS + 1) / 2;
        float chains[HELD_LINKS][PAIRS][4] = {};
        const uint4 none = make_uint4(0, 0, 0, 0);
        int warp = threadIdx.x / 32;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            uint4 right[HELD_LINKS];
#pragma unroll
            for (int index = 0; index < HELD_LINKS; index++) right[index] = right_of(index, piece);
#pragma unroll
            for (int round = 0; round < Pieces<SPLIT>::ROUNDS; round++) {
#pragma unroll
                for (int index = 0; index < HELD_LINKS; index++) {
#pragma unroll
                    for (int pair = 0; pair < PAIRS; pair++) {
                        const uint4& low = operands[index][pair * 2][piece];
                        const uint4& high = pair * 2 + 1 < HELD_BANDS ? operands[index][pair * 2 + 1][piece] : none;
                        multiply_round<SPLIT>(round, chains[index][pair], low, high, right[index]);
                    }
                }
            }
        }
        __syncwarp();
#pragma unroll
        for (int index = 0; index < HELD_LINKS; index++) {
            float* place = reinterpret_cast<float*>(results + (warp + index * STREAM_WARPS) * LINK_SIZE);
#pragma unroll
            for (int band = 0; band < HELD_BANDS; band++) {
                const float* own = chains[index][band / 2] + band % 2 * 2;
                *own_results(place + band * BAND * BAND) = make_float2(own[0], own[1]);
            }
        }
    }
};
#endif

// `IS_CUT`: as `multiply_in_cluster` has it.
template <bool IS_CUT>
__device__ __forceinline__ void multiply_held_in_cluster(const Product& call) {
#ifdef HAS_CLUSTERS
    const int LINK_SIZE = Pieces<SPLIT>::COUNT * 32, RESULTS = BAND * BAND;
    SHARED_MEMORY(memory);
    int own_part = blockIdx.x % CLUSTER;
    Share share(call, blockIdx.x / CLUSTER, gridDim.x / CLUSTER);
    int start = part_start<SPLIT>(own_part, call.links), links = part_start<SPLIT>(own_part + 1, call.links) - start;
    ClusterRows<SPLIT> all_rows(call, own_part, memory);
    // [parts, columns, rows], of the band that this block finishes.
    float* totals = all_rows.largest + PARTS * BAND;
    // Of as many links as all warps together can take; then the sums of each, where no other warp reads.
    uint4* values = reinterpret_cast<uint4*>(totals + PARTS * RESULTS);
    arrive_in_cluster();
    HeldWeights weights;
    weights.load(call.weight + ((i64)share.first * call.links + start) * LINK_SIZE, links, share.units, call.links * LINK_SIZE);
    int warp = threadIdx.x / 32, column = threadIdx.x % BAND, row = threadIdx.x / BAND % BAND;
    int band = share.first + own_part;
    bool finishes = threadIdx.x < RESULTS && own_part < share.units;
    ColumnPair columns;
    ResultPair result;
    if (finishes) {
        columns = load_columns(call, band, band, column);
        result = places_of_pair<SPLIT>(call, row, band, column);
        result.high_place = -1;
    }
    int rows = count(call.rows, call.live);
    RowCutter<SPLIT> cutter(call.input + start * LINK, call.inputs, links, values, values, call.row_factor);
    const uint4* own_operands = call.row_fragments + (start + warp) * LINK_SIZE + threadIdx.x % 32;
    known_now(rows), known_now(own_operands);
    // Nothing is stored in a block that has yet to start.
    wait_in_cluster();
    wait_for_previous();

    if constexpr (IS_CUT) {
        uint4 operands[HELD_LINKS][Pieces<SPLIT>::COUNT];
#pragma unroll
        for (int index = 0; index < HELD_LINKS; index++) {
#pragma unroll
            for (int piece = 0; piece < Pieces<SPLIT>::COUNT; piece++) {
                bool is_there = warp + index * STREAM_WARPS < links;
                const uint4* from = own_operands + index * STREAM_WARPS * LINK_SIZE + piece * 32;
                operands[index][piece] = is_there ? *from : make_uint4(0, 0, 0, 0);
            }
        }
        if (finishes && row < rows) load_residuals(call, &result);
        weights.multiply(values, [&](int index, int piece) { return operands[index][piece]; });
    } else {
        cutter.ask(warp < rows);
        if (finishes && row < rows) load_residuals(call, &result);
        all_rows.cut(cutter, rows);
        __syncthreads();
        weights.multiply(values, [&](int index, int piece) {
            return values[(warp + index * STREAM_WARPS) * LINK_SIZE + piece * 32 + turned<SPLIT>(threadIdx.x % 32, piece)];
        });
    }
    __syncthreads();
    int which = threadIdx.x / RESULTS;
    if (which < share.units) {
        const float* sums = reinterpret_cast<const float*>(values) + threadIdx.x;
        float sum = 0.0f;
#pragma unroll 8
        for (int link = 0; link < links; link++) sum += sums[link * LINK_SIZE * 4];
        *in_peer(totals + own_part * RESULTS + threadIdx.x % RESULTS, which) = sum;
    }
    arrive_in_cluster();
    wait_in_cluster();
    if (!finishes || row >= rows) return;
    const float* place = totals + column * BAND + row;
    float sum = place[0];
#pragma unroll
    for (int part = 1; part < PARTS; part++) sum += place[part * RESULTS];
    finish_pair<SPLIT>(call, result, columns, all_rows.scale_of(call, row), sum, 0.0f);
#else
    // Where there are no clusters, nobody launches this.
    asm volatile("trap;");
#endif
}
