// The products on tensor cores.
#pragma once

#include "linear_blocked.cuh"
#include "linear_clustered.cuh"

// Every kernel of one format. Blocks are named by rows of the result, then columns.
#define FRAGMENT_KERNELS(name, FORMAT)                                                                                 \
    KERNEL(cut_rows_##name, RowFragments, 256) {                                                                       \
        cut_rows<FORMAT, false>(call);                                                                                 \
    }                                                                                                                  \
    KERNEL(cut_grouped_rows_##name, RowFragments, 256) {                                                               \
        cut_rows<FORMAT, true>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL_AHEAD(group_128_128_##name, Product, 256, 1) {                                                              \
        multiply_block<FORMAT, 1, 16, 8, 1, 1, 4, true>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(group_96_128_##name, Product, 256, 2) {                                                               \
        multiply_block<FORMAT, 1, 12, 8, 1, 1, FORMAT == SPLIT ? 2 : 4, true>(call);                                   \
    }                                                                                                                  \
    KERNEL_AHEAD(group_64_128_##name, Product, 256, 2) {                                                               \
        multiply_block<FORMAT, 1, 8, 8, 1, 1, FORMAT == SPLIT ? 3 : 6, true>(call);                                    \
    }                                                                                                                  \
    KERNEL_AHEAD(block_128_128_##name, Product, 256, 1) {                                                              \
        multiply_block<FORMAT, 4, 4, 2, 4, 1, 4, false>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(block_128_96_##name, Product, 256, 1) {                                                               \
        multiply_block<FORMAT, 3, 4, 2, 4, 1, 4, false>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(block_64_64_##name, Product, 256, 1) {                                                                \
        multiply_block<FORMAT, 2, 8, 2, 1, 4, 3, false>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(block_32_32_##name, Product, 128, 1) {                                                                \
        multiply_block<FORMAT, 2, 4, 1, 1, 4, 4, false>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(small_32_32_##name, Product, 128, 1) {                                                                \
        multiply_block<FORMAT, 2, 4, 1, 1, 4, 2, false>(call);                                                         \
    }                                                                                                                  \
    KERNEL_AHEAD(stream_##name, Product, 256, 2) {                                                                     \
        stream_weights<FORMAT>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(cluster_##name, Product, 256, 2) {                                                               \
        multiply_in_cluster<FORMAT>(call);                                                                             \
    }
