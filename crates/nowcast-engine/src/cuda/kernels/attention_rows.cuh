// Attention of many rows over a context of one chunk that was cut before (sm_90a, and the emulation): every warp has sixteen
// rows by itself.
//
// What lanes have of queries, exponents and answers stays in their registers, and no warp waits for another. The chunk
// comes into shared memory before the kernel before has ended, own keys of steps before, and then their values, through a
// ring of each warp. Chains and the order in which chunks are merged are those of attention_chunks.cuh, and so are the
// digits.
#pragma once

#include "attention_shares.cuh"
#include "lane_rows.cuh"
#include "own_ring.cuh"

// Warps of a block, and such blocks on a multiprocessor.
#define ROW_WARPS 4
#define ROW_BLOCKS 3

#if HAS_PIPELINES
// What a warp does for its rows. `PACKS`: whether own tokens are as own_tokens.cuh has them.
template <int FORMAT, bool PACKS>
struct RowAttention : LaneRows {
    typedef Answer<CHUNK_STEPS> Result;

    const Attention& call;
    int head, context, hidden;
    // The first of the warp, and how many.
    i64 first_row;
    int rows;
    // Of each row this lane keeps the scores, and then the exponents, of every fourth own key.
    float kept[LANE_ROWS][OWN_CHUNK / 4];

    __device__ __forceinline__ RowAttention(const Attention& attention, const Window& window, i64 row, int count)
        : call(attention), head(blockIdx.y), first_row(row), rows(count) {
        context = window.context, hidden = hidden_keys(attention, window);
    }

    // A lane's row, or the last where it has none.
    __device__ __forceinline__ i64 row_of(int which) const {
        int row = which * BAND + place;
        return first_row + (row < rows ? row : rows - 1);
    }
    __device__ __forceinline__ bool is_live(int which) const {
        return which * BAND + place < rows;
    }
    // Whether an own key is not hidden.
    __device__ __forceinline__ bool sees(int key) const {
        return key < call.seen && key >= hidden - context;
    }

