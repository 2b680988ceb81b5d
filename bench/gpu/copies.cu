// How fast a multiprocessor of an H100 or H200 takes boxes from the L2 cache into shared memory, and what holds them up.
//
// Usage: nvcc -O2 -std=c++17 -gencode=arch=compute_90a,code=sm_90a bench/gpu/copies.cu -o copies -lcuda && ./copies
//
// As in `linear_wide.cuh`, a stage has a box of 16 rows of weights and one of 12, 16 or 22 rows, a kilobyte each, and a ring
// of stages fills again as soon as it has come: nobody multiplies. On 2, 66 and 132 multiprocessors:
//
// 1. one warp walks the ring, one lane of it sends;
// 2. one lane walks the ring by itself, and divides for every stage to find it, as the rings here once did;
// 3. two blocks of a cluster share their rows: each sends half of them to both;
// 4. weights come by `cp.async`, sixteen bytes to each thread of three warps.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef unsigned u32;
typedef unsigned long long u64;

static void check(int error, const char* what) {
    if (error) fprintf(stderr, "%s: error %d\n", what, error), exit(1);
}

enum Way { WARP, LANE, MULTICAST, THREADS };
const char* const NAMES[] = {"one warp walks the ring", "one lane walks the ring", "rows for two blocks", "weights by cp.async"};
// Bytes of a row of a box and of the matrix, rows of weights in a box, stages in all, kilobytes of the matrix.
const int ROW = 1024, PITCH = 12288, WEIGHTS = 16, TURNS = 480, MATRIX = 16384;

struct Call {
    CUtensorMap weights, values;
    const char* matrix;
    int stages, rows, across;
};

__device__ __forceinline__ u32 shared_address(const void* place) {
    return (u32)__cvta_generic_to_shared(place);
}
__device__ __forceinline__ void prepare(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void expect(u64* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(u64* barrier, u32 parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                 "@done bra over; bra again; over: }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ bool is_chosen() {
    u32 chosen;
    asm volatile("{ .reg .pred chosen; elect.sync _|chosen, 0xffffffff; selp.u32 %0, 1, 0, chosen; }" : "=r"(chosen));
    return chosen;
}
__device__ __forceinline__ void send(char* to, const CUtensorMap* map, int word, int row, u64* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(to)), "l"(map), "r"(word), "r"(row), "r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void send_to_both(char* to, const CUtensorMap* map, int word, int row, u64* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
        "[%4], %5;" ::"r"(shared_address(to)), "l"(map), "r"(word), "r"(row), "r"(shared_address(barrier)), "h"((unsigned short)3)
        : "memory");
}

