// Every kernel of attention in chunks, in one format.
#pragma once

#include "attention_chunks.cuh"

// Blocks that share the chunks of a few rows.
#define FEW_BLOCKS 4

// Named by the most components of a head and by the chunks that a block goes through at once.
#define CHUNK_KERNELS(name, FORMAT)                                                                                    \
    KERNEL_AHEAD(attend_64_1_##name, Attention, CHUNK_THREADS, 4) {                                                    \
        attend_chunks<FORMAT, 2, 1, 1, 1>(call);                                                                       \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_64_2_##name, Attention, 2 * CHUNK_THREADS, 2) {                                                \
        attend_chunks<FORMAT, 2, 2, 1, 1>(call);                                                                       \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_64_4_##name, Attention, 4 * CHUNK_THREADS, 1) {                                                \
        attend_chunks<FORMAT, 2, 4, 1, 1>(call);                                                                       \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_128_2_##name, Attention, 2 * CHUNK_THREADS, 1) {                                               \
        attend_chunks<FORMAT, 1, 2, 2, 1>(call);                                                                       \
    }                                                                                                                  \
    KERNEL_AHEAD(attend_256_2_##name, Attention, 2 * CHUNK_THREADS, 1) {                                               \
        attend_chunks<FORMAT, 1, 2, 4, 1>(call);                                                                       \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_64_##name, Attention, 2 * CHUNK_THREADS, 2, FEW_BLOCKS) {                             \
        attend_chunks<FORMAT, 1, 2, 1, FEW_BLOCKS>(call);                                                              \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_128_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_BLOCKS) {                            \
        attend_chunks<FORMAT, 1, 2, 2, FEW_BLOCKS>(call);                                                              \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(attend_few_256_##name, Attention, 2 * CHUNK_THREADS, 1, FEW_BLOCKS) {                            \
        attend_chunks<FORMAT, 1, 2, 4, FEW_BLOCKS>(call);                                                              \
    }
