// Products of up to eight rows, bound by the memory that delivers the weights: every fragment of a weight goes from
// global memory to the one warp that needs it, the first of them before the rows are there.
//
// Warps share out the links. A tile is a band of weights as the right operand, or, PAIRED, two bands as the left one.
#pragma once

#include "fragments.cuh"

#define STREAM_WARPS (BAND_THREADS / 32)

// RING: fragments in flight, a multiple of TILES.
template <int FORMAT, bool PAIRED, int TILES, int RING>
__device__ __forceinline__ void stream_weights(const Product& call) {
    const int PIECES = Pieces<FORMAT>::COUNT, BANDS = PAIRED ? 2 : 1;
    const int COLUMNS = TILES * BANDS * BAND, SUMS = COLUMNS * BAND, THREADS = 32 * STREAM_WARPS;
    SHARED_MEMORY(memory);
    // Fragments of the rows, then the chains [links, columns, 8] and the parts [4, columns, 8].
    uint4* values = reinterpret_cast<uint4*>(memory);
    float* chains = memory + call.links * PIECES * 32 * 4;
    float* parts = chains + call.links * SUMS;
    __shared__ BandShare share;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int first_band = call.first_band + blockIdx.x * TILES * BANDS;
    int first_link = call.links * warp / STREAM_WARPS, end_link = call.links * (warp + 1) / STREAM_WARPS;
    int items = (end_link - first_link) * TILES;

    // Where the tiles hang over, the last band stands in, and nothing is written.
    auto fetch = [&](int item, uint4(&to)[BANDS][PIECES]) {
        // Behind the last item it stands in, and so does the first where there is none.
        item = item < items ? item : items > 0 ? items - 1 : 0;
#pragma unroll
        for (int which = 0; which < BANDS; which++) {
            int band = first_band + item % TILES * BANDS + which;
            band = band < call.end_band ? band : call.end_band - 1;
            const uint4* from = call.weight + ((i64)band * call.links + first_link + item / TILES) * PIECES * 32 + lane;
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) to[which][piece] = from[piece * 32];
        }
    };
    uint4 ahead[RING][BANDS][PIECES];
#pragma unroll
    for (int slot = 0; slot < RING; slot++) fetch(slot, ahead[slot]);
    // Each of the first threads finishes one result, or a pair of them: gates meet their values.
    const int WIDTH = PAIRED ? 2 : 1;
    static_assert(SUMS / WIDTH <= THREADS, "a thread finishes one result");
    int own_row = threadIdx.x % BAND, own_column = threadIdx.x / BAND % BAND, own_band = threadIdx.x / BAND / BAND * WIDTH;
    bool finishes = threadIdx.x < SUMS / WIDTH && first_band + own_band < call.end_band;
    ColumnPair columns;
    if (finishes) {
        int high = own_band + WIDTH - 1;
        int high_band = first_band + high < call.end_band ? first_band + high : first_band + own_band;
        columns = load_columns(call, first_band + own_band, high_band, own_column);
    }
    double inverse_inputs = 1.0 / call.inputs;
    fetch_ahead(call.next, call.next_bytes);
    int live_rows = count(call.rows, call.live);
    wait_for_previous();

    for (int first = 0; first < live_rows; first += BAND) {
        int rows = live_rows - first < BAND ? live_rows - first : BAND;
        ResultPair result;
        if (finishes && own_row < rows) {
            result = prepare_pair(call, first + own_row, first_band + own_band, own_column);
            if (!PAIRED) result.high_place = -1;
        }
        cut_band<FORMAT, false, true>(call.input + (i64)first * call.inputs, rows, call.inputs, call.links, values, &share);
        __syncthreads();
        for (int base = 0; base < items; base += RING) {
            float sums[RING][4];
#pragma unroll
            for (int slot = 0; slot < RING; slot++) sums[slot][0] = sums[slot][1] = sums[slot][2] = sums[slot][3] = 0.0f;
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                uint4 right[RING / TILES];
#pragma unroll
                for (int group = 0; group < RING / TILES; group++) {
                    int link = first_link + base / TILES + group;
                    link = link < end_link ? link : end_link - 1;
                    right[group] = values[(link * PIECES + piece) * 32 + lane];
                }
                uint4 nothing = make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
#pragma unroll
                    for (int slot = 0; slot < RING; slot++) {
                        const uint4 &weight = ahead[slot][0][piece], &value = right[slot / TILES];
                        if (PAIRED) {
                            multiply_round<FORMAT>(round, sums[slot], weight, ahead[slot][BANDS - 1][piece], value);
                        } else {
                            // The same order of rounds with the operands exchanged.
                            int turned = FORMAT == SPLIT && round < 2 ? 1 - round : round;
                            multiply_round<FORMAT>(turned, sums[slot], value, nothing, weight);
                        }
                    }
                }
            }
