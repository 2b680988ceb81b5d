// Every kernel of attention in chunks, in one format.
#pragma once

#include "attention_append.cuh"
#include "attention_chunks.cuh"
#include "attention_own_block.cuh"
#include "attention_paths.cuh"
#include "attention_rows.cuh"

// The rows of a block: chunk by chunk through the context, then through their own keys. If the context `IS_CHUNK`, one of
// them at most, answers need no registers while others are gone through. `IS_CUT`: as `ChunkAttention` has it.
template <int FORMAT, int TILES, int SHARERS, int GROUPS, int BLOCKS, bool IS_CHUNK, bool IS_CUT = false>
__device__ __forceinline__ void attend_chunks(const Attention& call) {
    typedef ChunkAttention<FORMAT, TILES, SHARERS, GROUPS, BLOCKS, IS_CUT> Block;
    const int ROWS = Block::ROWS, OWNED = Block::OWNED;
    SHARED_MEMORY(memory);
    int series = count(call.series, call.live);
    Window window = window_of(call, series);
    int head = blockIdx.y, head_dim = call.head_dim;
    // The longest first.
    int first = (gridDim.x - 1 - blockIdx.x) / Block::CLUSTER * ROWS;
    bool live = (int)blockIdx.z < series && first < window.series_rows;
    if (!live) return wait_for_previous();
    i64 first_row = (i64)blockIdx.z * window.series_rows + first;
    int rows = window.series_rows - first < ROWS ? window.series_rows - first : ROWS;
    int common = visible_keys(window, first + rows - 1), hidden = hidden_keys(call, window);
    i64 prefix = ((i64)blockIdx.z * call.heads + head) * head_dim * call.prefix_capacity;
    int first_chunk = hidden / CHUNK * CHUNK;
    Block block(call, memory, prefix, first_chunk, common, window.context);
    // All run before anybody writes into another's memory.
    if (Block::HAS_OWN_BLOCK) block.meet();
    if (Block::HAS_OWN_BLOCK && blockIdx.x % Block::CLUSTER == BLOCKS) {
        wait_for_previous();
        return attend_own(block, first_row, head, rows);
    }
    typename Block::CutKeys cut;
    // The kernel behind `cut_context` began when that had ended, and this one began later.
    if (IS_CUT) cut = block.load_cut_keys();
    wait_for_previous();
    // Keys, then values, on their way: registers have no room for both.
    ChunkPairs pairs;
    if (GROUPS == 1 && !IS_CUT) block.load_keys(block.start, 0, &pairs);
    bool is_first = BLOCKS == 1 || blockIdx.x % Block::CLUSTER == 0;
    RotatedQueries<Block, Block::ROTATES> queries(block, first_row, head, rows);
    if constexpr (Block::ROTATES) {
        queries.send_queries();
        queries.keep_queries();
        __syncthreads();
        block.cut_queries(rows, [&](int row) { return queries.query(row); });
    } else {
        if (call.key_column >= 0) {
            if (is_first) append_newest<Block>(call, first_row, head, rows);
            block.meet();
        }
        block.cut_queries(rows, [&](int row) { return query_at(call, first_row + row, head, head_dim); });
        // One chunk is gone through too soon for that to pay.
        if (is_first && !IS_CHUNK && !Block::HAS_OWN_BLOCK) expect_own_keys<Block>(call, first_row, head, rows);
    }
    int own_row = threadIdx.x / LANES * OWNED;
    bool owns = own_row < ROWS && is_first;
    __syncthreads();
    if constexpr (IS_CHUNK) {
        if (block.start < common) block.go_through(window, first, hidden, &pairs, cut);
        __syncthreads();
#pragma unroll 1
        for (int row = own_row; row < own_row + OWNED; row++) {
            Answer<GROUPS> answer;
            clear(&answer);
            block.merge_chunks(row, &answer);
            block.put_by(row, answer);
        }
    } else {
        Answer<GROUPS> answers[OWNED];
#pragma unroll
        for (int index = 0; index < OWNED; index++) clear(&answers[index]);
#pragma unroll 1
        for (int round = first_chunk; round < common; round += Block::ROUND) {
            block.go_through(window, first, hidden, &pairs, cut);
            int next = block.start + Block::ROUND;
            bool is_last = round + Block::ROUND >= common;
            if (GROUPS == 1 && !IS_CUT && !is_last) block.load_keys(next, 0, &pairs);
            block.meet();
#pragma unroll
            for (int index = 0; index < OWNED; index++) {
                if (owns) block.merge_chunks(own_row + index, &answers[index]);
            }
            // Nobody overwrites what others still read.
            if (BLOCKS > 1 && !is_last) block.meet();
            block.start = next;
            if (!IS_CUT) continue;
            // Registers that are still on their way would be waited for behind the rounds.
            if (is_last) break;
            cut = block.load_cut_keys();
        }
        // Who hides the whole context has not met the others yet.
        if (Block::HAS_OWN_BLOCK && first_chunk >= common) block.meet();
        // Nobody leaves what the first block still reads.
        if (BLOCKS > 1) block.part(is_first);
        if (!is_first) return;
        queries.put_back();
        if constexpr (Block::HAS_OWN_BLOCK) {
            return finish_with_own(block, first_row, head, rows, &answers[0]);
        } else {
#pragma unroll
            for (int index = 0; index < OWNED; index++) {
                if (owns) block.put_by(own_row + index, answers[index]);
            }
        }
    }
    if (TILES == 1) {
        __syncthreads();
        finish_few_rows(block, first_row, head, rows, 0);
        return;
    }
    __syncwarp();
    finish_all_rows(block, first_row, head, own_row, rows);
}

