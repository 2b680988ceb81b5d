// Products on tensor cores: f32 as pairs of f16.
#include "linear_held.cuh"
#include "linear_products.cuh"

FRAGMENT_KERNELS(f32, SPLIT)

KERNEL_IN_CLUSTER(cluster_held_f32, Product, 256, 2, CLUSTER) {
    multiply_held_in_cluster<false>(call);
}

KERNEL_AHEAD(stream_operands_f32, Product, 256, 2) {
    stream_operands<SPLIT>(call);
}

KERNEL_IN_CLUSTER(cluster_held_operands_f32, Product, 256, 2, CLUSTER) {
    multiply_held_in_cluster<true>(call);
}

KERNEL_AHEAD(ring_64_f32, RingProduct, RING_THREADS, 1) {
    MULTIPLY_RING(SPLIT, 8);
}
