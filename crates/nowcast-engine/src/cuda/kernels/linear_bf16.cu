// Products on tensor cores: bf16 operands.
#include "linear_products.cuh"

FRAGMENT_KERNELS(bf16, BRAIN)
OPERAND_KERNELS(bf16, BRAIN)
