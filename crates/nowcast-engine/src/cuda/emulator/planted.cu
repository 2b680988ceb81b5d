// Kernels that are sound or not, as they are told: what the detector of races must find, and what it must not.
#include "cluster.cuh"
#include "pipeline.cuh"

struct Planted {
    float* memory;
    int is_sound;
};

__device__ inline int mirrored() {
    return (int)blockDim.x - 1 - (int)threadIdx.x;
}

KERNEL(block_meets, Planted, 64) {
    SHARED_MEMORY(shared);
    shared[threadIdx.x] = 1.0f;
    if (call.is_sound) __syncthreads();
    call.memory[threadIdx.x] = shared[mirrored()];
}

// The next round's writes wait for this one's readers.
KERNEL(block_meets_again, Planted, 64) {
    SHARED_MEMORY(shared);
    for (int round = 0; round < 2; round++) {
        shared[threadIdx.x] = (float)round;
        __syncthreads();
        call.memory[threadIdx.x] = shared[mirrored()];
        if (call.is_sound) __syncthreads();
    }
}

// A shuffle is no barrier.
KERNEL(warp_meets, Planted, 32) {
    SHARED_MEMORY(shared);
    shared[threadIdx.x] = 1.0f;
    if (call.is_sound) __syncwarp();
    float other = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    call.memory[threadIdx.x] = shared[mirrored()] + other;
}

KERNEL(first_threads_meet, Planted, 64) {
    SHARED_MEMORY(shared);
    if (threadIdx.x >= 32) return;
    shared[threadIdx.x] = 1.0f;
    if (call.is_sound) meet_first_threads<32>();
    call.memory[threadIdx.x] = shared[31 - threadIdx.x];
}

KERNEL(all_write_the_same, Planted, 64) {
    SHARED_MEMORY(shared);
    shared[0] = call.is_sound ? 1.0f : (float)threadIdx.x;
}

KERNEL(all_count, Planted, 64) {
    SHARED_MEMORY(shared);
    int* counter = reinterpret_cast<int*>(shared);
    if (threadIdx.x == 0) *counter = 0;
    __syncthreads();
    if (call.is_sound) {
        atomicAdd(counter, 1);
    } else {
        *counter += 1;
    }
}

// Fixed shared memory, and halves of one word.
KERNEL(fixed_memory, Planted, 64) {
    __shared__ unsigned short halves[64];
    halves[threadIdx.x] = 1;
    if (call.is_sound) __syncthreads();
    call.memory[threadIdx.x] = (float)halves[mirrored()];
}

KERNEL(blocks_apart, Planted, 32) {
    int other = call.is_sound ? blockIdx.x : 1 - blockIdx.x;
    call.memory[blockIdx.x * 32 + threadIdx.x] = call.memory[other * 32 + threadIdx.x] + 1.0f;
}

// Nobody writes to a block that has not begun.
KERNEL_IN_CLUSTER(cluster_begins, Planted, 32, 1, 2) {
    SHARED_MEMORY(shared);
    wait_for_previous();
    if (call.is_sound) arrive_in_cluster(), wait_in_cluster();
    *in_peer(shared + threadIdx.x, 1 - blockIdx.x % 2) = 1.0f;
    arrive_in_cluster(), wait_in_cluster();
    call.memory[blockIdx.x * 32 + threadIdx.x] = shared[threadIdx.x];
}

// Nobody leaves what others have yet to read.
KERNEL_IN_CLUSTER(cluster_ends, Planted, 32, 1, 2) {
    SHARED_MEMORY(shared);
    wait_for_previous();
    shared[threadIdx.x] = 1.0f;
    arrive_in_cluster(), wait_in_cluster();
    call.memory[blockIdx.x * 32 + threadIdx.x] = *in_peer(shared + threadIdx.x, 1 - blockIdx.x % 2);
    if (call.is_sound) arrive_in_cluster(), wait_in_cluster();
}

// What comes behind the arrival is not waited for.
KERNEL_IN_CLUSTER(cluster_arrives, Planted, 32, 1, 2) {
    SHARED_MEMORY(shared);
    wait_for_previous();
    if (call.is_sound) shared[threadIdx.x] = 1.0f;
    arrive_in_cluster();
    if (!call.is_sound) shared[threadIdx.x] = 1.0f;
    wait_in_cluster();
    call.memory[blockIdx.x * 32 + threadIdx.x] = *in_peer(shared + threadIdx.x, 1 - blockIdx.x % 2);
    arrive_in_cluster(), wait_in_cluster();
}

// Thirty-two values are sent twice to the same place, which the warp reads in between.
__device__ inline void send_twice(const Planted& call, bool waits_until_full, bool waits_until_empty) {
    SHARED_MEMORY(shared);
    u64 *full = reinterpret_cast<u64*>(shared + 32), *empty = full + 1;
    if (threadIdx.x == 0) prepare_barrier(full, 1), prepare_barrier(empty, 32);
    __syncthreads();
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            if (round > 0 && waits_until_empty) wait_for_phase(empty, 0);
            expect_bytes(full, 128);
            send_bytes(shared, call.memory, 128, full);
        }
        if (waits_until_full) wait_for_phase(full, round);
        // Nobody misses the phase where room is not waited for.
        __syncwarp();
        float value = shared[threadIdx.x];
        if (round == 0) arrive(empty);
        call.memory[32 + threadIdx.x] = value;
    }
}
KERNEL(copies_arrive, Planted, 32) {
    send_twice(call, call.is_sound, true);
}
KERNEL(copies_wait_for_room, Planted, 32) {
    send_twice(call, true, call.is_sound);
}

// Copies of a thread are there for others once it has waited for them and met the others.
KERNEL(copies_ahead, Planted, 32) {
    SHARED_MEMORY(shared);
    copy_ahead(shared + 4 * threadIdx.x, call.memory + 4 * threadIdx.x);
    end_copies();
    if (!call.is_sound) __syncthreads();
    wait_for_copies<0>();
    if (call.is_sound) __syncthreads();
    call.memory[128 + threadIdx.x] = shared[4 * mirrored()];
}

// A product has read what it multiplies before one lane says so; what lanes write, it does not order.
KERNEL(products_read, Planted, 32) {
    SHARED_MEMORY(shared);
    u32* words = reinterpret_cast<u32*>(shared);
    words[threadIdx.x] = 0;
    __syncwarp();
    float sums[4] = {};
    u32 word = words[mirrored()];
    if (call.is_sound) multiply_add<1>(sums, word, word, word, word, word, word);
    words[threadIdx.x] = 1;
    call.memory[threadIdx.x] = sums[0];
}

KERNEL(leaves_values, Planted, 32) {
    call.memory[threadIdx.x] = 1.0f;
}
KERNEL_AHEAD(looks_ahead, Planted, 32, 1) {
    if (call.is_sound) wait_for_previous();
    float value = call.memory[threadIdx.x];
    wait_for_previous();
    call.memory[32 + threadIdx.x] = value;
}
KERNEL_AHEAD(writes_ahead, Planted, 32, 1) {
    if (call.is_sound) wait_for_previous();
    call.memory[64 + threadIdx.x] = 1.0f;
    wait_for_previous();
}
KERNEL_AHEAD(ends_ahead, Planted, 32, 1) {
    if (threadIdx.x == 7 && !call.is_sound) return;
    wait_for_previous();
}
