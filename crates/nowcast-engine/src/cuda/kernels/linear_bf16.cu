// Products on tensor cores: bf16 operands.
#include "linear_products.cuh"
#include "linear_ring.cuh"

FRAGMENT_KERNELS(bf16, BRAIN)
RING_KERNELS(bf16, BRAIN)
