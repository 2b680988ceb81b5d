// Products of some hundred rows: small tiles, two of them on a multiprocessor, in clusters whose blocks share out the parts
// of the links.
//
// As in `linear_ring.cuh` one thread keeps a ring on its way, and four warps multiply. Stages of f16 pairs are one link, so
// that sending takes a warp of its own; with half as many stages one of the four does it, as smaller blocks begin sooner.
// Every block finishes a share of the rows: the others send it their sums, a lane to the lane in its place.
#pragma once

#include "linear_chains.cuh"
#include "linear_finish.cuh"
#include "linear_inbox.cuh"
#include "linear_ring.cuh"

// All threads of a block.
#define SPLIT_THREADS(FORMAT) (FORMAT == SPLIT ? 2 * SPLIT_WORKERS : SPLIT_WORKERS)
// Registers that a thread of f16 pairs begins with, and those that a thread that multiplies then takes from a sender: two
// clusters of two leave room for a small block of the kernel behind on their multiprocessor, where the compiler can be told.
#define SPLIT_SENDER_REGISTERS 24
#define SPLIT_WORKER_REGISTERS(BLOCKS) (BLOCKS == 2 && CAN_LIMIT_REGISTERS ? 200 : 232)
#define SPLIT_REGISTERS(FORMAT, BLOCKS) \
    (FORMAT == SPLIT ? (SPLIT_WORKER_REGISTERS(BLOCKS) + SPLIT_SENDER_REGISTERS) / 2 : 255)

#if HAS_PIPELINES
// The parts of a block, one after the other.
template <int FORMAT, int BLOCKS, typename Refill>
struct SplitWorker {
    ChainWorker<FORMAT, SPLIT_ROW_BANDS, SPLIT_WEIGHT_BANDS, SPLIT_STAGES, Refill> worker;
    __device__ __forceinline__ SplitWorker(const uint4* ring, u64* full, Refill refill) : worker(ring, full, refill) {}
    __device__ __forceinline__ void begin(int stages) {
        worker.begin(stages);
    }
    __device__ __forceinline__ void multiply_part(int part, int links, float (&sums)[SPLIT_ROW_BANDS][4]) {
        int length = stages_of_part(part, links);
        if (length > 0) {
            worker.multiply_part(length, sums);
        } else {
            worker.clear(sums);
        }
    }
};
template <int BLOCKS, typename Refill>
struct SplitWorker<SPLIT, BLOCKS, Refill> {
    LinkWorker<BLOCKS != PARTS> worker;
    __device__ __forceinline__ SplitWorker(const uint4* ring, u64* full, Refill) : worker(ring, full) {}
    __device__ __forceinline__ void begin(int) {}
    __device__ __forceinline__ void multiply_part(int part, int links, float (&sums)[SPLIT_ROW_BANDS][4]) {
        worker.multiply_part(part_start<SPLIT>(part + 1, links) - part_start<SPLIT>(part, links), sums);
    }
};

// Multiplies the own parts, sends their shares to others, and keeps the own share of each.
template <int FORMAT, typename Worker, int BLOCKS, int COUNT>
__device__ __forceinline__ void multiply_parts(Worker& worker, const Inbox<BLOCKS>& inbox, int links,
                                               typename Inbox<BLOCKS>::Own (&owns)[COUNT]) {
    const int N = SPLIT_ROW_BANDS;
    int first = inbox.rank * COUNT;
    // One copy of the instructions, which take long to come; the chains of other formats are slower in a loop.
    if constexpr (FORMAT == SPLIT) {
#pragma unroll
        for (int which = 0; which < COUNT; which++) Inbox<BLOCKS>::clear(owns[which]);
#pragma unroll 1
        for (int which = 0; which < COUNT; which++) {
            float part[N][4];
            worker.multiply_part(first + which, links, part);
#pragma unroll
            for (int before = 1; before < COUNT; before++) Inbox<BLOCKS>::copy(owns[before], owns[before - 1]);
            inbox.send_part(which, part, owns[COUNT - 1]);
        }
    } else {
        if constexpr (COUNT > 1) {
            float part[N][4];
            worker.multiply_part(first, links, part);
            inbox.send_part(0, part, owns[0]);
        }
        float part[N][4];
        worker.multiply_part(first + COUNT - 1, links, part);
        inbox.send_part(COUNT - 1, part, owns[COUNT - 1]);
    }
}

