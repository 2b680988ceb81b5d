// Products of some hundred rows: tiles of 32 rows and one panel, small enough to fill the GPU. Four groups of threads
// share the depth, a block of it each; the sums of the blocks are added in order, so the split changes no digit.
#include "linear.cuh"

#define TILE_ROWS 32
#define GROUPS 4
#define GROUP_THREADS 64
// Inputs that are staged at once for each group.
#define STEP 16
#define QUADS (STEP / 4)
#define ROW_STRIDE (STEP + 4)

struct Staged {
    float4 weights[QUADS][PANEL];
    float4 values[TILE_ROWS][ROW_STRIDE / 4];
};

// Grid: blocks of 32 rows, panels. A thread owns 4 rows and the columns 8 apart from its lane on.
KERNEL(linear_split, Linear, GROUPS * GROUP_THREADS) {
    SHARED_MEMORY(memory);
    // Two buffers of each group; the sums of a round reuse them.
    Staged* staged = reinterpret_cast<Staged*>(memory);
    float* sums = memory;
    i64 rows = count(call.rows, call.live);
    i64 first = (i64)blockIdx.x * TILE_ROWS;
    if (first >= rows) return;
    int panel = call.first_panel + blockIdx.y;
    int group = threadIdx.x / GROUP_THREADS, member = threadIdx.x % GROUP_THREADS;
    int lane = member % 8, band = member / 8;
    int blocks = call.padded >> call.depth_shift;
    const float4* weight = reinterpret_cast<const float4*>(call.weight) + (i64)panel * (call.padded / 4) * PANEL;

    float4 next_weights[QUADS * PANEL / GROUP_THREADS], next_values[TILE_ROWS * QUADS / GROUP_THREADS];
    auto fetch = [&](int start) {
#pragma unroll
        for (int part = 0; part < QUADS * PANEL / GROUP_THREADS; part++) {
            int index = member + part * GROUP_THREADS;
            next_weights[part] = weight[(i64)(start / 4) * PANEL + index];
        }
#pragma unroll
        for (int part = 0; part < TILE_ROWS * QUADS / GROUP_THREADS; part++) {
            int index = member + part * GROUP_THREADS;
            i64 row = first + index / QUADS;
            next_values[part] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (row < rows) {
                next_values[part] = four_inputs(call.input + row * call.inputs, start + index % QUADS * 4, call.inputs);
            }
        }
    };
    auto store = [&](Staged* to) {
#pragma unroll
        for (int part = 0; part < QUADS * PANEL / GROUP_THREADS; part++) {
            int index = member + part * GROUP_THREADS;
            to->weights[index / PANEL][index % PANEL] = next_weights[part];
        }
#pragma unroll
        for (int part = 0; part < TILE_ROWS * QUADS / GROUP_THREADS; part++) {
            int index = member + part * GROUP_THREADS;
            to->values[index / QUADS][index % QUADS] = next_values[part];
        }
    };

    // Every thread adds up the blocks of four outputs of the tile.
    float totals[4];
    for (int round = 0; round * GROUPS < blocks; round++) {
        int block = round * GROUPS + group;
        bool works = block < blocks;
        float chains[4][4];
#pragma unroll
        for (int row = 0; row < 4; row++) {
#pragma unroll
            for (int column = 0; column < 4; column++) chains[row][column] = 0.0f;
        }
        int start = block * call.depth;
        if (works) {
            fetch(start);
            store(staged + 2 * group);
        }
        __syncthreads();
        for (int step = 0; step < call.depth; step += STEP) {
            bool more = works && step + STEP < call.depth;
            if (more) fetch(start + step + STEP);
            const Staged& now = staged[2 * group + (step / STEP) % 2];
            if (works) {
#pragma unroll
                for (int quad = 0; quad < QUADS; quad++) {
                    float4 columns[4], x[4];
#pragma unroll
                    for (int column = 0; column < 4; column++) columns[column] = now.weights[quad][lane + 8 * column];
#pragma unroll
                    for (int row = 0; row < 4; row++) x[row] = now.values[band + 8 * row][quad];
#pragma unroll
                    for (int row = 0; row < 4; row++) {
#pragma unroll
                        for (int column = 0; column < 4; column++) {
                            float chain = chains[row][column];
                            chain = fmaf(x[row].x, columns[column].x, chain);
                            chain = fmaf(x[row].y, columns[column].y, chain);
                            chain = fmaf(x[row].z, columns[column].z, chain);
                            chains[row][column] = fmaf(x[row].w, columns[column].w, chain);
                        }
                    }
                }
            }
            if (more) store(staged + 2 * group + (step / STEP + 1) % 2);
            __syncthreads();
        }
        if (works) {
#pragma unroll
            for (int row = 0; row < 4; row++) {
#pragma unroll
                for (int column = 0; column < 4; column++) {
                    sums[(group * TILE_ROWS + band + 8 * row) * PANEL + lane + 8 * column] = chains[row][column];
                }
            }
        }
        __syncthreads();
        int live_groups = blocks - round * GROUPS < GROUPS ? blocks - round * GROUPS : GROUPS;
#pragma unroll
        for (int part = 0; part < 4; part++) {
            int place = part * GROUPS * GROUP_THREADS + threadIdx.x;
            for (int other = 0; other < live_groups; other++) {
                float sum = sums[other * TILE_ROWS * PANEL + place];
                totals[part] = round == 0 && other == 0 ? sum : totals[part] + sum;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int part = 0; part < 4; part++) sums[part * GROUPS * GROUP_THREADS + threadIdx.x] = totals[part];
    __syncthreads();
    for (int pair = threadIdx.x; pair < TILE_ROWS * HALF_PANEL; pair += GROUPS * GROUP_THREADS) {
        int row = pair / HALF_PANEL, column = pair % HALF_PANEL;
        if (first + row >= rows) continue;
        const float* both = sums + row * PANEL + column;
        float scale = call.has_norm ? (float)call.row_scale[first + row] : 1.0f;
        finish_pair_at(call, first + row, panel, column, both[0], both[HALF_PANEL], scale);
    }
}
