// Few rows of small heads in a cluster: every block rotates their queries for itself, and the first one goes through the first
// own keys meanwhile.
#pragma once

#include "attention_finish.cuh"
#include "newest_tokens.cuh"

// Of all other kernels: nothing.
template <typename Block, bool OPENS>
struct Opening {
    __device__ __forceinline__ Opening(const Block&, i64, int, int) {}
    __device__ __forceinline__ void put_back() const {}
    template <typename Answer>
    __device__ __forceinline__ bool knows(int, Answer*) const {
        return false;
    }
};

template <typename Block>
struct Opening<Block, true> {
    const Block& block;
    i64 first_row;
    int head, rows;
    typedef NewestTokens<Block::CAN_PACK, Block::ROWS> Newest;
    static_assert(Newest::WORDS <= Block::OPENING_WORDS, "room among results");
    Newest newest;
    // What the first own chunks come to, one for each sixteen threads.
    Answer<1> own;

    __device__ __forceinline__ Opening(const Block& of_block, i64 row, int own_head, int count)
        : block(of_block), first_row(row), head(own_head), rows(count),
          newest(of_block.call, of_block.opening(), row, own_head, count) {}

    __device__ __forceinline__ void open(bool is_first) {
        const Attention& call = block.call;
        int slot = threadIdx.x / LANES, row = slot % rows, items = own_items(call, rows);
        // A context that attends to itself has no own keys, nor paths.
        bool goes_through = is_first && items > 0;
        OwnKeys<Block::CAN_PACK, 1, OWN_CHUNK> keys;
        if (goes_through) {
            keys.begin(call, newest.query(row), (int)first_row + row, head, call.hidden - block.context, slot < items);
        }
        newest.send();
        if (goes_through) keys.send(slot / rows * OWN_CHUNK);
        newest.keep(is_first, false);
        __syncthreads();
        block.cut_queries(rows, [&](int row) { return newest.query(row); });
        if (!goes_through) return;
        if (newest.appends()) keys.replace(call.seen - 1, newest.key(row), newest.value(row));
        keys.attend(&own);
    }
    // Where other blocks have read what stood there.
    __device__ __forceinline__ void put_back() const {
        newest.put_back();
    }
    // Whether own chunks from this one on have been gone through; what this thread's comes to.
    __device__ __forceinline__ bool knows(int item, Answer<1>* chunk) const {
        if (item == 0) *chunk = own;
        return item == 0;
    }
};