// Tile: 64 weights, the inner index, times 96 rows. Grid: tiles, `BLOCKS` for each.
template <int FORMAT, int BLOCKS>
__device__ __forceinline__ void multiply_split_ring(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    typedef Inbox<BLOCKS> Inbox;
    const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES, WARPS = SPLIT_WORKERS / 32;
    // Of a stage: one link of f16 pairs, two of the others.
    const int TOGETHER = Pieces<FORMAT>::TOGETHER, BAND_SIZE = TOGETHER * Pieces<FORMAT>::COUNT * 32;
    const int LINK_WORDS = Pieces<FORMAT>::COUNT * 128, OWN_PARTS = PARTS / BLOCKS, ROWS = Inbox::BANDS * BAND;
    // Rows whose scales a lane fetches.
    const int EACH = (ROWS + 31) / 32;
    SHARED_MEMORY(memory);
    uint4* ring = reinterpret_cast<uint4*>(memory);
    float4* places = reinterpret_cast<float4*>(ring + STAGES * BANDS * BAND_SIZE);
    // A copy for each warp.
    float* row_scales = reinterpret_cast<float*>(places + Inbox::SLOTS * Inbox::BANDS * SPLIT_WORKERS);
    u64* full = reinterpret_cast<u64*>(row_scales + WARPS * ROWS);
    u64* empty = full + STAGES;
    int tile = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS;
    Inbox inbox = {places, empty + STAGES, rank};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            prepare_barrier(full + stage, 1);
            prepare_barrier(empty + stage, WARPS);
        }
        inbox.prepare();
        publish_barriers();
    }
    __syncthreads();
    int across = (call.end_band - call.first_band + SPLIT_WEIGHT_BANDS - 1) / SPLIT_WEIGHT_BANDS;
    int first_row_band = tile / across * N, first_row = (first_row_band + rank * Inbox::BANDS) * BAND;
    int first_band = call.first_band + tile % across * SPLIT_WEIGHT_BANDS;
    int start = part_start<FORMAT>(rank * OWN_PARTS, call.links), links = part_start<FORMAT>((rank + 1) * OWN_PARTS, call.links) - start;
    int turns = (links + TOGETHER - 1) / TOGETHER, ahead = turns < STAGES ? turns : STAGES;
    int all_rows = count(call.rows, call.live), rows = all_rows - first_row < ROWS ? all_rows - first_row : ROWS;
    // All blocks of the cluster leave together.
    if (first_row_band * BAND >= all_rows) return wait_for_previous();
    arrive_in_cluster();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool HAS_SENDER = FORMAT == SPLIT;
    // Weights of f16 pairs sweep own keys, contexts and instructions out of the L2 cache; more tiles of rows would ask twice.
    bool passes = HAS_SENDER && all_rows <= 2 * N * BAND;
    auto send_weights = [&](int stage, int turn) {
        expect_bytes(full + stage, BANDS * BAND_SIZE * 16);
        uint4* to = ring + stage * BANDS * BAND_SIZE;
        int word = start * LINK_WORDS + turn * BAND_SIZE * 4;
        if constexpr (HAS_SENDER) {
            send_box(to, ring_call.weights, word, first_band, full + stage, passes);
        } else {
            send_box(to, ring_call.weights, word, first_band, full + stage);
        }
    };
    auto send_values = [&](int stage, int turn) {
        uint4* to = ring + (stage * BANDS + SPLIT_WEIGHT_BANDS) * BAND_SIZE;
        send_box(to, ring_call.values, start * LINK_WORDS + turn * BAND_SIZE * 4, first_row_band, full + stage);
    };
    bool is_sender = warp == (HAS_SENDER ? WARPS : 0), sends = sends_for_warp();
    RingPlace<STAGES> next;
    int sent = ahead;
    auto refill = [&] {
        if (!HAS_SENDER && is_sender && sent < turns) {
            wait_for_phase(empty + next.stage, next.parity);
            if (sends) send_weights(next.stage, sent), send_values(next.stage, sent);
        }
        sent++, next.pass();
    };
    // Weights need not wait for the kernel before.
    for (int turn = 0; is_sender && turn < ahead; turn++) {
        if (sends) send_weights(turn, turn);
    }
    __syncwarp();
    // Everybody's inbox is prepared.
    wait_in_cluster();
    if constexpr (HAS_SENDER) {
        if (warp >= WARPS) {
            give_registers_up<SPLIT_SENDER_REGISTERS>();
            wait_for_previous();
#pragma unroll 1
            for (int turn = 0; is_sender && turn < turns; turn++, next.pass()) {
                if (turn >= ahead) wait_for_phase(empty + next.stage, next.parity ^ 1);
                if (!sends) continue;
                if (turn >= ahead) send_weights(next.stage, turn);
                send_values(next.stage, turn);
            }
            return;
        }
        take_registers<SPLIT_WORKER_REGISTERS(BLOCKS)>();
    }
    float* scales = row_scales + warp * ROWS;
    Finisher<FORMAT, Inbox::BANDS, true> finisher(call, scales, first_row, rows, first_band + warp * 2);
    // The sums of the own share of the rows, once the kernel before is done.
    auto bring_sums = [&](typename Inbox::Own& sums) {
        wait_for_previous();
        for (int turn = 0; !HAS_SENDER && is_sender && turn < ahead; turn++) {
            if (sends) send_values(turn, turn);
        }
        __syncwarp();
        // On their way while the products are made, or, of two blocks, while sums are: a share of a half leaves fewer registers.
        if (BLOCKS > 2) finisher.expect_residuals();
        float own_scales[EACH];
#pragma unroll
        for (int index = 0; index < EACH; index++) {
            int row = lane + index * 32;
            own_scales[index] = row < rows ? scale_at(call, first_row + row) : 0.0f;
        }
        SplitWorker<FORMAT, BLOCKS, decltype(refill)> worker(ring, full, refill);
        typename Inbox::Own owns[OWN_PARTS];
        if (turns > 0) worker.begin(turns);
        multiply_parts<FORMAT>(worker, inbox, call.links, owns);
        if (BLOCKS == 2) finisher.expect_residuals();
        inbox.wait();
        inbox.gather(owns, sums);
#pragma unroll
        for (int index = 0; index < EACH; index++) {
            if (lane + index * 32 < rows) scales[lane + index * 32] = own_scales[index];
        }
        __syncwarp();
    };
    typename Inbox::Own sums = {};
    if constexpr (HAS_SENDER) {
        // The end is gone through twice where there is much else between, first for no rows: its instructions, which take long
        // to come, are there then.
#pragma unroll 1
        for (int pass = !call.gated && turns > 2 * STAGES ? 0 : 1; pass < 2; pass++) {
            finisher.rows = pass == 0 ? 0 : rows;
            if (pass == 1) bring_sums(sums);
            finisher.finish(sums);
        }
    } else {
        bring_sums(sums);
        finisher.finish(sums);
    }
}
#endif

#if HAS_PIPELINES
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS) multiply_split_ring<FORMAT, BLOCKS>(call)
#else
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS)
#endif
