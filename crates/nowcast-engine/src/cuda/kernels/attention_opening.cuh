// Few rows of small heads in a cluster: every block rotates their queries for itself, and the first one goes through the first
// own keys meanwhile.
#pragma once

#include "attention_finish.cuh"
#include "newest_tokens.cuh"

// Of all other kernels: nothing.
template <typename Block, bool OPENS>
struct Opening {
    __device__ __forceinline__ Opening(const Block&, i64, int, int) {}
};

template <typename Block>
struct Opening<Block, true> {
    typedef NewestTokens<Block::CAN_PACK, Block::ROWS> Newest;
    static_assert(Newest::WORDS <= Block::OPENING_WORDS, "room among results");
    // Own chunks that are gone through before: sixteen threads each.
    static const int SLOTS = Block::THREADS / LANES;
    static_assert(SLOTS <= Block::ROWS, "a place for each");
    const Block& block;
    i64 first_row;
    int head, rows, slot, items;
    Newest newest;

    __device__ __forceinline__ Opening(const Block& of_block, i64 row, int own_head, int count)
        : block(of_block), first_row(row), head(own_head), rows(count), slot(threadIdx.x / LANES),
          items(own_items(of_block.call, count)), newest(of_block.call, of_block.opening(), row, own_head, count) {}

    // The place of an own chunk behind the results of all sharers.
    __device__ __forceinline__ static int own_place(int item) {
        return Block::ALL_ROWS + item;
    }

    // Queries cut; in the first block, newest keys and values on their way into the cache, and what the first own chunks come to
    // put by.
    __device__ __forceinline__ void open(bool is_first) {
        const Attention& call = block.call;
        int row = slot % rows;
        // A context that attends to itself has no own keys, nor paths.
        bool goes_through = is_first && items > 0;
        OwnKeys<Block::CAN_PACK, 1, OWN_CHUNK> own;
        if (goes_through) {
            own.begin(call, newest.query(row), (int)first_row + row, head, call.hidden - block.context, slot < items);
        }
        newest.send();
        if (goes_through) own.send(slot / rows * OWN_CHUNK);
        newest.keep(is_first, false);
        __syncthreads();
        block.cut_queries(rows, [&](int row) { return newest.query(row); });
        if (!goes_through) return;
        if (newest.appends()) own.replace(call.seen - 1, newest.key(row), newest.value(row));
        Answer<1> chunk;
        own.attend(&chunk);
        block.put_by(own_place(slot), chunk);
    }

    // The first block: own chunks merged into what the context came to, and written. Others have read their queries before.
    __device__ __forceinline__ void finish(Answer<1>* answer) const {
        newest.put_back();
        for (int other = slot; slot < rows && other < SLOTS && other < items; other += rows) {
            Answer<1> chunk;
            block.take_up(own_place(other), &chunk);
            merge(answer, chunk);
        }
        if (items <= SLOTS) {
            if (slot < rows) write_answer<Block::CAN_PACK>(block.call, first_row + slot, head, *answer);
            return;
        }
        if (slot < rows) block.put_by(slot, *answer);
        __syncthreads();
        finish_few_rows(block, first_row, head, rows, SLOTS);
    }
};
