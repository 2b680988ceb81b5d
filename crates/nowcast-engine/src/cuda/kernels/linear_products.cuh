// The products on tensor cores.
#pragma once

#include "attention_projected.cuh"
#include "linear_blocked.cuh"
#include "linear_clustered.cuh"
#include "linear_split_ring.cuh"
#include "linear_wide.cuh"

// Products of few rows that are operands.
#define OPERAND_KERNELS(name, FORMAT)                                                                                  \
    KERNEL_AHEAD(stream_operands_##name, Product, 256, 2) {                                                            \
        stream_operands<FORMAT>(call);                                                                                 \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(cluster_operands_##name, Product, 256, 2, CLUSTER) {                                             \
        multiply_in_cluster<FORMAT, true>(call);                                                                       \
    }

// Every kernel of one format. Blocks are named by rows of the result, then columns.
#define FRAGMENT_KERNELS(name, FORMAT)                                                                                 \
    KERNEL_AHEAD(cut_rows_##name, RowFragments, BAND_THREADS, 1) {                                                     \
        cut_rows<FORMAT, false, BAND, BAND>(call);                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(cut_grouped_rows_##name, RowFragments, BAND_THREADS, 1) {                                             \
        cut_rows<FORMAT, true, BAND, BAND>(call);                                                                      \
    }                                                                                                                  \
    KERNEL_AHEAD(cut_few_rows_##name, RowFragments, FEW_THREADS, FEW_BLOCKS_TOGETHER) {                                \
        cut_rows<FORMAT, false, BAND / 2, BAND>(call);                                                                 \
    }                                                                                                                  \
    KERNEL_AHEAD(cut_few_grouped_rows_##name, RowFragments, FEW_THREADS, FEW_BLOCKS_TOGETHER) {                        \
        cut_rows<FORMAT, true, BAND / 2, BAND>(call);                                                                  \
    }                                                                                                                  \
    KERNEL_AHEAD(cut_few_bare_rows_##name, RowFragments, FEW_THREADS, FEW_BLOCKS_TOGETHER) {                           \
        cut_rows<FORMAT, false, BAND / 4, 2 * BAND>(call);                                                             \
    }                                                                                                                  \
    KERNEL_AHEAD(cut_few_bare_grouped_rows_##name, RowFragments, FEW_THREADS, FEW_BLOCKS_TOGETHER) {                   \
        cut_rows<FORMAT, true, BAND / 4, 2 * BAND>(call);                                                              \
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
    KERNEL_AHEAD(stream_##name, Product, 256, 2) {                                                                     \
        stream_product<FORMAT>(call);                                                                                  \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(cluster_##name, Product, 256, 2, CLUSTER) {                                                      \
        multiply_in_cluster<FORMAT, false>(call);                                                                             \
    }                                                                                                                  \
    KERNEL_IN_CLUSTER(project_and_attend_##name, ProjectedAttention, 256, 2, HEAD_BANDS) {                             \
        project_and_attend<FORMAT>(call);                                                                              \
    }                                                                                                                  \
    KERNEL_AHEAD(ring_176_##name, RingProduct, RING_THREADS, 1) {                                                      \
        MULTIPLY_RING(FORMAT, 22);                                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(ring_128_##name, RingProduct, RING_THREADS, 1) {                                                      \
        MULTIPLY_RING(FORMAT, 16);                                                                                     \
    }                                                                                                                  \
    KERNEL_AHEAD(ring_96_##name, RingProduct, RING_THREADS, 1) {                                                       \
        MULTIPLY_RING(FORMAT, 12);                                                                                     \
    }                                                                                                                  \
    LIMITED_KERNEL_IN_CLUSTER(split_ring_2_##name, RingProduct, SPLIT_THREADS(FORMAT), SPLIT_REGISTERS(FORMAT, 2), 2) {\
        MULTIPLY_SPLIT_RING(FORMAT, 2);                                                                                \
    }                                                                                                                  \
    LIMITED_KERNEL_IN_CLUSTER(split_ring_4_##name, RingProduct, SPLIT_THREADS(FORMAT), SPLIT_REGISTERS(FORMAT, 4), 4) {\
        MULTIPLY_SPLIT_RING(FORMAT, 4);                                                                                \
    }
