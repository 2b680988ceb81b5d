// Products on tensor cores: f32 as pairs of f16.
#include "linear_products.cuh"
#include "linear_ring.cuh"

FRAGMENT_KERNELS(f32, SPLIT)
RING_KERNELS(f32, SPLIT)
