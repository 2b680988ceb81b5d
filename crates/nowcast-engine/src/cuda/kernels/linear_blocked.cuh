// Products of many rows: blocks of the result, both operands staged through shared memory link by link.
//
// A warp owns `2 * M` bands of weights times `N` bands of rows. Warps stand `ACROSS` the weights, `DOWN` the rows, and, to
// keep more of the GPU busy where rows are few, `DEPTH` parts deep; then every part has a ring of stages of its own.
// GROUPED lets four warps together multiply by all rows of the block.
#pragma once

#include "linear_warpgroup.cuh"

struct RowFragments {
    // [rows, inputs]
    const float* input;
    // [bands, links, pieces, 32]
    uint4* fragments;
    // [rows]
    float* row_scale;
    const Live* live;
    Rows rows;
    int inputs;
    int links;
    int has_norm;
    float epsilon;
};

// Cuts rows for the products below. Grid: bands.
template <int FORMAT, bool GROUPED>
__device__ __forceinline__ void cut_rows(const RowFragments& call) {
    __shared__ BandShare share;
    i64 first = (i64)blockIdx.x * BAND;
    int rows = count(call.rows, call.live);
    if (first >= rows) return;
    rows = rows - first < BAND ? (int)(rows - first) : BAND;
    uint4* band = call.fragments + (i64)blockIdx.x * call.links * Pieces<FORMAT>::COUNT * 32;
    cut_band<FORMAT, GROUPED>(call.input + first * call.inputs, rows, call.inputs, call.links, band, &share);
    __syncthreads();
    if ((int)threadIdx.x < rows) {
        call.row_scale[first + threadIdx.x] = scale_of_row(share, threadIdx.x, 1.0 / call.inputs, call.has_norm, call.epsilon);
    }
}

// Writes the results of a block whose sums lie in shared memory, `[DEPTH, ROWS, WIDTH + 4]`. A thread keeps its column.
template <int WIDTH, int ROWS, int DEPTH, int THREADS, bool GATED>
__device__ __forceinline__ void finish_rows(const Product& call, const float* sums, int first_row, int rows, int first_band) {
    const int OUTPUTS = GATED ? WIDTH / 2 : WIDTH, STRIDE = WIDTH + 4, STEP = THREADS / OUTPUTS, TOGETHER = 4;
    int column = threadIdx.x % OUTPUTS, start = threadIdx.x / OUTPUTS;
    // A gate's band stands before that of its values.
    int low = GATED ? column / BAND * 2 * BAND + column % BAND : column, high = GATED ? low + BAND : low;
    int band = first_band + low / BAND;
    if (start >= STEP || band >= call.end_band) return;
    ColumnPair columns = load_columns(call, band, band + high / BAND - low / BAND, column % BAND);
    int output = (GATED ? band / 2 : band) * BAND + column % BAND;
#pragma unroll 1
    for (; start < rows; start += STEP * TOGETHER) {
        // Loads of some rows are on their way together.
        float scales[TOGETHER], residuals[TOGETHER];
        i64 places[TOGETHER];
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            int row = start + next * STEP;
            bool inside = row < rows;
            scales[next] = call.row_scale[first_row + (inside ? row : 0)];
            places[next] = inside ? place_of_result(call, first_row + row, output) : -1;
            residuals[next] = residual_at(call, places[next]);
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            const float* row = sums + (start + next * STEP < rows ? start + next * STEP : 0) * STRIDE;
            float low_sum = row[low], high_sum = row[high];
#pragma unroll
            for (int depth = 1; depth < DEPTH; depth++) {
                low_sum += row[depth * ROWS * STRIDE + low];
                high_sum += row[depth * ROWS * STRIDE + high];
            }
            float result = low_sum * columns.scale_low * scales[next] + columns.bias_low;
            if (GATED) {
                result = sigmoid_linear_unit(result) * (high_sum * columns.scale_high * scales[next] + columns.bias_high);
            }
            write_result(call, places[next], result, residuals[next]);
        }
    }
}

