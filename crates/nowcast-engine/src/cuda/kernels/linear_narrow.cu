// Products of few inputs (up to 128), each sum one chain over all of them. In f64 up to the result it is off by one rounding
// however the inputs cancel; f32 is enough beside products of tf32 and bf16, which round their operands by far more.
#include "linear.cuh"

#define ROWS 16

__device__ inline void write_wide(const Linear& call, i64 row, int column, double value) {
    column -= call.first_column;
    if (column < 0 || column >= call.columns) return;
    i64 at = row * call.columns + column;
    call.output[at] = (float)(call.residual ? (double)call.residual[at] + value : value);
}

// The results of a lane: the columns of both halves of a panel.
__device__ inline void write_pair(const Linear& call, i64 row, int panel, int lane, double low, double high, double scale) {
    const float* bias = call.bias + panel * PANEL;
    low = low * scale + (double)bias[lane];
    high = high * scale + (double)bias[lane + HALF_PANEL];
    if (call.gated) {
        write_wide(call, row, panel * HALF_PANEL + lane, low / (1.0 + exponential(-low)) * high);
    } else {
        write_wide(call, row, panel * PANEL + lane, low);
        write_wide(call, row, panel * PANEL + lane + HALF_PANEL, high);
    }
}

// What a block of so many rows has in shared memory, and which rows and which panel it does.
template <int BLOCK_ROWS>
struct NarrowBlock {
    // [rows, stride] values, then [rows, 16] partial sums and scales in f64, then the panel.
    double *parts, *scales;
    u64* arrived;
    float4* weight;
    i64 first;
    int live_rows, panel;

    // Sends for the panel and waits for the kernel before. Whether the block has rows.
    __device__ __forceinline__ bool begin(const Linear& call, float* memory, int stride) {
        parts = reinterpret_cast<double*>(memory + BLOCK_ROWS * stride), scales = parts + BLOCK_ROWS * 16;
        arrived = reinterpret_cast<u64*>(scales + BLOCK_ROWS), weight = reinterpret_cast<float4*>(arrived + 2);
        i64 rows = count(call.rows, call.live);
        first = (i64)blockIdx.x * BLOCK_ROWS;
        if (first >= rows) {
            wait_for_previous();
            return false;
        }
        panel = call.first_panel + blockIdx.y;
        int size = call.padded / 4 * PANEL;
        const uint4* from = reinterpret_cast<const uint4*>(call.weight) + (i64)panel * size;
        copy_block_ahead(reinterpret_cast<uint4*>(weight), from, 1, size, 0, arrived);
        wait_for_previous();
        live_rows = rows - first < BLOCK_ROWS ? (int)(rows - first) : BLOCK_ROWS;
        return true;
    }
};

// Grid: blocks of 16 rows, panels. Threads: 16 lanes of two columns each, 16 rows.
KERNEL_AHEAD(linear_narrow, Linear, 256, 1) {
    SHARED_MEMORY(memory);
    NarrowBlock<ROWS> block;
    if (!block.begin(call, memory, call.padded)) return;
    i64 first = block.first;
    int lane = threadIdx.x % 16, row = threadIdx.x / 16, live_rows = block.live_rows;
    double *parts = block.parts, *scales = block.scales;
    for (int input = 4 * lane; input < call.padded; input += 64) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < live_rows) four = four_inputs(call.input + (first + row) * call.inputs, input, call.inputs);
        *reinterpret_cast<float4*>(memory + row * call.padded + input) = four;
    }
    if (call.has_norm) {
        __syncthreads();
        parts[row * 16 + lane] = part_of_squares(memory + row * call.padded, lane, call.inputs);
        __syncthreads();
        if (lane == 0) scales[row] = inverse_root_mean_square(parts + row * 16, call.inputs, call.epsilon);
        __syncthreads();
    }
    wait_for_block_copy(block.arrived);
    __syncthreads();
    const float* values = memory + row * call.padded;
    double low = 0.0, high = 0.0;
