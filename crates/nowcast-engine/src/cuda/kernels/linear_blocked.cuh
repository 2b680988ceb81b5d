// Products of many rows: blocks of the result, both operands staged through shared memory link by link.
//
// A warp owns `2 * M` bands of weights times `N` bands of rows. Warps stand `ACROSS` the weights, `DOWN` the rows, and, to
// keep more of the GPU busy where rows are few, `DEPTH` parts deep; then every part has a ring of stages of its own.
#pragma once

#include "linear_cut.cuh"

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
    // As `Product` has them.
    float row_factor;
    float row_unit;
};

// Cuts rows for the products below. Grid: groups of `ROWS` rows, a band or, so that few rows find many multiprocessors, a
// part of one. Rows with a norm are cut by eight groups.
template <int FORMAT, bool GROUPED, int ROWS, int GROUPS>
__device__ __forceinline__ void cut_rows(const RowFragments& call) {
    typedef BandCutter<FORMAT, GROUPED, ROWS, GROUPS> Cutter;
    __shared__ BandShare share;
    i64 first = (i64)blockIdx.x * ROWS;
    int rows = count(call.rows, call.live);
    if (first >= rows) return wait_for_previous();
    rows = rows - first < ROWS ? (int)(rows - first) : ROWS;
    uint4* band = call.fragments + first / BAND * call.links * Pieces<FORMAT>::COUNT * 32;
    Cutter cutter(call.input + first * call.inputs, rows, (int)(first % BAND), call.inputs, call.links, band, &share);
    double inverse_inputs = 1.0 / call.inputs;
    known_now(inverse_inputs);
    // Blocks of few rows begin long before these are there, and instructions take long to come: they go through the same for
    // no rows first.
#pragma unroll 1
    for (int pass = ROWS < BAND ? 0 : 1; pass < 2; pass++) {
        bool is_wanted = pass == 1;
        if (is_wanted) wait_for_previous();
        cutter.begin(is_wanted, call.row_factor);
        cutter.cut_all(call.links);
        __syncthreads();
        if ((int)threadIdx.x < rows) {
            int has_norm = Cutter::HAS_SQUARES && call.has_norm;
            float scale = call.row_unit;
            if (call.row_factor == 0.0f) {
                scale = scale_of_row<FORMAT, Cutter::WARPS>(share, threadIdx.x, inverse_inputs, has_norm, call.epsilon);
            }
            store_if(is_wanted, call.row_scale + first + threadIdx.x, scale);
        }
        // Nobody writes anew what others still read.
        if (!is_wanted) __syncthreads();
    }
}

// Where the sums of a block lie in shared memory, `[rows, WIDTH + 4]` in each of `DEPTH` places, and which results they are.
template <int DEPTH>
struct Sums {
    const float* places[DEPTH];
    const float* row_scales;
    int first_row, rows, first_band;
};

// Who finishes sums: rows of `WIDTH` of them are shared out among `THREADS`. If `IS_LAST`, nothing else needs registers, and
// a thread finishes as many rows together as it has, of four columns up to six.
template <int ALL_ROWS, int ALL_WIDTH, int ALL_THREADS, bool IS_LAST_WORK>
struct Finishing {
    static const int ROWS = ALL_ROWS, WIDTH = ALL_WIDTH, THREADS = ALL_THREADS;
    static const bool IS_LAST = IS_LAST_WORK;
};

