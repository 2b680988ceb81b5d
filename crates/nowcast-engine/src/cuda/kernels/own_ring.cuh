// Own keys of sixteen paths, and then their values, on their way to one warp (sm_90a, and the emulation).
#pragma once

#include "attention_operands.cuh"
#include "attention.cuh"
#include "pipeline.cuh"

struct RowsAttention {
    // `suffix_keys` and `suffix_values`, the former twice where it has both, a path each row, in boxes of one head of sixteen
    // paths at one token.
    Map keys;
    Map values;
    // Paths have one query each; its key and value are to be appended, the eighth of the path at most. Nobody else reads the
    // query rotated.
    Attention attention;
};

#if HAS_PIPELINES
// A warp's own keys, and then their values, of steps before on their way, token by token.
struct OwnRing {
    const RowsAttention& call;
    // [stages, 16, GROUP]
    float* memory;
    u64* full;
    int path, stages, tokens, sent, stage, parity;
    // Whether this lane sends; all of the warp know what is next.
    bool sends;

    __device__ __forceinline__ OwnRing(const RowsAttention& rows, float* shared, u64* barriers)
        : call(rows), memory(shared), full(barriers), stages(rows.attention.stages), tokens(rows.attention.seen - 1) {
        sent = 0, stage = 0, parity = 0, sends = sends_for_warp();
    }

    __device__ __forceinline__ void prepare() const {
        if (!sends) return;
        for (int index = 0; index < stages; index++) prepare_barrier(full + index, 1);
        publish_barriers();
    }
    // For sixteen paths from this one on.
    __device__ __forceinline__ void begin(int first_path) {
        path = first_path;
        for (int index = 0; index < stages; index++) send(index);
    }
    __device__ __forceinline__ void send(int to) {
        const Attention& attention = call.attention;
        if (sent >= 2 * tokens) return;
        bool is_key = sent < tokens;
        int token = is_key ? sent : sent - tokens, size = TILE_ROWS * GROUP;
        if (sends) {
            expect_bytes(full + to, size * 4);
            int word = (blockIdx.y * attention.suffix_capacity + token) * GROUP;
            send_box(memory + to * size, is_key ? call.keys : call.values, word, path, full + to);
        }
        sent++;
    }
    // The rows of the next token, once they have come.
    __device__ __forceinline__ const float* next() const {
        wait_for_phase(full + stage, parity);
        return memory + stage * TILE_ROWS * GROUP;
    }
    // Gives them back.
    __device__ __forceinline__ void pass() {
        __syncwarp();
        send(stage);
        stage = stage + 1 < stages ? stage + 1 : 0;
        parity ^= stage == 0;
    }
};
#endif