#pragma unroll 8
    for (int group = 0; group < call.padded / 4; group++) {
        float4 a = block.weight[group * PANEL + lane], b = block.weight[group * PANEL + lane + HALF_PANEL];
        float4 x = *reinterpret_cast<const float4*>(values + 4 * group);
        low = fma((double)x.x, (double)a.x, low);
        high = fma((double)x.x, (double)b.x, high);
        low = fma((double)x.y, (double)a.y, low);
        high = fma((double)x.y, (double)b.y, high);
        low = fma((double)x.z, (double)a.z, low);
        high = fma((double)x.z, (double)b.z, high);
        low = fma((double)x.w, (double)a.w, low);
        high = fma((double)x.w, (double)b.w, high);
    }
    if (row < live_rows) write_pair(call, first + row, block.panel, lane, low, high, call.has_norm ? scales[row] : 1.0);
}

#define MANY_ROWS 64
#define THREAD_ROWS (MANY_ROWS / ROWS)

// Two neighbouring inputs.
struct alignas(16) WidePair {
    double first, second;
};

// The same sums for many rows. Values and weights are widened once, by whoever brings them to shared memory: that takes
// longer than to multiply them. Grid: blocks of 64 rows, panels. Threads: 16 lanes of two columns each, every sixteenth row.
KERNEL(linear_narrow_many, Linear, 256) {
    SHARED_MEMORY(memory);
    // [padded / 2, PANEL] and [64, padded / 2] pairs, then [64, 16] partial sums and 64 scales.
    int pairs = call.padded / 2;
    WidePair* weights = reinterpret_cast<WidePair*>(memory);
    WidePair* values = weights + pairs * PANEL;
    double* parts = reinterpret_cast<double*>(values + MANY_ROWS * pairs);
    double* scales = parts + MANY_ROWS * 16;
    i64 rows = count(call.rows, call.live);
    i64 first = (i64)blockIdx.x * MANY_ROWS;
    if (first >= rows) return;
    int live_rows = rows - first < MANY_ROWS ? (int)(rows - first) : MANY_ROWS;
    int panel = call.first_panel + blockIdx.y, groups = call.padded / 4;
    const float4* from = reinterpret_cast<const float4*>(call.weight) + (i64)panel * groups * PANEL;
    auto put = [](WidePair* to, int step, const float4& four) {
        to[0] = {(double)four.x, (double)four.y};
        to[step] = {(double)four.z, (double)four.w};
    };
#pragma unroll 4
    for (int index = threadIdx.x; index < groups * PANEL; index += 256) {
        put(weights + index / PANEL * 2 * PANEL + index % PANEL, PANEL, from[index]);
    }
#pragma unroll 4
    for (int index = threadIdx.x; index < MANY_ROWS * groups; index += 256) {
        int row = index / groups, group = index % groups;
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < live_rows) four = four_inputs(call.input + (first + row) * call.inputs, group * 4, call.inputs);
        put(values + row * pairs + group * 2, 1, four);
    }
    __syncthreads();
    int lane = threadIdx.x % 16, own_row = threadIdx.x / 16;
    if (call.has_norm) {
        for (int row = own_row; row < MANY_ROWS; row += ROWS) {
            parts[row * 16 + lane] = part_of_squares(&values[row * pairs].first, lane, call.inputs);
        }
        __syncthreads();
        if (threadIdx.x < MANY_ROWS) {
            scales[threadIdx.x] = inverse_root_mean_square(parts + threadIdx.x * 16, call.inputs, call.epsilon);
        }
        __syncthreads();
    }
    double low[THREAD_ROWS] = {}, high[THREAD_ROWS] = {};
#pragma unroll 4
    for (int pair = 0; pair < pairs; pair++) {
        WidePair a = weights[pair * PANEL + lane], b = weights[pair * PANEL + lane + HALF_PANEL];
#pragma unroll
        for (int index = 0; index < THREAD_ROWS; index++) {
            WidePair x = values[(own_row + index * ROWS) * pairs + pair];
            low[index] = fma(x.second, a.second, fma(x.first, a.first, low[index]));
            high[index] = fma(x.second, b.second, fma(x.first, b.first, high[index]));
        }
    }
#pragma unroll
    for (int index = 0; index < THREAD_ROWS; index++) {
        int row = own_row + index * ROWS;
        if (row < live_rows) write_pair(call, first + row, panel, lane, low[index], high[index], call.has_norm ? scales[row] : 1.0);
    }
}

// Between rows that a warp reads at once, so that they lie in different banks.
#define ROW_GAP 4

