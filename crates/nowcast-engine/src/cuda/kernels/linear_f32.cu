// Products on tensor cores: f32 as pairs of f16.
#include "linear_products.cuh"

FRAGMENT_KERNELS(f32, SPLIT)