// With the block that goes through own keys.
#define FEW_CLUSTER (FEW_BLOCKS + 1)

#if HAS_PIPELINES
#define ATTEND_PATHS(FORMAT) attend_paths<FORMAT>(call)
#define ATTEND_ROWS(FORMAT, PACKS) attend_rows<FORMAT, PACKS>(call)
#else
#define ATTEND_PATHS(FORMAT)
#define ATTEND_ROWS(FORMAT, PACKS)
#endif

#define ROW_KERNEL(name, FORMAT, PACKS)                                                                                \
    KERNEL_AHEAD(attend_rows_##name, RowsAttention, 32 * ROW_WARPS, ROW_BLOCKS) {                                      \
        ATTEND_ROWS(FORMAT, PACKS);                                                                                    \
    }

#define PATH_KERNELS(name, FORMAT)                                                                             \
    KERNEL(cut_context_64_##name, CutContext, CHUNK_THREADS) {                                                         \
        cut_context<FORMAT, 1>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL(cut_context_128_##name, CutContext, CHUNK_THREADS) {                                                        \
        cut_context<FORMAT, 2>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL(cut_context_256_##name, CutContext, CHUNK_THREADS) {                                                        \
        cut_context<FORMAT, 4>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_cut_few_64_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                         \
        attend_chunks<FORMAT, 1, 2, 1, FEW_BLOCKS, false, true>(call);                                                 \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_cut_few_128_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                        \
        attend_chunks<FORMAT, 1, 2, 2, FEW_BLOCKS, false, true>(call);                                                 \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_cut_few_256_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                        \
        attend_chunks<FORMAT, 1, 2, 4, FEW_BLOCKS, false, true>(call);                                                 \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_cut_pair_128_##name, Attention, 2 * CHUNK_THREADS, 1, PAIR_BLOCKS) {                      \
        attend_chunks<FORMAT, 1, 2, 2, PAIR_BLOCKS, false, true>(call);                                                \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_cut_pair_256_##name, Attention, 2 * CHUNK_THREADS, 1, PAIR_BLOCKS) {                      \
        attend_chunks<FORMAT, 1, 2, 4, PAIR_BLOCKS, false, true>(call);                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_paths_##name, Attention, PATH_THREADS, 2) {                                                    \
        ATTEND_PATHS(FORMAT);                                                                                          \
    }                                                                                                                  \
    ROW_KERNEL(name, FORMAT, false)

// Named by the most components of a head and by the chunks that a block goes through at once, or the whole context in one.
#define CHUNK_KERNELS(name, FORMAT)                                                                                    \
    KERNEL_AHEAD(attend_64_1_##name, Attention, CHUNK_THREADS, 4) {                                                    \
        attend_chunks<FORMAT, 2, 1, 1, 1, false>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_64_whole_##name, Attention, CHUNK_THREADS, 4) {                                                \
        attend_chunks<FORMAT, 3, 1, 1, 1, true>(call);                                                                 \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_64_2_##name, Attention, 2 * CHUNK_THREADS, 2) {                                                \
        attend_chunks<FORMAT, 2, 2, 1, 1, false>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_64_4_##name, Attention, 4 * CHUNK_THREADS, 1) {                                                \
        attend_chunks<FORMAT, 2, 4, 1, 1, false>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_128_2_##name, Attention, 2 * CHUNK_THREADS, 1) {                                               \
        attend_chunks<FORMAT, 1, 2, 2, 1, false>(call);                                                                \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_256_2_##name, Attention, 2 * CHUNK_THREADS, 1) {                                               \
        attend_chunks<FORMAT, 1, 2, 4, 1, false>(call);                                                                \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_64_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                             \
        attend_chunks<FORMAT, 1, 2, 1, FEW_BLOCKS, false>(call);                                                       \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_128_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                            \
        attend_chunks<FORMAT, 1, 2, 2, FEW_BLOCKS, false>(call);                                                       \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_256_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_CLUSTER) {                            \
        attend_chunks<FORMAT, 1, 2, 4, FEW_BLOCKS, false>(call);                                                       \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_pair_128_##name, Attention, 2 * CHUNK_THREADS, 1, PAIR_BLOCKS) {                          \
        attend_chunks<FORMAT, 1, 2, 2, PAIR_BLOCKS, false>(call);                                                      \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_pair_256_##name, Attention, 2 * CHUNK_THREADS, 1, PAIR_BLOCKS) {                          \
        attend_chunks<FORMAT, 1, 2, 4, PAIR_BLOCKS, false>(call);                                                      \
    }