// Results of `COUNT` neighbouring columns of each row, one or four, that are loaded and written together; a thread keeps its
// columns. What does not depend on the sums is on its way when they `meet()`.
template <int FORMAT, typename Finishing, int DEPTH, bool GATED, int COUNT, typename Meet>
__device__ __forceinline__ void finish_columns(const Product& call, const Sums<DEPTH>& sums, Meet meet) {
    const int WIDTH = Finishing::WIDTH, OUTPUTS = GATED ? WIDTH / 2 : WIDTH, STRIDE = WIDTH + 4;
    const int THREADS_OF_ROW = OUTPUTS / COUNT, STEP = Finishing::THREADS / THREADS_OF_ROW;
    const int EACH = (Finishing::ROWS + STEP - 1) / STEP, SOME = COUNT == 1 && !GATED ? 16 : 8 / COUNT;
    const int TOGETHER = COUNT == 1 || !Finishing::IS_LAST ? SOME : EACH < 6 ? EACH : 6;
    struct alignas(4 * COUNT) Columns {
        float at[COUNT];
    };
    auto columns_at = [](const float* from) { return *reinterpret_cast<const Columns*>(from); };
    int column = threadIdx.x % THREADS_OF_ROW * COUNT, start = threadIdx.x / THREADS_OF_ROW;
    // A gate's band stands before that of its values.
    int low = GATED ? column / BAND * 2 * BAND + column % BAND : column;
    int band = sums.first_band + low / BAND, place_in_band = band * BAND + column % BAND;
    int output = (GATED ? band / 2 : band) * BAND + column % BAND - call.first_column;
    // Who has no columns meets the others, in the same place: barriers of a cluster want whole warps.
    bool has_columns = start < STEP && band < call.end_band && output >= 0 && output < call.columns;
    int end = has_columns ? sums.rows : 0;
    if (!has_columns) place_in_band = 0;
    Columns scale_low = columns_at(call.column_scale + place_in_band), bias_low = columns_at(call.bias + place_in_band);
    Columns scale_high = scale_low, bias_high = bias_low;
    if (GATED) scale_high = columns_at(call.column_scale + place_in_band + BAND), bias_high = columns_at(call.bias + place_in_band + BAND);
    const float* scales = sums.row_scales + start;
    int from = start * STRIDE + low;
    i64 place = (i64)(sums.first_row + start) * call.columns + output, step = (i64)STEP * call.columns;
    float* to = call.output + place;
    const float* residual = call.residual ? call.residual + place : nullptr;
    // Some rows together, step by step, so that none waits for another.
    bool inside[TOGETHER];
    Columns residuals[TOGETHER];
    auto ask = [&] {
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            inside[next] = start + next * STEP < end;
            residuals[next] = inside[next] && residual ? columns_at(residual + next * step) : Columns{};
        }
    };
    ask();
    __syncwarp();
    meet();
#pragma unroll 1
    while (start < end) {
        float scale[TOGETHER], lows[TOGETHER * COUNT], highs[TOGETHER * COUNT];
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            scale[next] = inside[next] ? scales[next * STEP] : 0.0f;
            int here = from + (inside[next] ? next * STEP * STRIDE : 0);
#pragma unroll
            for (int depth = 0; depth < DEPTH; depth++) {
                Columns some = columns_at(sums.places[depth] + here), others = some;
                if (GATED) others = columns_at(sums.places[depth] + here + BAND);
#pragma unroll
                for (int each = 0; each < COUNT; each++) {
                    float &one = lows[next * COUNT + each], &other = highs[next * COUNT + each];
                    one = depth == 0 ? some.at[each] : one + some.at[each];
                    other = depth == 0 ? others.at[each] : other + others.at[each];
                }
            }
        }
#pragma unroll
        for (int index = 0; index < TOGETHER * COUNT; index++) {
            int each = index % COUNT;
            // The column's scale first: a row's may be too large for the bare sum.
            lows[index] = lows[index] * scale_low.at[each] * scale[index / COUNT] + bias_low.at[each];
            if (GATED) highs[index] = highs[index] * scale_high.at[each] * scale[index / COUNT] + bias_high.at[each];
        }
        if (GATED && FORMAT == SPLIT) sigmoid_linear_units<TOGETHER * COUNT>(lows);
#pragma unroll
        for (int index = 0; index < TOGETHER * COUNT && GATED && FORMAT != SPLIT; index++) {
            lows[index] = sigmoid_unit<FORMAT>(lows[index]);
        }