// Grid: blocks of rows, blocks of weights.
template <int FORMAT, int M, int N, int ACROSS, int DOWN, int DEPTH, int STAGES, bool GROUPED>
__device__ __forceinline__ void multiply_block(const Product& call) {
    const int PIECES = Pieces<FORMAT>::COUNT, LINK_SIZE = PIECES * 32;
    const int GROUP = 32 * ACROSS * DOWN, THREADS = GROUP * DEPTH;
    const int WEIGHT_BANDS = 2 * M * ACROSS, ROW_BANDS = N * DOWN, BANDS = WEIGHT_BANDS + ROW_BANDS;
    const int COPIES = (BANDS * LINK_SIZE + GROUP - 1) / GROUP;
    SHARED_MEMORY(memory);
    int rows = count(call.rows, call.live);
    int first_row_band = blockIdx.x * ROW_BANDS, last_row_band = (rows - 1) / BAND;
    if (rows == 0 || first_row_band > last_row_band) return wait_for_previous();
    int first_band = call.first_band + blockIdx.y * WEIGHT_BANDS;
    int depth = threadIdx.x / GROUP, member = threadIdx.x % GROUP, lane = threadIdx.x % 32;
    int across = member / 32 % ACROSS, down = member / 32 / ACROSS;
    uint4* ring = reinterpret_cast<uint4*>(memory) + depth * STAGES * BANDS * LINK_SIZE;

    // Links of this group of warps; all groups go through the loop equally often.
    int first_link = DEPTH == 1 ? 0 : part_start(depth, call.links);
    int end_link = DEPTH == 1 ? call.links : part_start(depth + 1, call.links);
    int turns = DEPTH == 1 ? call.links : (call.links + PARTS - 1) / PARTS;

    // Copies of one link; weights need not wait for the kernel before.
    auto copy = [&](int link, bool weights, bool values) {
        if (link >= end_link) return;
        uint4* stage = ring + (link - first_link) % STAGES * BANDS * LINK_SIZE;
#pragma unroll
        for (int index = 0; index < COPIES; index++) {
            int place = member + index * GROUP, band = place / LINK_SIZE, offset = place % LINK_SIZE;
            if (BANDS * LINK_SIZE % GROUP != 0 && band >= BANDS) break;
            if (band < WEIGHT_BANDS ? !weights : !values) continue;
            // Where the block hangs over, the last band stands in, and nothing is written.
            const uint4* from;
            if (band < WEIGHT_BANDS) {
                int source = first_band + band < call.end_band ? first_band + band : call.end_band - 1;
                from = call.weight + ((i64)source * call.links + link) * LINK_SIZE;
            } else {
                int source = first_row_band + band - WEIGHT_BANDS;
                source = source < last_row_band ? source : last_row_band;
                from = call.row_fragments + ((i64)source * call.links + link) * LINK_SIZE;
            }
            copy_ahead(stage + place, from + offset);
        }
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) copy(first_link + stage, true, false);
    wait_for_previous();
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        copy(first_link + stage, false, true);
        end_copies();
    }

    float totals[M][N][4], chains[M][N][4];
    auto clear = [](float(&sums)[M][N][4]) {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int n = 0; n < N; n++) sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0.0f;
        }
    };
    auto add_to = [](float(&sums)[M][N][4], const float(&other)[M][N][4]) {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int n = 0; n < N; n++) {
#pragma unroll
                for (int part = 0; part < 4; part++) sums[m][n][part] += other[m][n][part];
            }
        }
    };
    // The sum of the parts so far waits in shared memory where one warp goes through all of them.
    float* parked = memory + STAGES * BANDS * LINK_SIZE * 4 + threadIdx.x;
    int part = 0;
    clear(totals);
    for (int turn = 0; turn < turns; turn++) {
        wait_for_copies<STAGES - 2>();
        if (GROUPED) publish_copies();
        __syncthreads();
        copy(first_link + turn + STAGES - 1, true, true);
        end_copies();
        int link = first_link + turn;
        if (link >= end_link) continue;
        const uint4* weights = ring + turn % STAGES * BANDS * LINK_SIZE + across * 2 * M * LINK_SIZE + lane;
        const uint4* values = ring + turn % STAGES * BANDS * LINK_SIZE + (WEIGHT_BANDS + down * N) * LINK_SIZE + lane;
        if constexpr (GROUPED) {
            uint4 left[PIECES][2];
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                left[piece][0] = weights[piece * 32];
                left[piece][1] = weights[LINK_SIZE + piece * 32];
            }
            multiply_in_groups<FORMAT, N>(chains[0], left, ring + turn % STAGES * BANDS * LINK_SIZE + WEIGHT_BANDS * LINK_SIZE);
        } else {
            clear(chains);
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                uint4 left[2 * M], right[N];
#pragma unroll
                for (int m = 0; m < 2 * M; m++) left[m] = weights[m * LINK_SIZE + piece * 32];
#pragma unroll
                for (int n = 0; n < N; n++) right[n] = values[n * LINK_SIZE + piece * 32];
#pragma unroll
                for (int round = 0; round < Pieces<FORMAT>::ROUNDS; round++) {
#pragma unroll
                    for (int m = 0; m < M; m++) {
#pragma unroll
                        for (int n = 0; n < N; n++) {
                            multiply_round<FORMAT>(round, chains[m][n], left[2 * m], left[2 * m + 1], right[n]);
                        }
                    }
                }
            }
        }
        add_to(totals, chains);
        if (DEPTH == 1 && link + 1 == part_start(part + 1, call.links) && part + 1 < PARTS) {
#pragma unroll
            for (int index = 0; index < M * N * 4; index++) {
                float* sum = &totals[index / 4 / N][index / 4 % N][index % 4];
                parked[index * THREADS] = part == 0 ? *sum : parked[index * THREADS] + *sum;
                *sum = 0.0f;
            }
            part++;
        }
    }
    if (DEPTH == 1 && part > 0) {
#pragma unroll
        for (int index = 0; index < M * N * 4; index++) {
            float* sum = &totals[index / 4 / N][index / 4 % N][index % 4];
            *sum = parked[index * THREADS] + *sum;
        }
    }
    // The sums of the block meet in shared memory, where results are finished row by row.
    const int WIDTH = WEIGHT_BANDS * BAND, STRIDE = WIDTH + 4, ROWS = ROW_BANDS * BAND;
    wait_for_copies<0>();
    __syncthreads();
    float* tile = memory + depth * ROWS * STRIDE;
#pragma unroll
    for (int index = 0; index < M * N * 4; index++) {
        int m = index / 4 / N, n = index / 4 % N, which = index % 4;
        int row = (down * N + n) * BAND + lane % 4 * 2 + which % 2;
        int column = ((across * M + m) * 2 + which / 2) * BAND + lane / 4;
        tile[row * STRIDE + column] = totals[m][n][which];
    }
    __syncthreads();
    int first_row = first_row_band * BAND, block_rows = rows - first_row < ROWS ? rows - first_row : ROWS;
    if (call.gated) {
        finish_rows<WIDTH, ROWS, DEPTH, THREADS, true>(call, memory, first_row, block_rows, first_band);
    } else {
        finish_rows<WIDTH, ROWS, DEPTH, THREADS, false>(call, memory, first_row, block_rows, first_band);
    }
}
