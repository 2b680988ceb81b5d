// How components of a head are rotated.
#pragma once

// Components of a pair.
__device__ inline void pair_of(int pair, int head_dim, int interleaved, int* a, int* b) {
    *a = interleaved ? 2 * pair : pair;
    *b = interleaved ? 2 * pair + 1 : pair + head_dim / 2;
}