#pragma unroll
            for (int slot = 0; slot < RING; slot++) {
                int item = base + slot, link = first_link + item / TILES, tile = slot % TILES;
                if (item < items) {
                    float* place = chains + link * SUMS + tile * BANDS * BAND * BAND;
                    int group = lane / 4, pair = lane % 4 * 2;
                    if (PAIRED) {
#pragma unroll
                        for (int which = 0; which < 4; which++) {
                            place[(which / 2 * BAND + group) * BAND + pair + which % 2] = sums[slot][which];
                        }
                    } else {
                        place[pair * BAND + group] = sums[slot][0];
                        place[(pair + 1) * BAND + group] = sums[slot][1];
                    }
                }
                fetch(base + RING + slot, ahead[slot]);
            }
        }
        // The first weights again, for the next rows.
        if (first + BAND < live_rows) {
#pragma unroll
            for (int slot = 0; slot < RING; slot++) fetch(slot, ahead[slot]);
        }
        __syncthreads();
        for (int task = threadIdx.x; task < PARTS * SUMS; task += THREADS) {
            int part = task / SUMS, end = part_start(part + 1, call.links);
            float sum = 0.0f;
#pragma unroll 8
            for (int link = part_start(part, call.links); link < end; link++) sum += chains[link * SUMS + task % SUMS];
            parts[task] = sum;
        }
        __syncthreads();
        auto total = [&](int place) {
            float sum = parts[place];
#pragma unroll
            for (int part = 1; part < PARTS; part++) sum += parts[part * SUMS + place];
            return sum;
        };
        if (finishes && own_row < rows) {
            float scale = scale_of_row(share, own_row, inverse_inputs, call.has_norm, call.epsilon);
            int low = (own_band * BAND + own_column) * BAND + own_row;
            finish_pair(call, result, columns, scale, total(low), PAIRED ? total(low + BAND * BAND) : 0.0f);
        }
        __syncthreads();
    }
}

// Every kernel of one format. Blocks are named by rows of the result, then columns.
#define FRAGMENT_KERNELS(name, FORMAT)                                                                                 \
    KERNEL(cut_rows_##name, RowFragments, 256) {                                                                       \
        cut_rows<FORMAT, false>(call);                                                                                 \
    }                                                                                                                  \
    KERNEL(cut_grouped_rows_##name, RowFragments, 256) {                                                               \
        cut_rows<FORMAT, true>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL_AHEAD(block_128_128_##name, Product, 256, 1) {                                                              \
        multiply_block<FORMAT, 4, 4, 2, 4, 1, 4>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(block_128_96_##name, Product, 256, 1) {                                                               \
        multiply_block<FORMAT, 3, 4, 2, 4, 1, 4>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(block_64_64_##name, Product, 256, 1) {                                                                \
        multiply_block<FORMAT, 2, 8, 2, 1, 4, 3>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(block_32_32_##name, Product, 128, 1) {                                                                \
        multiply_block<FORMAT, 2, 4, 1, 1, 4, 4>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(small_32_32_##name, Product, 128, 1) {                                                                \
        multiply_block<FORMAT, 2, 4, 1, 1, 4, 2>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_8_##name, Product, 256, 2) {                                                                   \
        stream_weights<FORMAT, false, 1, 6>(call);                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_16_##name, Product, 256, 2) {                                                                  \
        stream_weights<FORMAT, false, 2, 6>(call);                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_24_##name, Product, 256, 2) {                                                                  \
        stream_weights<FORMAT, false, 3, 6>(call);                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_pairs_1_##name, Product, 256, 2) {                                                             \
        stream_weights<FORMAT, true, 1, 3>(call);                                                                      \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_pairs_2_##name, Product, 256, 2) {                                                             \
        stream_weights<FORMAT, true, 2, 4>(call);                                                                      \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_pairs_3_##name, Product, 256, 2) {                                                             \
        stream_weights<FORMAT, true, 3, 3>(call);                                                                      \
    }