    // The queries of the lane's rows, rotated; puts the newest keys and values into the cache and keeps the keys' scores.
    __device__ __forceinline__ void open(Row (&queries)[LANE_ROWS]) {
        Row keys[LANE_ROWS], values[LANE_ROWS];
        if (PACKS && call.takes_operands) {
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) {
                int column = head * HEAD_DIM;
                const u32* words = reinterpret_cast<const u32*>(call.query);
                i64 row = row_of(which);
                auto from = [&](int first) { return own_operands<BRAIN>(words, call.query_width, row, column + first); };
                load_operands(from(call.query_column), queries[which]);
                load_operands(from(call.key_column), keys[which]);
                load_operands(from(call.value_column), values[which]);
            }
        } else {
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) {
                const float* from = call.query + row_of(which) * call.query_width + head * HEAD_DIM;
                load(from + call.query_column, queries[which]);
                load(from + call.key_column, keys[which]);
                load(from + call.value_column, values[which]);
                if (PACKS) round(queries[which]), round(keys[which]);
            }
        }
        rotate(call.table, call.interleaved, queries);
        rotate(call.table + 2 * HEAD_DIM, call.interleaved, keys);
        if (PACKS) {
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) round(keys[which]);
        }
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            keep(which, call.seen - 1, product(queries[which], keys[which]));
            if (!is_live(which)) continue;
            i64 room = newest_room(call, row_of(which), head, HEAD_DIM);
            if (PACKS) {
#pragma unroll
                for (int step = 0; step < CHUNK_STEPS; step++) {
                    keys[which][step] = packed_own(keys[which][step], values[which][step]);
                }
            }
            kept_for_later(call.suffix_keys + room, HEAD_DIM);
            store(call.suffix_keys + room, keys[which]);
            if (PACKS) continue;
            kept_for_later(call.suffix_values + room, HEAD_DIM);
            store(call.suffix_values + room, values[which]);
        }
    }

    __device__ __forceinline__ void keep(int which, int key, float score) {
#pragma unroll
        for (int four = 0; four < OWN_CHUNK / 4; four++) {
            if (key == four * 4 + quarter) kept[which][four] = score;
        }
    }

    __device__ __forceinline__ void cut_queries(const Row (&queries)[LANE_ROWS], LeftStep<FORMAT> (&left)[CHUNK_STEPS],
                                                float (&scales)[LANE_ROWS]) const {
        Cut cuts[LANE_ROWS][CHUNK_STEPS];
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            float top = 0.0f;
#pragma unroll
            for (int step = 0; step < CHUNK_STEPS; step++) {
                const float4& four = queries[which][step];
                top = fmaxf(top, largest_magnitude(four));
            }
            top = largest_of_quarters(top);
            scales[which] = scale_for(top);
#pragma unroll
            for (int step = 0; step < CHUNK_STEPS; step++) {
                const float4& four = queries[which][step];
                cuts[which][step] = cut_four<FORMAT>(four.x, four.y, four.z, four.w, factor_for(top));
            }
        }
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) left[step] = LeftStep<FORMAT>(cuts[0][step], cuts[1][step]);
    }

    // Scores of the chunk's keys, those that are not seen LEAST: of each share both columns' sums.
    __device__ __forceinline__ void score(const u32* chunk, const LeftStep<FORMAT> (&left)[CHUNK_STEPS],
                                          const float (&scales)[LANE_ROWS], ShareSums (&scores)[CHUNK_WARPS]) const {
        bool all_seen = CHUNK <= context && hidden == 0;
#pragma unroll
        for (int share = 0; share < CHUNK_WARPS; share++) {
            const u32* keys = chunk + SCALE_WORDS(1) + share * SHARE_WORDS(FORMAT);
            multiply_share<FORMAT>(left, keys, HEAD_DIM > LINK, scores[share]);
            scale_scores(four_at(reinterpret_cast<const float*>(chunk) + component(share)), scales, scores[share]);
            if (!all_seen) hide_scores(component(share), hidden, context, scores[share]);
        }
    }

    // What the chunk comes to for both rows, merged as `merge` does, component by component.
    __device__ __forceinline__ void merge_chunk(const u32* chunk, const ShareSums (&scores)[CHUNK_WARPS],
                                                Result (&answers)[LANE_ROWS]) const {
        Cut cuts[LANE_ROWS][CHUNK_WARPS];
        float before[LANE_ROWS], now[LANE_ROWS];
        bool is_seen[LANE_ROWS];
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            Result& answer = answers[which];
            float top = LEAST, parts[CHUNK_WARPS];
#pragma unroll
            for (int share = 0; share < CHUNK_WARPS; share++) {
                top = fmaxf(top, largest_of_four(sums_of_row(scores[share], which)));
            }
            top = largest_of_quarters(top);
#pragma unroll
            for (int share = 0; share < CHUNK_WARPS; share++) {
                parts[share] = weigh_share<FORMAT>(sums_of_row(scores[share], which), top, &cuts[which][share]);
            }
            is_seen[which] = top > LEAST;
            float largest = fmaxf(answer.largest, top);
            before[which] = exponential_of_negative(answer.largest - largest);
            now[which] = exponential_of_negative(top - largest);
            if (!is_seen[which]) continue;
            answer.largest = largest;
            answer.sum = fmaf((parts[0] + parts[1]) + (parts[2] + parts[3]), now[which], answer.sum * before[which]);
        }
        const float* value_scales = reinterpret_cast<const float*>(chunk) + CHUNK;
        const u32* values = chunk + SCALE_WORDS(1) + SIDE_WORDS(FORMAT, 1);
        LeftStep<FORMAT> exponents[CHUNK_STEPS];
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) exponents[step] = LeftStep<FORMAT>(cuts[0][step], cuts[1][step]);
#pragma unroll
        for (int share = 0; share < CHUNK_WARPS; share++) {
            ShareSums sums;
            multiply_share<FORMAT>(exponents, values + share * SHARE_WORDS(FORMAT), context > LINK, sums);
            float4 scale = four_at(value_scales + component(share));
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) {
                float4 four = sums_of_row(sums, which), &value = answers[which].value[share];
                four = make_float4(four.x * scale.x, four.y * scale.y, four.z * scale.z, four.w * scale.w);
                if (is_seen[which]) value = scaled_sum(four, now[which], scaled(value, before[which]));
            }
        }
    }

    // Scores of the own keys of steps before.
    __device__ __forceinline__ void score_own(OwnRing& ring, Row (&queries)[LANE_ROWS]) {
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) turn(queries[which]);
#pragma unroll 1
        for (int key = 0; key < ring.tokens; key++) {
            const float* from = ring.next();
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) {
                Row own;
                load_own(from, which, own);
                if (PACKS) unpack_key(own);
                keep(which, key, product(queries[which], own));
            }
            ring.pass();
        }
    }

    // Exponents of own keys, and their largest score.
    __device__ __forceinline__ void weigh_own(Result (&chunks)[LANE_ROWS]) {
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            Result& chunk = chunks[which];
            clear(&chunk);
#pragma unroll
            for (int four = 0; four < OWN_CHUNK / 4; four++) {
                if (!sees(four * 4 + quarter)) kept[which][four] = LEAST;
                chunk.largest = fmaxf(chunk.largest, kept[which][four]);
            }
            chunk.largest = largest_of_quarters(chunk.largest);
#pragma unroll
            for (int four = 0; four < OWN_CHUNK / 4; four++) {
                float exponent = exponential_of_negative(kept[which][four] - chunk.largest);
                kept[which][four] = sees(four * 4 + quarter) ? exponent : 0.0f;
            }
        }
    }

    __device__ __forceinline__ void add_own(int which, int key, const Row& value, Result* chunk) const {
        float weight = __shfl_sync(0xffffffffu, key < 4 ? kept[which][0] : kept[which][1], place * 4 + key % 4);
        // Nothing times what is not seen may be no number.
        if (!sees(key)) return;
        chunk->sum += weight;
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            chunk->value[step] = scaled_sum(value[step], weight, chunk->value[step]);
        }
    }

    // Merges what the own keys come to.
    __device__ __forceinline__ void merge_own(OwnRing& ring, Result (&answers)[LANE_ROWS]) {
        Result chunks[LANE_ROWS];
        Row newest[LANE_ROWS];
        // The lane wrote these itself.
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            const float* own = PACKS ? call.suffix_keys : call.suffix_values;
            load(own + newest_room(call, row_of(which), head, HEAD_DIM), newest[which]);
            if (PACKS) unpack_value(newest[which]);
        }
        weigh_own(chunks);
