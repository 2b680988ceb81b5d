// Attention in chunks beside products of one f16 or bf16: one f16, whose eleven bits are those of TF32.
#include "attention_kernels.cuh"

CHUNK_KERNELS(half, HALF)
PATH_KERNELS(half, HALF)
// A kernel of its own: where it could do both, registers would not last.
ROW_KERNEL(packed, HALF, true)
