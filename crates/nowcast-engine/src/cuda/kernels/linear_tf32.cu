// Products on tensor cores: eleven bits of every operand, as TF32 has them.
#include "linear_products.cuh"

FRAGMENT_KERNELS(tf32, HALF)
OPERAND_KERNELS(tf32, HALF)
