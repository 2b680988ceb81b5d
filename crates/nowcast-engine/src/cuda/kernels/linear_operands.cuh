// Products of up to eight rows that the kernel before has left as operands of tensor cores: each warp reads those of a chain
// straight into its registers, so that nothing is cut, staged or waited for in between.
#pragma once

#include "linear_streamed.cuh"

// The rows' operands of one chain of links, on their way.
template <int FORMAT>
struct ChainOperands {
    static const int LINKS = Pieces<FORMAT>::CHAIN;
    // Bands of weights that a warp takes together.
    static const int BANDS = 2;
    uint4 values[LINKS];
    int links;

    // Zeros behind the last link.
    __device__ __forceinline__ void load(const uint4* from, int left) {
        links = left < LINKS ? left : LINKS;
#pragma unroll
        for (int link = 0; link < LINKS; link++) {
            values[link] = link < links ? from[link * 32 + threadIdx.x % 32] : make_uint4(0, 0, 0, 0);
        }
    }

    // Times one band of weights, or two, each from its first link of the chain on.
    __device__ __forceinline__ void multiply(float (&chain)[4], const uint4* low, const uint4* high) const {
        chain[0] = chain[1] = chain[2] = chain[3] = 0.0f;
#pragma unroll
        for (int link = 0; link < LINKS; link++) {
            int place = (link < links ? link : 0) * 32 + threadIdx.x % 32;
            uint4 low_operands = low[place], high_operands = high ? high[place] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
                multiply_round<FORMAT>(round, chain, low_operands, high_operands, values[link]);
            }
        }
    }
    __device__ __forceinline__ void add(float (&totals)[4], const uint4* low, const uint4* high) const {
        float chain[4];
        multiply(chain, low, high);
#pragma unroll
        for (int which = 0; which < 4; which++) totals[which] += chain[which];
    }
};

// The same of as many short chains as are made side by side.
template <>
struct ChainOperands<SPLIT> {
    static const int LINKS = LINKS_TOGETHER, PIECES = Pieces<SPLIT>::COUNT, LINK_SIZE = PIECES * 32;
    // Operands of two at once would leave no registers.
    static const int BANDS = 1;
    uint4 values[LINKS][PIECES];
    int links;

    __device__ __forceinline__ void load(const uint4* from, int left) {
        links = left < LINKS ? left : LINKS;
#pragma unroll
        for (int link = 0; link < LINKS; link++) {
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                const uint4* place = from + link * LINK_SIZE + piece * 32 + threadIdx.x % 32;
                values[link][piece] = link < links ? *place : make_uint4(0, 0, 0, 0);
            }
        }
    }
    __device__ __forceinline__ void add(float (&totals)[4], const uint4* low, const uint4*) const {
        float chains[LINKS][4];
        const uint4 none = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int link = 0; link < LINKS; link++) chains[link][0] = chains[link][1] = chains[link][2] = chains[link][3] = 0.0f;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            uint4 left[LINKS];
#pragma unroll
            for (int link = 0; link < LINKS; link++) {
                left[link] = low[(link < links ? link : 0) * LINK_SIZE + piece * 32 + threadIdx.x % 32];
            }
#pragma unroll
            for (int round = 0; round < Pieces<SPLIT>::ROUNDS; round++) {
#pragma unroll
                for (int link = 0; link < LINKS; link++) {
                    multiply_round<SPLIT>(round, chains[link], left[link], none, values[link][piece]);
                }
            }
        }
#pragma unroll
        for (int link = 0; link < LINKS; link++) {
            if (link >= links) continue;
#pragma unroll
            for (int which = 0; which < 4; which++) totals[which] += chains[link][which];
        }
    }
};

// As `stream_product`, for rows at `row_fragments` and products without a norm.
template <int FORMAT>
__device__ __forceinline__ void stream_operands(const Product& call) {
    typedef ChainOperands<FORMAT> Operands;
    const int LINK_SIZE = Pieces<FORMAT>::COUNT * 32, LINKS = Operands::LINKS, BANDS = Operands::BANDS;
    SHARED_MEMORY(memory);
    StreamHead* head = reinterpret_cast<StreamHead*>(memory);
    uint4* weights = reinterpret_cast<uint4*>(head + 1);
    Share share(call, blockIdx.x, gridDim.x);
    ResultWriter<FORMAT> writer(call, share);
    int band_size = call.links * LINK_SIZE, bands = share.units * share.bands, warp = threadIdx.x / 32;
    copy_block_ahead(weights, call.weight + (i64)share.first * band_size, 1, bands * band_size, 0, &head->arrived);
    writer.begin();
    int rows = count(call.rows, call.live);
    int part = warp % PARTS, start = part_start<FORMAT>(part, call.links), end = part_start<FORMAT>(part + 1, call.links);
    wait_for_previous();

    Operands operands;
    int loaded = start;
    operands.load(call.row_fragments + start * LINK_SIZE, end - start);
    writer.prepare(rows);
    wait_for_block_copy(&head->arrived);
    __syncthreads();
#pragma unroll 1
    for (int band = warp / PARTS * BANDS; band < bands && start < end; band += STREAM_WARPS / PARTS * BANDS) {
        uint4* low = weights + band * band_size;
        bool has_high = BANDS > 1 && band + 1 < bands;
        float totals[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
        for (int first = start; first < end; first += LINKS) {
            if (first != loaded) operands.load(call.row_fragments + first * LINK_SIZE, end - first);
            loaded = first;
            const uint4* from = low + first * LINK_SIZE;
            operands.add(totals, from, has_high ? from + band_size : nullptr);
        }
        __syncwarp();
        leave_sums(low + start * LINK_SIZE, has_high, band_size, totals);
    }
    __syncthreads();
    auto total = [&](int band) { return total_of_parts<FORMAT>(weights + band * band_size, call.links); };
    writer.finish(rows, call.row_unit, nullptr, total);
}
