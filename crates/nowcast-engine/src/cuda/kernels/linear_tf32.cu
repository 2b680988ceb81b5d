// Products on tensor cores: eleven bits of every operand, as TF32 has them.
#include "linear_blocked.cuh"
#include "linear_ring.cuh"
#include "linear_streamed.cuh"

FRAGMENT_KERNELS(tf32, HALF)
RING_KERNELS(tf32, HALF)
