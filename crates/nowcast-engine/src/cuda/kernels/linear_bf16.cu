// Products on tensor cores: bf16 operands.
#include "linear_blocked.cuh"
#include "linear_ring.cuh"
#include "linear_streamed.cuh"

FRAGMENT_KERNELS(bf16, BRAIN)
RING_KERNELS(bf16, BRAIN)
