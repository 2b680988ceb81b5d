// Products of few rows, bound by the memory that delivers the weights: every thread streams one block of one column.
//
// Threads are [blocks of the depth, columns]; the weights a thread needs first are on their way before the rows are
// there. Behind them stand 16 threads for each row that compute its norm meanwhile.
#include "linear.cuh"

// LANES: pairs of columns of a thread block. AHEAD: weights in flight, in groups of four inputs.
template <int ROWS, int LANES, int AHEAD>
__device__ __forceinline__ void skinny(const Linear& call) {
    SHARED_MEMORY(memory);
    // Rows on their way at once; registers are short where blocks are wide.
    const int TOGETHER = LANES == 8 && ROWS > 4 ? 4 : ROWS;
    // Rows are staged with a gap behind every block, so that neighbouring blocks lie in other banks.
    int blocks = call.padded >> call.depth_shift;
    int block_stride = call.depth + 4;
    int row_stride = blocks * block_stride;
    int sums_size = blocks * ROWS * 2 * LANES;
    int staged = ROWS * row_stride > sums_size ? ROWS * row_stride : sums_size;
    double* parts = reinterpret_cast<double*>(memory + staged);
    double* scales = parts + ROWS * 16;
    float* totals = reinterpret_cast<float*>(scales + ROWS);

    int panel = call.first_panel + blockIdx.x / (HALF_PANEL / LANES);
    int first_lane = (blockIdx.x % (HALF_PANEL / LANES)) * LANES;
    int workers = blocks * 2 * LANES;
    int column = threadIdx.x % (2 * LANES), block = threadIdx.x / (2 * LANES);
    bool works = (int)threadIdx.x < workers;
    int groups = call.depth / 4;
    const float4* weight = reinterpret_cast<const float4*>(call.weight) +
                           ((i64)panel * (call.padded / 4) + (i64)(works ? block : 0) * groups) * PANEL + first_lane +
                           (column < LANES ? column : column - LANES + HALF_PANEL);

    float4 ahead[AHEAD];
    if (works) {
#pragma unroll
        for (int group = 0; group < AHEAD; group++) {
            if (group >= groups) break;
            ahead[group] = weight[group * PANEL];
        }
    }
    // The first threads finish one pair of columns of one row each.
    int pair_row = threadIdx.x / LANES, pair_lane = threadIdx.x % LANES;
    bool finishes = pair_row < ROWS;
    Addends addends;
    // For the same reason addends are loaded at the end there.
    const bool early = LANES == 4;
    if (early && finishes) load_bias(call, panel, first_lane + pair_lane, &addends);
    fetch_ahead(call.next, call.next_bytes);
    int live_rows = count(call.rows, call.live);
    wait_for_previous();
    for (int first = 0; first < live_rows; first += ROWS) {
        if (first > 0 && works) {
#pragma unroll
            for (int group = 0; group < AHEAD; group++) {
                if (group >= groups) break;
                ahead[group] = weight[group * PANEL];
            }
        }
        int rows = live_rows - first < ROWS ? live_rows - first : ROWS;
        for (int input = 4 * threadIdx.x; input < call.padded; input += 4 * blockDim.x) {
            float* place = memory + (input >> call.depth_shift) * block_stride + (input & (call.depth - 1));
#pragma unroll
            for (int part = 0; part < ROWS; part += TOGETHER) {
                float4 four[TOGETHER];
#pragma unroll
                for (int row = 0; row < TOGETHER; row++) {
                    four[row] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (part + row < rows) {
                        four[row] = four_inputs(call.input + (i64)(first + part + row) * call.inputs, input, call.inputs);
                    }
                }
#pragma unroll
                for (int row = 0; row < TOGETHER; row++) {
                    *reinterpret_cast<float4*>(place + (part + row) * row_stride) = four[row];
                }
            }
        }
        if (early && finishes && pair_row < rows) {
            load_residual(call, first + pair_row, panel, first_lane + pair_lane, &addends);
        }
        __syncthreads();

        float chains[ROWS];
#pragma unroll
        for (int row = 0; row < ROWS; row++) chains[row] = 0.0f;
        if (works) {
            const float* values = memory + block * block_stride;
            for (int start = 0; start < groups; start += AHEAD) {
                float4 now[AHEAD];
#pragma unroll
                for (int group = 0; group < AHEAD; group++) {
                    now[group] = ahead[group];
                    if (start + AHEAD + group < groups) ahead[group] = weight[(start + AHEAD + group) * PANEL];
                }
#pragma unroll
                for (int group = 0; group < AHEAD; group++) {
                    if (start + group >= groups) break;
                    float4 w = now[group];
#pragma unroll
                    for (int row = 0; row < ROWS; row++) {
                        float4 x = *reinterpret_cast<const float4*>(values + row * row_stride + 4 * (start + group));
                        chains[row] = fmaf(x.x, w.x, chains[row]);
                        chains[row] = fmaf(x.y, w.y, chains[row]);
                        chains[row] = fmaf(x.z, w.z, chains[row]);
                        chains[row] = fmaf(x.w, w.w, chains[row]);
                    }
                }
            }
        } else if (call.has_norm) {
            for (int task = threadIdx.x - workers; task < ROWS * 16; task += blockDim.x - workers) {
                const float* row = memory + task / 16 * row_stride;
                double sum = 0.0;
#pragma unroll 8
                for (int index = task % 16; index < call.inputs; index += 16) {
                    double value = row[(index >> call.depth_shift) * block_stride + (index & (call.depth - 1))];
                    sum = fma(value, value, sum);
                }
                parts[task] = sum;
            }
        }
        __syncthreads();

        // The sums of the blocks take the place of the rows.
        if (works) {
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                memory[(block * ROWS + row) * 2 * LANES + column] = chains[row];
            }
        }
        if (call.has_norm && threadIdx.x >= blockDim.x - ROWS) {
            int row = threadIdx.x - (blockDim.x - ROWS);
            scales[row] = inverse_root_mean_square(parts + row * 16, call.inputs, call.epsilon);
        }
        __syncthreads();
        for (int place = threadIdx.x; place < ROWS * 2 * LANES; place += blockDim.x) {
            float sum = memory[place];
#pragma unroll 8
            for (int index = 1; index < blocks; index++) sum += memory[index * ROWS * 2 * LANES + place];
            totals[place] = sum;
        }
        __syncthreads();
        if (finishes && pair_row < rows) {
            const float* sums = totals + pair_row * 2 * LANES + pair_lane;
            float scale = call.has_norm ? (float)scales[pair_row] : 1.0f;
            int at = first_lane + pair_lane;
            if (early) {
                finish_pair(call, first + pair_row, panel, at, addends, sums[0], sums[LANES], scale);
            } else {
                finish_pair_at(call, first + pair_row, panel, at, sums[0], sums[LANES], scale);
            }
        }
        __syncthreads();
    }
}

KERNEL_AHEAD(linear_skinny_1_4, Linear, 512, 1) {
    skinny<1, 4, 8>(call);
}
KERNEL_AHEAD(linear_skinny_4_4, Linear, 512, 1) {
    skinny<4, 4, 8>(call);
}
KERNEL_AHEAD(linear_skinny_8_4, Linear, 512, 1) {
    skinny<8, 4, 8>(call);
}
KERNEL_AHEAD(linear_skinny_1_8, Linear, 320, 3) {
    skinny<1, 8, 4>(call);
}
KERNEL_AHEAD(linear_skinny_4_8, Linear, 320, 3) {
    skinny<4, 8, 4>(call);
}
KERNEL_AHEAD(linear_skinny_8_8, Linear, 320, 3) {
    skinny<8, 8, 4>(call);
}
