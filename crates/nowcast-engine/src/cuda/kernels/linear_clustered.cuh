// Products of up to eight rows with many inputs and no norm: the blocks of a cluster share out the parts of the links, so
// that each reads and cuts a part of the rows only. They tell each other the largest value of each row, and their sums.
#pragma once

#include "cluster.cuh"
#include "linear_operands.cuh"

// Blocks of a cluster, one for each part.
#define CLUSTER PARTS

#ifdef HAS_CLUSTERS
// What the blocks of a cluster, each of which cuts a part of the rows, tell each other of them.
template <int FORMAT>
struct ClusterRows {
    // [parts, rows]
    float* largest;
    int own_part;
    bool looks;

    __device__ __forceinline__ ClusterRows(const Product& call, int part, float* memory)
        : largest(memory), own_part(part), looks(looks_for_largest<FORMAT>(call)) {}

    __device__ __forceinline__ float largest_of(int row) const {
        float value = largest[row];
#pragma unroll
        for (int part = 1; part < PARTS; part++) value = fmaxf(value, largest[part * BAND + row]);
        return value;
    }

    // The warp's row, if there is one, of which the cutter has asked for the own part.
    __device__ __forceinline__ void cut(RowCutter<FORMAT>& cutter, int rows) const {
        int row = threadIdx.x / 32;
        if (row < rows) {
            cutter.read();
            if (looks && cutter.lane < CLUSTER) *in_peer(largest + own_part * BAND + row, cutter.lane) = cutter.largest;
        }
        if (looks) {
            arrive_in_cluster();
            wait_in_cluster();
        }
        if (row < rows) {
            if (looks) cutter.largest = largest_of(row);
            cutter.cut_all();
        }
    }

    // What sums of a row are multiplied by.
    __device__ __forceinline__ float scale_of(const Product& call, int row) const {
        return looks ? power_of_two(exponent_of(largest_of(row)) - LARGEST_EXPONENT) : call.row_unit;
    }
};
#endif

