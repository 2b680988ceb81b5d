"""What tensor cores of an H100 or H200 do by themselves, and what holds them up: cycles of `wgmma.m64nNk16` (bf16).

Usage: python3 bench/gpu/tensor_cores.py [FOLDER]     (nvcc of CUDA 12 or later; the source and program go to FOLDER)

1. Two groups of four warps multiply: right operands of N rows, left ones from registers (RS) or shared memory (SS), right
   ones in cores of 128 bytes or with a swizzle of 128 bytes; with chains that end and are added after some instructions.
   The ideal is N / 2 cycles for each instruction.
2. One group multiplies while another does something else, as often as it can.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = r'''
#include <cstdio>
#include <cuda_runtime.h>
typedef unsigned long long u64;
typedef unsigned u32;
template <int N, bool SHARED> struct Multiply;
'''

INSTRUCTION = r'''
template <> struct Multiply<{n}, {shared}> {{
    static __device__ __forceinline__ void go(float* s, const u32 (&a)[4], u64 left, u64 right, int adds) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{flag}, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                     "{{{names}}}, {operand}, %{right}, p, 1, 1, 0{transposed}; }}"
                     : {sums}
                     : {inputs}, "l"(right), "r"(adds));
    }}
}};
'''

BODY = r'''
__device__ __forceinline__ u64 describe(u32 address, u64 swizzle) {
    return (u64)(address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32 | swizzle << 62;
}
__device__ u32 prepare(unsigned char* memory) {
    for (int i = threadIdx.x; i < 196608 / 4; i += 256) {
        u32 x = i * 2654435761u + blockIdx.x;
        x ^= x >> 15; x *= 0x85ebca6b; x ^= x >> 13;
        ((u32*)memory)[i] = (x & 0x80ff80ffu) | 0x3f003f00u;
    }
    __syncthreads();
    asm volatile("fence.proxy.async;" ::: "memory");
    return (u32)__cvta_generic_to_shared(memory);
}
template <int COUNT> __device__ __forceinline__ void hold(float (&s)[COUNT]) {
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(s[i]) :: "memory");
}
template <int COUNT> __device__ __forceinline__ void use(const float (&s)[COUNT], float* out) {
    float sum = 0;
    for (int i = 0; i < COUNT; i++) sum += s[i];
    if (sum == 1.234f) *out = sum;
}
// `GROUP` instructions in a group, `DRAIN` groups in a chain (0: one for all).
template <int N, bool SHARED, int SWIZZLE, int GROUP, int DRAIN>
__device__ __forceinline__ void multiply(int iterations, u32 base, const u32 (&a)[4], float* out) {
    float s[N / 2] = {}, total[DRAIN ? N / 2 : 1] = {};
#pragma unroll 1
    for (int it = 0; it < iterations; it++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            u32 step = SWIZZLE ? g % 4 * 32 : g % 4 * 256;
            u64 left = describe(base + threadIdx.x / 128 * 8192 + step, SWIZZLE);
            u64 right = describe(base + 65536 + it % 4 * 32768 + step, SWIZZLE);
            Multiply<N, SHARED>::go(s, a, left, right, DRAIN == 0 || it % (DRAIN ? DRAIN : 1) != 0 || g > 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (DRAIN && it % (DRAIN ? DRAIN : 1) == DRAIN - 1) {
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            hold(s);
            for (int i = 0; DRAIN && i < N / 2; i++) total[DRAIN ? i : 0] += s[i];
        } else {
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    hold(s);
    use(s, out), use(total, out);
}
template <int KIND, int COUNT> __device__ __forceinline__ void work(float (&f)[8], u32 at) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float& own = f[i % 8];
        if (KIND == 0) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(own) : "f"(f[(i + 1) % 8]), "f"(f[(i + 2) % 8]));
        if (KIND == 1) asm volatile("fma.rn.f32 %0, %0, 0f3f800001, 0f3f000000;" : "+f"(own));
        if (KIND == 2) asm volatile("add.f32 %0, %0, 0f3f000000;" : "+f"(own));
        if (KIND == 3) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(own));
        if (KIND == 4) asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(own) : "r"(at + i * 128));
    }
}
// MODE 1: both groups multiply. 2: the second works. 3: the first multiplies while the second works. 4: the first alone.
template <int N, bool SHARED, int SWIZZLE, int GROUP, int DRAIN, int KIND, int MODE>
__global__ void __launch_bounds__(256, 1) run(int iterations, float* out, long long* cycles) {
    extern __shared__ __align__(1024) unsigned char memory[];
    u32 base = prepare(memory), a[4];
    for (int i = 0; i < 4; i++) a[i] = ((u32*)memory)[threadIdx.x * 4 + i];
    bool is_second = threadIdx.x >= 128;
    long long start = clock64();
    if (is_second && MODE != 1) {
        float f[8];
        for (int i = 0; i < 8; i++) f[i] = threadIdx.x;
#pragma unroll 1
        for (int it = 0; it < iterations * 2 && MODE != 4; it++) work<KIND, 128>(f, base + threadIdx.x % 32 * 4);
        use(f, out);
    } else if (MODE != 2) {
        multiply<N, SHARED, SWIZZLE, GROUP, DRAIN>(iterations, base, a, out);
    }
    long long end = clock64();
    if (threadIdx.x % 128 == 0 && blockIdx.x == 0) cycles[is_second] = end - start;
}
template <int N, bool SHARED, int SWIZZLE, int GROUP, int DRAIN, int KIND, int MODE>
double measure(int iterations, long long* cycles) {
    auto kernel = run<N, SHARED, SWIZZLE, GROUP, DRAIN, KIND, MODE>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200704);
    float* out; long long* on_device; float ms; cudaEvent_t start, end;
    cudaMalloc(&out, 4), cudaMalloc(&on_device, 16), cudaEventCreate(&start), cudaEventCreate(&end);
    kernel<<<132, 256, 200704>>>(iterations, out, on_device);
    cudaEventRecord(start);
    kernel<<<132, 256, 200704>>>(iterations, out, on_device);
    cudaEventRecord(end);
    cudaError_t error = cudaDeviceSynchronize();
    if (error) printf("%s ", cudaGetErrorString(error));
    cudaEventElapsedTime(&ms, start, end), cudaMemcpy(cycles, on_device, 16, cudaMemcpyDeviceToHost);
    cudaFree(out), cudaFree(on_device);
    return ms;
}
template <int N, bool SHARED, int SWIZZLE, int GROUP, int DRAIN> void rate() {
    int iterations = 48000 / GROUP;
    long long cycles[2];
    double ms = measure<N, SHARED, SWIZZLE, GROUP, DRAIN, 0, 1>(iterations, cycles);
    printf("n %d, %s, swizzle %d, groups of %d, chains of %d groups: %.1f cycles (ideal %d), %.0f TFLOPS\n", N,
           SHARED ? "SS" : "RS", SWIZZLE, GROUP, DRAIN, (double)cycles[0] / iterations / GROUP / 2, N / 2,
           2.0 * 64 * N * 16 * iterations * GROUP * 2 * 132 / ms / 1e9);
}
template <int N, int KIND> void beside() {
    const char* kinds[] = {"fma of three registers", "fma of one", "add of one", "ex2", "load from shared memory"};
    long long both[2], alone[2], other[2];
    measure<N, false, 0, 4, 0, KIND, 4>(2400, alone), measure<N, false, 0, 4, 0, KIND, 2>(2400, other);
    measure<N, false, 0, 4, 0, KIND, 3>(2400, both);
    double multiplied = both[0] / 9600.0, worked = both[1] / 614400.0, ideal = alone[0] / 9600.0;
    printf("n %d beside %s: %.1f cycles a multiplication (%.1f alone), %.2f another instruction (%.2f alone), costs %.2f\n",
           N, kinds[KIND], multiplied, ideal, worked, other[1] / 614400.0, (multiplied - ideal) * worked / multiplied);
}
int main() {
    rate<256, true, 1, 4, 0>(), rate<256, false, 0, 4, 0>(), rate<176, false, 0, 2, 0>(), rate<176, false, 0, 2, 6>();
    rate<128, true, 0, 4, 0>(), rate<128, false, 0, 4, 0>(), rate<112, false, 0, 4, 0>(), rate<112, false, 0, 4, 3>();
    beside<112, 0>(), beside<112, 1>(), beside<112, 2>(), beside<112, 3>(), beside<112, 4>();
    beside<256, 0>(), beside<256, 1>();
}
'''


def instruction(n, shared):
    sums = n // 2
    numbers = [f"%{index}" for index in range(sums)]
    left = 1 if shared else 4
    return INSTRUCTION.format(
        n=n, shared=str(shared).lower(), names=", ".join(numbers),
        sums=", ".join(f'"+f"(s[{index}])' for index in range(sums)),
        operand=f"%{sums}" if shared else "{" + ", ".join(f"%{sums + index}" for index in range(4)) + "}",
        inputs='"l"(left)' if shared else ", ".join(f'"r"(a[{index}])' for index in range(4)),
        right=sums + left, flag=sums + left + 1, transposed=", 0" if shared else "")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    source = folder / "tensor_cores.cu"
    instructions = [instruction(n, shared) for n in (112, 128, 176, 256) for shared in (False, True)]
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(HEAD + "".join(instructions) + BODY)
    program = folder / "tensor_cores"
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", source, "-o", program], check=True)
    subprocess.run([program], check=True)


if __name__ == "__main__":
    main()
