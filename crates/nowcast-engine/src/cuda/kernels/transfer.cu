// Small tensors between the host's memory and the device's, all in one launch: the device reaches host memory itself.
#include "plan.cuh"

#define MOST_TRANSFERS 16

struct Piece {
    const u32* from;
    u32* to;
    // Words of 32 bits.
    i64 words;
};

struct Transfer {
    Piece pieces[MOST_TRANSFERS];
};

// Grid: blocks of words, pieces.
KERNEL(transfer, Transfer, 256) {
    const Piece& piece = call.pieces[blockIdx.y];
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 index = thread_index(); index < piece.words; index += stride) piece.to[index] = piece.from[index];
}