// `IS_CUT`: rows are at `row_fragments` as operands.
template <int FORMAT, bool IS_CUT>
__device__ __forceinline__ void multiply_in_cluster(const Product& call) {
#ifdef HAS_CLUSTERS
    const int LINK_SIZE = Pieces<FORMAT>::COUNT * 32, RESULTS = BAND * BAND;
    SHARED_MEMORY(memory);
    int clusters = gridDim.x / CLUSTER, own_part = blockIdx.x % CLUSTER;
    Share share(call, blockIdx.x / CLUSTER, clusters);
    int all_units = (call.end_band - call.first_band) / share.bands;
    int start = part_start<FORMAT>(own_part, call.links), links = part_start<FORMAT>(own_part + 1, call.links) - start;
    int bands = share.units * share.bands, part_size = links * LINK_SIZE;
    // Bands whose results one block finishes at most, and links of a part: the same for all blocks, whose memory has one
    // layout up to the weights.
    int most_bands = ((all_units + clusters - 1) / clusters + CLUSTER - 1) / CLUSTER * share.bands;
    int most_links = most_links_of_part<FORMAT>(call.links);
    u64* arrived = reinterpret_cast<u64*>(memory);
    ClusterRows<FORMAT> all_rows(call, own_part, memory + 4);
    // [parts, bands, columns, rows]
    float* totals = all_rows.largest + PARTS * BAND;
    uint4* values = reinterpret_cast<uint4*>(totals + PARTS * most_bands * RESULTS);
    uint4* stage = FORMAT == SPLIT ? values : values + most_links * LINK_SIZE;
    uint4* weights = values + (IS_CUT ? 0 : FORMAT == SPLIT ? 1 : 3) * most_links * LINK_SIZE;
    if (!IS_CUT) arrive_in_cluster();
    const uint4* from = call.weight + ((i64)share.first * call.links + start) * LINK_SIZE;
    copy_block_ahead(weights, from, bands, part_size, (i64)call.links * LINK_SIZE, arrived);
    // Where warps wait for the copy one by one, all know its barrier before.
    if (IS_CUT) arrive_in_cluster();
    int warp = threadIdx.x / 32;
    // The result that this thread finishes first; units go round the blocks.
    int column = threadIdx.x % BAND, row = threadIdx.x / BAND % BAND, own_slot = threadIdx.x / RESULTS;
    auto unit_of = [&](int slot) { return slot * CLUSTER + own_part; };
    ColumnPair columns;
    auto load = [&](int slot) {
        int low = share.first + unit_of(slot) * share.bands;
        columns = load_columns(call, low, low + share.bands - 1, column);
    };
    if (unit_of(own_slot) < share.units) load(own_slot);
    int rows = count(call.rows, call.live);
    RowCutter<FORMAT> cutter(call.input + start * LINK, call.inputs, links, values, stage, call.row_factor);
    known_now(rows);
    // Nothing is stored in a block that has yet to start.
    wait_in_cluster();
    wait_for_previous();

    if (!IS_CUT) cutter.ask(warp < rows);
    ResultPair result;
    auto prepare = [&](int slot) {
        result = prepare_pair<FORMAT>(call, row, share.first + unit_of(slot) * share.bands, column);
        if (share.bands == 1) result.high_place = -1;
    };
    if (unit_of(own_slot) < share.units && row < rows) prepare(own_slot);
    if constexpr (!IS_CUT) {
        all_rows.cut(cutter, rows);
        wait_for_block_copy(arrived);
        __syncthreads();
    }
    // Pairs of bands, and for each some warps, a power of two, that share the chains; the sums of a chain take the place of
    // its first weights.
    const int CHAIN = Pieces<FORMAT>::CHAIN;
    int chains = (links + CHAIN - 1) / CHAIN;
    int pairs = (bands + 1) / 2, shift = pairs <= 1 ? 3 : pairs <= 2 ? 2 : pairs <= 4 ? 1 : 0;
#pragma unroll 1
    for (int task = warp; task < pairs << shift; task += STREAM_WARPS) {
        int band = (task >> shift) * 2, sharer = task & ((1 << shift) - 1);
        uint4* low = weights + band * part_size;
        bool has_high = band + 1 < bands;
        auto keep = [&](int link, const float(&chain)[4]) {
            __syncwarp();
            float* place = reinterpret_cast<float*>(low + link * LINK_SIZE);
            *own_results(place) = make_float2(chain[0], chain[1]);
            if (has_high) *own_results(place + part_size * 4) = make_float2(chain[2], chain[3]);
        };
        int first = (chains * sharer >> shift) * CHAIN, last = (chains * (sharer + 1) >> shift) * CHAIN;
        last = last < links ? last : links;
        if constexpr (IS_CUT) {
#pragma unroll 1
            for (int link = first; link < last; link += CHAIN) {
                ChainOperands<FORMAT> operands;
                operands.load(call.row_fragments + (start + link) * LINK_SIZE, last - link);
                wait_for_block_copy(arrived);
                float chain[4];
                const uint4* from = low + link * LINK_SIZE;
                operands.multiply(chain, from, has_high ? from + part_size : nullptr);
                keep(link, chain);
            }
        } else {
            multiply_in_chains<FORMAT>(low, has_high ? low + part_size : nullptr, values, first, last, keep);
        }
    }
    __syncthreads();
    const int TOGETHER = IS_CUT ? 1 : 8;
    for (int place = threadIdx.x; place < bands * RESULTS; place += BAND_THREADS) {
        // A unit has one band or two.
        int band = place / RESULTS, unit = band >> (share.bands - 1), slot = unit / CLUSTER;
        const float* sums = reinterpret_cast<const float*>(weights + band * part_size) + place % RESULTS;
        float sum = 0.0f;
#pragma unroll TOGETHER
        for (int link = 0; link < links; link += CHAIN) sum += sums[link * LINK_SIZE * 4];
        int to = own_part * most_bands + slot * share.bands + (band & (share.bands - 1));
        *in_peer(totals + to * RESULTS + place % RESULTS, unit % CLUSTER) = sum;
    }
    arrive_in_cluster();
    wait_in_cluster();
    if (row >= rows) return;
    auto total = [&](int band) {
        const float* place = totals + band * RESULTS + column * BAND + row;
        float sum = place[0];
#pragma unroll
        for (int part = 1; part < PARTS; part++) sum += place[part * most_bands * RESULTS];
        return sum;
    };
    float scale = all_rows.scale_of(call, row);
#pragma unroll 1
    for (int slot = own_slot; unit_of(slot) < share.units; slot += BAND_THREADS / RESULTS) {
        if (slot != own_slot) load(slot), prepare(slot);
        int band = slot * share.bands;
        finish_pair<FORMAT>(call, result, columns, scale, total(band), share.bands == 2 ? total(band + 1) : 0.0f);
    }
#else
    // Where there are no clusters, nobody launches this.
    asm volatile("trap;");
#endif
}