#pragma unroll
        for (int next = 0; next < TOGETHER; next++) {
            Columns results;
#pragma unroll
            for (int each = 0; each < COUNT; each++) {
                float result = lows[next * COUNT + each];
                if (GATED) result *= highs[next * COUNT + each];
                results.at[each] = residual ? result + residuals[next].at[each] : result;
            }
            if (inside[next]) *reinterpret_cast<Columns*>(to + next * step) = results;
        }
        start += STEP * TOGETHER;
        from += STEP * TOGETHER * STRIDE, scales += STEP * TOGETHER, to += TOGETHER * step;
        if (residual) residual += TOGETHER * step;
        if (start < end) ask();
    }
}

// Turns the sums of a block into its results, `MOST` columns at a time where columns allow. All threads `meet()` once: the
// sums are there then.
template <int FORMAT, typename Finishing, int MOST, int DEPTH, typename Meet>
__device__ __forceinline__ void finish_rows(const Product& call, const Sums<DEPTH>& sums, Meet meet) {
    bool together = call.columns % MOST == 0 && call.first_column % MOST == 0;
    if (call.gated && together) {
        finish_columns<FORMAT, Finishing, DEPTH, true, MOST>(call, sums, meet);
    } else if (call.gated) {
        finish_columns<FORMAT, Finishing, DEPTH, true, 1>(call, sums, meet);
    } else if (together) {
        finish_columns<FORMAT, Finishing, DEPTH, false, MOST>(call, sums, meet);
    } else {
        finish_columns<FORMAT, Finishing, DEPTH, false, 1>(call, sums, meet);
    }
}

// Grid: blocks of rows, blocks of weights.
template <int FORMAT, int M, int N, int ACROSS, int DOWN, int DEPTH, int STAGES>
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
    int first_link = DEPTH == 1 ? 0 : part_start<FORMAT>(depth, call.links);
    int end_link = DEPTH == 1 ? call.links : part_start<FORMAT>(depth + 1, call.links);
    int turns = DEPTH == 1 ? call.links : most_links_of_part<FORMAT>(call.links);

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
    const int CHAIN = Pieces<FORMAT>::CHAIN;
    bool has_parked = false;
    int part = depth, part_end = part_start<FORMAT>(part + 1, call.links);
    // Parts of few links may be empty, the last one never is.
    auto skip_to = [&](int link) {
        while (part_end <= link && part + 1 < PARTS) part++, part_end = part_start<FORMAT>(part + 1, call.links);
    };
    if (DEPTH == 1) skip_to(0);
    int chain_end = first_link + CHAIN < part_end ? first_link + CHAIN : part_end;
    clear(totals);
    clear(chains);
    for (int turn = 0; turn < turns; turn++) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        copy(first_link + turn + STAGES - 1, true, true);
        end_copies();
        int link = first_link + turn;
        if (link >= end_link) continue;
        const uint4* weights = ring + turn % STAGES * BANDS * LINK_SIZE + across * 2 * M * LINK_SIZE + lane;
        const uint4* values = ring + turn % STAGES * BANDS * LINK_SIZE + (WEIGHT_BANDS + down * N) * LINK_SIZE + lane;
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
        if (CHAIN > 1 && link + 1 < chain_end) continue;
        add_to(totals, chains);
        clear(chains);
        if (DEPTH == 1 && link + 1 == part_end && part + 1 < PARTS) {
#pragma unroll
            for (int index = 0; index < M * N * 4; index++) {
                float* sum = &totals[index / 4 / N][index / 4 % N][index % 4];
                parked[index * THREADS] = has_parked ? parked[index * THREADS] + *sum : *sum;
                *sum = 0.0f;
            }
            has_parked = true;
            skip_to(link + 1);
        }
        chain_end = link + 1 + CHAIN < part_end ? link + 1 + CHAIN : part_end;
    }
    if (has_parked) {
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
    int first_row = first_row_band * BAND, block_rows = rows - first_row < ROWS ? rows - first_row : ROWS;
    Sums<DEPTH> sums = {{}, call.row_scale + first_row, first_row, block_rows, first_band};
#pragma unroll
    for (int index = 0; index < DEPTH; index++) sums.places[index] = memory + index * ROWS * STRIDE;
    finish_rows<FORMAT, Finishing<ROWS, WIDTH, THREADS, true>, 4>(call, sums, [] { __syncthreads(); });
}
