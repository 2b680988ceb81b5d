// Products on tensor cores: bf16 operands.
#include "linear_products.cuh"

FRAGMENT_KERNELS(bf16, BRAIN)

KERNEL_AHEAD(stream_operands_bf16, Product, 256, 2) {
    stream_operands<BRAIN>(call);
}

KERNEL_IN_CLUSTER(cluster_operands_bf16, Product, 256, 2, CLUSTER) {
    multiply_in_cluster<BRAIN, true>(call);
}
