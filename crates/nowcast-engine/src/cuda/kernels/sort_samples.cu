// The samples of one step, sorted: the order in which quantiles are read off.
#include "plan.cuh"

struct SortSamples {
    // [series, samples, horizon]
    const double* paths;
    // [series, horizon, samples]
    float* sorted;
    const Live* live;
    Rows series;
    int horizon;
    int reserved;
};

// An integer that is in the order of the values: negative ones are turned around, the others stand above them.
__device__ inline u32 key_of(float value) {
    u32 bits = (u32)__float_as_int(value);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(u32 key) {
    return __int_as_float((int)(key >> 31 ? key & 0x7fffffffu : ~key));
}

// A bitonic network: runs grow by halves, each merged by exchanges at shrinking distances. Grid: steps of all series.
KERNEL(sort_samples, SortSamples, 512) {
    SHARED_MEMORY(memory);
    u32* keys = reinterpret_cast<u32*>(memory);
    int series = blockIdx.x / call.horizon, step = blockIdx.x % call.horizon, samples = call.live->samples;
    if (series >= count(call.series, call.live)) return;
    int size = 1;
    while (size < samples) size *= 2;
    const double* paths = call.paths + (i64)series * samples * call.horizon + step;
    for (int index = threadIdx.x; index < size; index += blockDim.x) {
        // What stands in for the missing ones comes last.
        keys[index] = index < samples ? key_of((float)paths[(i64)index * call.horizon]) : 0xffffffffu;
    }
    __syncthreads();
    for (int run = 2; run <= size; run *= 2) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
                int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                u32 first = keys[low], second = keys[high];
                bool rises = (low & run) == 0;
                if ((first > second) == rises) keys[low] = second, keys[high] = first;
            }
            __syncthreads();
        }
    }
    float* sorted = call.sorted + (i64)blockIdx.x * samples;
    for (int index = threadIdx.x; index < samples; index += blockDim.x) sorted[index] = value_of(keys[index]);
}
