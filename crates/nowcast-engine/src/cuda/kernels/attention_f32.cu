// Attention in chunks: f32 as pairs of f16.
#include "attention_kernels.cuh"

CHUNK_KERNELS(f32, SPLIT)
PATH_KERNELS(f32, SPLIT)