// The results of a thread, whose rows are `STEP` apart.
template <int STEP, int COUNT>
__device__ __forceinline__ void finish_rows(const Linear& call, i64 first, int own_row, int live_rows, int panel, int lane,
                                            const float (&low)[COUNT], const float (&high)[COUNT], const double* scales) {
    // Residuals of all rows are on their way together.
    Addends addends[COUNT];
#pragma unroll
    for (int index = 0; index < COUNT; index++) {
        int row = own_row + index * STEP;
        load_bias(call, panel, lane, &addends[index]);
        if (row < live_rows) load_residual(call, first + row, panel, lane, &addends[index]);
    }
#pragma unroll
    for (int index = 0; index < COUNT; index++) {
        int row = own_row + index * STEP;
        float scale = call.has_norm ? (float)scales[row] : 1.0f;
        if (row < live_rows) finish_pair(call, first + row, panel, lane, addends[index], low[index], high[index], scale);
    }
}

// The same sums in f32. Grid: blocks of some rows, panels. Threads: 16 lanes of two columns each, for every row or for every
// few of them.
template <int BLOCK_ROWS, int COUNT>
__device__ __forceinline__ void multiply_short(const Linear& call) {
    constexpr int STEP = BLOCK_ROWS / COUNT;
    SHARED_MEMORY(memory);
    NarrowBlock<BLOCK_ROWS> block;
    int stride = call.padded + ROW_GAP;
    if (!block.begin(call, memory, stride)) return;
    i64 first = block.first;
    int lane = threadIdx.x % 16, own_row = threadIdx.x / 16, live_rows = block.live_rows;
    double *parts = block.parts, *scales = block.scales;
    for (int input = 4 * lane; input < call.padded; input += 64) {
#pragma unroll
        for (int index = 0; index < COUNT; index++) {
            int row = own_row + index * STEP;
            float* to = memory + row * stride + input;
            const float* from = call.input + (first + row) * call.inputs;
            // Copies of all rows are on their way together; loads would wait for each other.
            if (row < live_rows && call.inputs % 4 == 0) {
                copy_ahead(to, from + input);
            } else {
                float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (row < live_rows) four = four_inputs(from, input, call.inputs);
                *reinterpret_cast<float4*>(to) = four;
            }
        }
    }
    end_copies();
    wait_for_copies<0>();
    if (call.has_norm) {
        __syncthreads();
#pragma unroll 1
        for (int index = 0; index < COUNT; index++) {
            int row = own_row + index * STEP;
            parts[row * 16 + lane] = part_of_squares(memory + row * stride, lane, call.inputs);
        }
        __syncthreads();
        if (lane < COUNT) {
            int row = own_row + lane * STEP;
            scales[row] = inverse_root_mean_square(parts + row * 16, call.inputs, call.epsilon);
        }
        __syncthreads();
    }
    wait_for_block_copy(block.arrived);
    __syncthreads();
    const float* values = memory + own_row * stride;
    float low[COUNT] = {}, high[COUNT] = {};
#pragma unroll (COUNT > 1 ? 2 : 8)
    for (int group = 0; group < call.padded / 4; group++) {
        float4 a = block.weight[group * PANEL + lane], b = block.weight[group * PANEL + lane + HALF_PANEL];
#pragma unroll
        for (int index = 0; index < COUNT; index++) {
            float4 x = *reinterpret_cast<const float4*>(values + index * STEP * stride + 4 * group);
            low[index] = fmaf(x.x, a.x, low[index]);
            high[index] = fmaf(x.x, b.x, high[index]);
            low[index] = fmaf(x.y, a.y, low[index]);
            high[index] = fmaf(x.y, b.y, high[index]);
            low[index] = fmaf(x.z, a.z, low[index]);
            high[index] = fmaf(x.z, b.z, high[index]);
            low[index] = fmaf(x.w, a.w, low[index]);
            high[index] = fmaf(x.w, b.w, high[index]);
        }
    }
    finish_rows<STEP>(call, first, own_row, live_rows, block.panel, lane, low, high, scales);
}

KERNEL_AHEAD(linear_narrow_short, Linear, 256, 1) {
    multiply_short<ROWS, 1>(call);
}

// Eight rows to a thread: with fewer it would wait for shared memory.
KERNEL_AHEAD(linear_narrow_many_short, Linear, 128, 6) {
    multiply_short<MANY_ROWS, 8>(call);
}
