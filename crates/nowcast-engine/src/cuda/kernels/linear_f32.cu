// Products on tensor cores: f32 as pairs of f16.
#include "linear_blocked.cuh"
#include "linear_ring.cuh"
#include "linear_streamed.cuh"

FRAGMENT_KERNELS(f32, SPLIT)
RING_KERNELS(f32, SPLIT)
