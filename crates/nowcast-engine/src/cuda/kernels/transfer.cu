// Between the host's memory and the device's: the device reaches host memory itself.
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

// Small tensors, all in one launch. Grid: blocks of words, pieces.
KERNEL(transfer, Transfer, 256) {
    const Piece& piece = call.pieces[blockIdx.y];
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 index = thread_index(); index < piece.words; index += stride) piece.to[index] = piece.from[index];
}

struct Answer {
    const float4* from;
    // Where it goes this time stands here.
    float4* const* to;
    // Becomes 1 if a value is not finite.
    u32* not_finite;
    const Live* live;
    Rows rows;
    int width;
};

// The live rows of a large tensor. Grid: blocks of four values, which walk on.
KERNEL(send_answer, Answer, 256) {
    i64 values = (i64)count(call.rows, call.live) * call.width, stride = (i64)gridDim.x * blockDim.x;
    float4* to = *call.to;
    bool is_finite = true;
    for (i64 index = thread_index(); index < (values + 3) / 4; index += stride) {
        // The last four may reach beyond the live rows, but not out of the tensor's memory, which ends aligned.
        float4 four = call.from[index];
        const float* each = &four.x;
        for (int place = 0; place < 4; place++) is_finite &= index * 4 + place >= values || isfinite(each[place]);
        to[index] = four;
    }
    if (!is_finite) *call.not_finite = 1;
}