#pragma unroll 1
        for (int key = 0; key < ring.tokens; key++) {
            const float* from = ring.next();
#pragma unroll
            for (int which = 0; which < LANE_ROWS; which++) {
                Row own;
                load_own(from, which, own);
                if (PACKS) unpack_value(own);
                add_own(which, key, own, &chunks[which]);
            }
            ring.pass();
        }
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            turn(chunks[which].value);
            add_own(which, ring.tokens, newest[which], &chunks[which]);
            merge(&answers[which], chunks[which]);
        }
    }

    __device__ __forceinline__ void write(const Result (&answers)[LANE_ROWS]) const {
#pragma unroll
        for (int which = 0; which < LANE_ROWS; which++) {
            if (!is_live(which)) continue;
            float inverse = 1.0f / answers[which].sum;
            i64 row = row_of(which);
            Row results;
#pragma unroll
            for (int step = 0; step < CHUNK_STEPS; step++) results[step] = scaled(answers[which].value[step], inverse);
            if (call.result_factor == 0.0f) {
                store(call.output + row * call.output_width + head * HEAD_DIM, results);
            } else if (FORMAT == SPLIT) {
                write_operands<SPLIT>(row, results);
            } else if (PACKS || call.hands_bf16) {
                write_operands<BRAIN>(row, results);
            } else {
                write_operands<HALF>(row, results);
            }
        }
    }
    template <int CUT_FORMAT>
    __device__ __forceinline__ void write_operands(i64 row, const Row& results) const {
        u32* words = reinterpret_cast<u32*>(call.output);
        u32* to = own_operands<CUT_FORMAT>(words, call.output_width, row, head * HEAD_DIM);
        store_operands<CUT_FORMAT>(to, call.result_factor, results);
    }
};

// Grid: sixteens of rows of one series, one for each warp of a block, heads, series.
template <int FORMAT, bool PACKS>
__device__ __forceinline__ void attend_rows(const RowsAttention& rows_call) {
    const Attention& call = rows_call.attention;
    int series = count(call.series, call.live), warp = threadIdx.x / 32, first = blockIdx.x * ROW_WARPS * TILE_ROWS;
    Window window = window_of(call, series);
    if ((int)blockIdx.z >= series || first >= window.series_rows) return wait_for_previous();
    // The chunk, a ring for each warp, and barriers: of the chunk, then of the rings.
    SHARED_MEMORY(memory);
    u32* chunk = reinterpret_cast<u32*>(memory);
    float* rings = memory + CHUNK_WORDS(FORMAT, 1);
    int stages = call.stages, ring_size = stages * TILE_ROWS * GROUP;
    u64* arrived = reinterpret_cast<u64*>(rings + ROW_WARPS * ring_size);
    OwnRing ring(rows_call, rings + warp * ring_size, arrived + 1 + warp * stages);
    ring.prepare();
    if (threadIdx.x == 0) {
        prepare_barrier(arrived, 1);
        publish_barriers();
        // The kernel behind `cut_context` began when that had ended, and this one began later.
        expect_bytes(arrived, CHUNK_WORDS(FORMAT, 1) * 4);
        send_bytes(chunk, call.operands + ((i64)blockIdx.z * call.heads + blockIdx.y) * CHUNK_WORDS(FORMAT, 1),
                   CHUNK_WORDS(FORMAT, 1) * 4, arrived);
    }
    __syncthreads();
    wait_for_previous();
    first += warp * TILE_ROWS;
    if (first >= window.series_rows) return;
    i64 first_row = (i64)blockIdx.z * window.series_rows + first;
    ring.begin((int)first_row);
    __syncwarp();
    int left = window.series_rows - first;
    RowAttention<FORMAT, PACKS> rows(call, window, first_row, left < TILE_ROWS ? left : TILE_ROWS);
    LaneRows::Row queries[LANE_ROWS];
    rows.open(queries);
    LeftStep<FORMAT> cut[CHUNK_STEPS];
    float scales[LANE_ROWS];
    rows.cut_queries(queries, cut, scales);
    rows.score_own(ring, queries);
    ShareSums scores[CHUNK_WARPS];
    wait_for_phase(arrived, 0);
    rows.score(chunk, cut, scales, scores);
    Answer<CHUNK_STEPS> answers[LANE_ROWS];
    clear(&answers[0]), clear(&answers[1]);
    rows.merge_chunk(chunk, scores, answers);
    rows.merge_own(ring, answers);
    rows.write(answers);
}
#endif
