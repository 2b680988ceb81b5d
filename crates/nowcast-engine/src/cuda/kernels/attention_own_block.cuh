// Few rows in a cluster: one block of it goes through their own keys while the others go through the context.
#pragma once

#include "attention_finish.cuh"
#include "newest_tokens.cuh"

// The newest queries, keys and values of a block's rows; of small heads.
template <typename Block>
struct Newest : NewestTokens<Block::CAN_PACK, Block::ROWS> {
    static_assert(Newest::WORDS <= Block::OPENING_WORDS, "room among results");

    __device__ __forceinline__ Newest(const Block& block, i64 first_row, int head, int rows)
        : Newest::NewestTokens(block.call, block.opening(), first_row, head, rows) {}
};

// Queries that every block which goes through the context rotates for itself. Of kernels that do not: nothing.
template <typename Block, bool ROTATES>
struct RotatedQueries {
    __device__ __forceinline__ RotatedQueries(const Block&, i64, int, int) {}
    __device__ __forceinline__ void put_back() const {}
};

template <typename Block>
struct RotatedQueries<Block, true> : Newest<Block> {
    using Newest<Block>::Newest;
};

// Own chunks that are gone through so, sixteen threads each: what is left is for the first block, behind the context.
template <typename Block>
__device__ __forceinline__ int early_items(const Attention& call, int rows) {
    const int SLOTS = Block::THREADS / LANES;
    static_assert(SLOTS <= Block::ROWS, "a place for each");
    int items = own_items(call, rows);
    return items < SLOTS ? items : SLOTS;
}

// That block: puts newest keys and values into the cache, leaves what own chunks come to in the first block, meets the others
// once behind that, and leaves.
template <typename Block>
__device__ __forceinline__ void attend_own(const Block& block, i64 first_row, int head, int rows) {
    const int GROUPS = Block::OWN_GROUPS;
    const Attention& call = block.call;
    int slot = threadIdx.x / LANES, row = slot % rows, items = early_items<Block>(call, rows);
    // A context that attends to itself has no own keys, nor paths.
    if (items == 0) return;
    OwnKeys<Block::CAN_PACK, GROUPS, OWN_CHUNK> own;
    auto begin = [&](const float* query) {
        own.begin(call, query, (int)first_row + row, head, call.hidden - block.context, slot < items);
    };
    if constexpr (Block::ROTATES) {
        Newest<Block> newest(block, first_row, head, rows);
        begin(newest.query(row));
        newest.send();
        own.send(slot / rows * OWN_CHUNK);
        newest.keep(false);
        __syncthreads();
        if (newest.appends()) own.replace(call.seen - 1, newest.key(row), newest.value(row));
    } else {
        // The first block rotates and appends.
        if (call.key_column >= 0) block.meet();
        begin(query_at(call, first_row + row, head, block.head_dim));
        own.send(slot / rows * OWN_CHUNK);
    }
    Answer<GROUPS> chunk;
    own.attend(&chunk);
    block.put_by_first(slot, chunk);
    block.meet();
}

// The first block, which has merged the context: own chunks too, and results.
template <typename Block, int GROUPS>
__device__ __forceinline__ void finish_with_own(const Block& block, i64 first_row, int head, int rows, Answer<GROUPS>* answer) {
    const Attention& call = block.call;
    int slot = threadIdx.x / LANES, early = early_items<Block>(call, rows);
    for (int other = slot; slot < rows && other < early; other += rows) {
        Answer<GROUPS> chunk;
        block.take_up(Block::ALL_ROWS + other, &chunk);
        merge(answer, chunk);
    }
    if (early == own_items(call, rows)) {
        if (slot < rows) write_answer<Block::CAN_PACK>(call, first_row + slot, head, *answer);
        return;
    }
    // The cluster's meeting orders this, too; compute-sanitizer does not see it.
    __syncthreads();
    if (slot < rows) block.put_by(slot, *answer);
    __syncthreads();
    finish_few_rows(block, first_row, head, rows, early);
}