template <Way WAY>
__global__ void __launch_bounds__(128, 1) copy(const __grid_constant__ Call call) {
    extern __shared__ __align__(1024) char memory[];
    __shared__ u64 full[8], empty[8];
    int warp = threadIdx.x / 32, rank = blockIdx.x % 2, bytes = (WEIGHTS + call.rows) * ROW;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < call.stages; stage++) prepare(full + stage, WAY == THREADS ? 97 : 1), prepare(empty + stage, 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (WAY == MULTICAST) meet_cluster();
    int band = blockIdx.x * 5 % 40 * WEIGHTS, row = 640 + blockIdx.x / 2 * 3 % 16 * 24, stage = 0, parity = 1;
    auto pass = [&] { stage = stage + 1 < call.stages ? stage + 1 : 0, parity ^= stage == 0; };
    if (WAY == LANE) {
        for (int turn = 0; turn < TURNS && threadIdx.x == 0; turn++) {
            int which = turn % call.stages, round = turn / call.stages, word = turn % 12 * 256;
            if (round > 0) wait(full + which, (round - 1) & 1);
            expect(full + which, bytes);
            char* to = memory + which * bytes;
            send(to, &call.weights, word, (int)(blockIdx.x * 5 + turn / 12) % call.across * WEIGHTS, full + which);
            send(to + WEIGHTS * ROW, &call.values, word, row, full + which);
        }
    } else if (warp == 0) {
        bool sends = is_chosen();
        for (int turn = 0; turn < TURNS; turn++, pass()) {
            if (turn >= call.stages) wait(full + stage, parity);
            if (WAY == MULTICAST && turn >= call.stages) {
                // Neither overwrites what the other has yet to have.
                for (int peer = 0; peer < 2 && sends; peer++) {
                    asm volatile("{ .reg .b32 place; mapa.shared::cluster.u32 place, %0, %1;"
                                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [place]; }" ::"r"(
                                     shared_address(empty + stage)), "r"(peer) : "memory");
                }
                wait(empty + stage, parity);
            }
            if (!sends) continue;
            char* to = memory + stage * bytes;
            int word = turn % 12 * 256;
            expect(full + stage, WAY == THREADS ? call.rows * ROW : bytes);
            if (WAY != THREADS) send(to, &call.weights, word, band, full + stage);
            to += WEIGHTS * ROW;
            if (WAY == MULTICAST) {
                send_to_both(to + rank * call.rows / 2 * ROW, &call.values, word, row + rank * call.rows / 2, full + stage);
            } else {
                send(to, &call.values, word, row, full + stage);
            }
        }
    } else if (WAY == THREADS) {
        for (int turn = 0; turn < TURNS; turn++, pass()) {
            if (turn >= call.stages) wait(full + stage, parity);
            const char* from = call.matrix + (size_t)band * PITCH + turn % 12 * ROW;
            for (int piece = threadIdx.x - 32; piece < WEIGHTS * 64; piece += 96) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(memory + stage * bytes + piece * 16)),
                             "l"(from + piece / 64 * PITCH + piece % 64 * 16) : "memory");
            }
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(full + stage)) : "memory");
        }
    }
    __syncthreads();
    for (int turn = TURNS - call.stages; turn < TURNS; turn++) wait(full + turn % call.stages, turn / call.stages & 1);
    if (WAY == MULTICAST) meet_cluster();
}

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                           const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int main() {
    char* matrix;
    Encode encode;
    cudaDriverEntryPointQueryResult found;
    check(cudaMalloc(&matrix, (size_t)MATRIX * 1024), "cudaMalloc");
    check(cudaMemset(matrix, 1, (size_t)MATRIX * 1024), "cudaMemset");
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void**)&encode, 12000, cudaEnableDefault, &found), "driver");
    auto boxes = [&](u32 rows) {
        CUtensorMap map;
        cuuint64_t sizes[2] = {PITCH / 4, (cuuint64_t)MATRIX * 1024 / PITCH}, pitch[1] = {PITCH};
        cuuint32_t box[2] = {ROW / 4, rows}, steps[2] = {1, 1};
        check(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, matrix, sizes, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), "map");
        return map;
    };
    void* const kernels[] = {(void*)copy<WARP>, (void*)copy<LANE>, (void*)copy<MULTICAST>, (void*)copy<THREADS>};
    for (int rows : {12, 16, 22}) {
        for (int way = WARP; way <= THREADS; way++) {
            for (int blocks : {2, 66, 132}) {
                Call call = {boxes(WEIGHTS), boxes(way == MULTICAST ? rows / 2 : rows), matrix, rows == 12 ? 7 : rows == 16 ? 6 : 5, rows, 40};
                int bytes = (WEIGHTS + rows) * ROW, memory = call.stages * bytes;
                check(cudaFuncSetAttribute(kernels[way], cudaFuncAttributeMaxDynamicSharedMemorySize, memory), "memory");
                cudaLaunchAttribute cluster;
                cluster.id = cudaLaunchAttributeClusterDimension;
                cluster.val.clusterDim = {way == MULTICAST ? 2u : 1u, 1, 1};
                cudaLaunchConfig_t launch = {dim3(blocks), dim3(128), (size_t)memory, nullptr, &cluster, 1};
                void* arguments[1] = {&call};
                cudaEvent_t start, end;
                cudaEventCreate(&start), cudaEventCreate(&end);
                std::vector<float> times(7);
                for (float& time : times) {
                    cudaEventRecord(start);
                    check(cudaLaunchKernelExC(&launch, kernels[way], arguments), "launch");
                    cudaEventRecord(end);
                    check(cudaDeviceSynchronize(), NAMES[way]);
                    cudaEventElapsedTime(&time, start, end);
                }
                std::sort(times.begin(), times.end());
                printf("%3d rows, %-24s %3d blocks: %5.1f bytes a ns each, %3.0f ns a stage\n", rows * 8, NAMES[way], blocks,
                       (double)TURNS * bytes / times[3] / 1e6, times[3] * 1e6 / TURNS);
            }
        }
    }
}
