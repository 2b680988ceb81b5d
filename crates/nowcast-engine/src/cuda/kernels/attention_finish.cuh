// The path's own keys after the chunks of its context, and the results.
#pragma once

#include "attention_own.cuh"

// Values that memory hands out together.
#define LINE 32

// Asks for the own keys and values of the block's rows, so many, long before they are looked at.
template <typename Block>
__device__ __forceinline__ void expect_own_keys(const Attention& call, i64 first_row, int head, int rows) {
    if (call.tokens == 0) return;
    int first = (int)first_row / call.tokens, paths = ((int)first_row + rows - 1) / call.tokens - first + 1;
    int head_dim = call.head_dim, lines = (own_keys(call) * head_dim + LINE - 1) / LINE;
    for (int path = threadIdx.x / LANES; path < paths; path += Block::THREADS / LANES) {
        i64 place = ((i64)(first + path) * call.heads + head) * call.suffix_capacity * head_dim;
        for (int line = threadIdx.x % LANES; line < lines; line += LANES) {
            expect(call.suffix_keys + place + line * LINE);
            if (!packs_own<Block::CAN_PACK>(call)) expect(call.suffix_values + place + line * LINE);
        }
    }
}

// Chunks of own keys of all rows of a block, so many.
__device__ __forceinline__ int own_items(const Attention& call, int rows) {
    return rows * ((own_keys(call) + OWN_CHUNK - 1) / OWN_CHUNK);
}

// Shares the own chunks of a few rows, so many, out among all threads from one of them on, and merges them in order. Each
// sixteen threads leave one chunk behind the answers.
template <typename Block>
__device__ __forceinline__ void finish_few_rows(const Block& block, i64 first_row, int head, int rows, int begin) {
    const int GROUPS = Block::OWN_GROUPS;
    const Attention& call = block.call;
    const int SLOTS = Block::THREADS / LANES;
    int slot = threadIdx.x / LANES, hidden = call.hidden - block.context;
    int items = own_items(call, rows);
    Answer<GROUPS> answer;
    if (slot < rows) block.take_up(slot, &answer);
#pragma unroll 1
    for (int first = begin; first < items; first += SLOTS) {
        int item = first + slot;
        OwnKeys<Block::CAN_PACK, GROUPS, OWN_CHUNK> own;
        own.begin(call, query_at(call, first_row + item % rows, head, block.head_dim), (int)first_row + item % rows, head, hidden,
                  item < items);
        own.send(item / rows * OWN_CHUNK);
        Answer<GROUPS> chunk;
        own.attend(&chunk);
        block.put_by(Block::ROWS + slot, chunk);
        __syncthreads();
        for (int other = (slot + rows - first % rows) % rows; slot < rows && other < SLOTS && first + other < items; other += rows) {
            block.take_up(Block::ROWS + other, &chunk);
            merge(&answer, chunk);
        }
        __syncthreads();
    }
    if (slot < rows) write_answer<Block::CAN_PACK>(call, first_row + slot, head, answer);
}

// Merges own keys, `COUNT` at a time, into answers that have been put by, and writes them: those of a thread's rows from
// `first` on, up to `BATCH` rows at a time. So many are live. `LOADED`: as `OwnKeys` has it.
template <int COUNT, int LOADED, int BATCH, typename Block>
__device__ __forceinline__ void finish_rows(const Block& block, i64 first_row, int head, int first, int rows) {
    const int GROUPS = Block::OWN_GROUPS, OWNED = Block::OWNED;
    const Attention& call = block.call;
    const int MOST = BATCH < OWNED ? BATCH : OWNED, TOGETHER = OWNED % MOST == 0 ? MOST : MOST - 1;
    static_assert(OWNED % TOGETHER == 0, "a thread's rows in whole batches");
    int hidden = call.hidden - block.context, most = own_keys(call);
#pragma unroll 1
    for (int row = first; row < first + OWNED; row += TOGETHER) {
        Answer<GROUPS> answers[TOGETHER];
#pragma unroll
        for (int index = 0; index < TOGETHER; index++) block.take_up(row + index, &answers[index]);
#pragma unroll 1
        for (int start = 0; start < most; start += COUNT) {
            OwnKeys<Block::CAN_PACK, GROUPS, COUNT, LOADED> own[TOGETHER];
#pragma unroll
            for (int index = 0; index < TOGETHER; index++) {
                bool live = row + index < rows;
                int next = live ? row + index : 0;
                own[index].begin(call, query_at(call, first_row + next, head, block.head_dim), (int)first_row + next, head, hidden, live);
                own[index].send(start);
            }
#pragma unroll
            for (int index = 0; index < TOGETHER; index++) {
                Answer<GROUPS> chunk;
                own[index].attend(&chunk);
                merge(&answers[index], chunk);
            }
        }
#pragma unroll
        for (int index = 0; index < TOGETHER; index++) {
            if (row + index < rows) write_answer<Block::CAN_PACK>(call, first_row + row + index, head, answers[index]);
        }
    }
}

// The same with as many own keys at a time as suit their number.
template <typename Block>
__device__ __forceinline__ void finish_all_rows(const Block& block, i64 first_row, int head, int own_row, int rows) {
    int own = own_keys(block.call);
    if (Block::OWN_GROUPS == 1 && own <= 2) {
        finish_rows<2, 2, 4>(block, first_row, head, own_row, rows);
    } else if (Block::OWN_GROUPS == 1 && own <= 4) {
        finish_rows<4, 4, 2>(block, first_row, head, own_row, rows);
    } else if (Block::OWN_GROUPS == 1 && own <= 6) {
        finish_rows<OWN_CHUNK, 6, 1>(block, first_row, head, own_row, rows);
    } else {
        finish_rows<OWN_CHUNK, OWN_CHUNK, 1>(block, first_row, head, own_row, rows);
    }
}
