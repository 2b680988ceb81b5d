// Products of some hundred rows: small tiles, two of them on a multiprocessor, in clusters whose blocks share out the parts
// of the links.
//
// As in `linear_ring.cuh` one thread keeps a ring on its way, and four warps multiply. Stages of f16 pairs are one link, so
// that sending takes a warp of its own; with half as many stages one of the four does it, as smaller blocks begin sooner.
// Every block finishes a share of the rows: the others send it their sums, a lane to the lane in its place.
#pragma once

#include "cluster.cuh"
#include "linear_chains.cuh"
#include "linear_finish.cuh"
#include "linear_ring.cuh"

// Those that multiply, and all of a block.
#define SPLIT_WORKERS 128
#define SPLIT_THREADS(FORMAT) (FORMAT == SPLIT ? 2 * SPLIT_WORKERS : SPLIT_WORKERS)
// Blocks that share a multiprocessor: f16 pairs have one set of registers for both kinds of warps.
#define SPLIT_BLOCKS(FORMAT) (FORMAT == SPLIT ? 2 : 1)
#define SPLIT_WEIGHT_BANDS 8
#define SPLIT_ROW_BANDS 12
#define SPLIT_STAGES 4

#if HAS_PIPELINES
// Chains of one link for four warps: as many sets of sums as a block has registers for, so that one multiplies while
// another is added.
template <int CHAINS>
struct LinkWorker {
    static const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES;
    static const int PIECES = Pieces<SPLIT>::COUNT, LINK_SIZE = PIECES * 32;
    const uint4* ring;
    u64 *full, *empty;
    uint4 left[2][PIECES][2];
    float chains[CHAINS][N][4];
    // Links so far.
    int turn;

    __device__ __forceinline__ LinkWorker(const uint4* stages, u64* barriers)
        : ring(stages), full(barriers), empty(barriers + STAGES), turn(0) {}

    // The weights of a link, once they are there.
    template <int PARITY>
    __device__ __forceinline__ void load(int link) {
        wait_for_phase(full + link % STAGES, link / STAGES & 1);
        const uint4* from = ring + link % STAGES * BANDS * LINK_SIZE + threadIdx.x / 32 * 2 * LINK_SIZE + threadIdx.x % 32;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            left[PARITY][piece][0] = from[piece * 32];
            left[PARITY][piece][1] = from[LINK_SIZE + piece * 32];
        }
    }
    template <int PARITY>
    __device__ __forceinline__ void start(int link) {
        const uint4* rows = ring + (link % STAGES * BANDS + SPLIT_WEIGHT_BANDS) * LINK_SIZE;
        start_in_groups<SPLIT, N>(chains[PARITY % CHAINS], left[PARITY], rows);
    }
    // Adds a link that was started, and starts the next, if any.
    template <int PARITY, bool IS_LAST>
    __device__ __forceinline__ void multiply(int link, float (&sums)[N][4]) {
        if constexpr (!IS_LAST) load<1 - PARITY>(link + 1);
        if constexpr (!IS_LAST && CHAINS == 2) start<1 - PARITY>(link + 1);
        wait_for_groups<!IS_LAST && CHAINS == 2 ? 1 : 0>(chains[PARITY % CHAINS]);
        if (threadIdx.x % 32 == 0) arrive(empty + link % STAGES);
#pragma unroll
        for (int index = 0; index < N * 4; index++) sums[index / 4][index % 4] += chains[PARITY % CHAINS][index / 4][index % 4];
        if constexpr (!IS_LAST && CHAINS == 1) start<1 - PARITY>(link + 1);
    }
    // The sums of a part of so many links, which may be none.
    __device__ __forceinline__ void multiply_part(int links, float (&sums)[N][4]) {
#pragma unroll
        for (int index = 0; index < N * 4; index++) sums[index / 4][index % 4] = 0.0f;
        if (links == 0) return;
        load<0>(turn);
        start<0>(turn);
        int end = turn + links;
#pragma unroll 1
        for (; turn + 2 < end; turn += 2) {
            multiply<0, false>(turn, sums);
            multiply<1, false>(turn + 1, sums);
        }
        if (turn + 1 < end) {
            multiply<0, false>(turn, sums);
            multiply<1, true>(turn + 1, sums);
        } else {
            multiply<0, true>(turn, sums);
        }
        turn = end;
    }
};

// The parts of a block, one after the other.
template <int FORMAT, int BLOCKS, typename Refill>
struct SplitWorker {
    ChainWorker<FORMAT, SPLIT_ROW_BANDS, SPLIT_WEIGHT_BANDS, SPLIT_STAGES, Refill> worker;
    __device__ __forceinline__ SplitWorker(const uint4* ring, u64* full, Refill refill) : worker(ring, full, refill) {}
    __device__ __forceinline__ void multiply_part(int part, int links, float (&sums)[SPLIT_ROW_BANDS][4]) {
        worker.multiply_part(stages_of_part(part, links), sums);
    }
};
template <int BLOCKS, typename Refill>
struct SplitWorker<SPLIT, BLOCKS, Refill> {
    LinkWorker<BLOCKS == PARTS ? 2 : 1> worker;
    __device__ __forceinline__ SplitWorker(const uint4* ring, u64* full, Refill) : worker(ring, full) {}
    __device__ __forceinline__ void multiply_part(int part, int links, float (&sums)[SPLIT_ROW_BANDS][4]) {
        worker.multiply_part(part_start<SPLIT>(part + 1, links) - part_start<SPLIT>(part, links), sums);
    }
};

// The sums that the blocks of a cluster send each other, and the share of the rows that each finishes.
template <int BLOCKS>
struct Inbox {
    static const int N = SPLIT_ROW_BANDS, BANDS = N / BLOCKS, SLOTS = PARTS - PARTS / BLOCKS;
    typedef const float (&Tile)[N][4];
    // [SLOTS, BANDS, workers]
    float4* places;
    u64* arrived;
    int rank;

    // Before the blocks meet. Of two, the first sends the sum of its parts, the second each of them.
    __device__ __forceinline__ void prepare() const {
        prepare_barrier(arrived, 1);
        expect_bytes(arrived, (BLOCKS == 2 && rank == 1 ? 1 : SLOTS) * BANDS * SPLIT_WORKERS * sizeof(float4));
    }
    __device__ __forceinline__ float4* at(int slot, int band) const {
        return places + (slot * BANDS + band) * SPLIT_WORKERS + threadIdx.x;
    }
    __device__ __forceinline__ void send(int peer, int slot, int band, const float (&sums)[4]) const {
        send_to_peer(at(slot, band), arrived, peer, sums);
    }
    __device__ __forceinline__ void receive(int slot, int band, float (&sums)[4]) const {
        float4 some = *at(slot, band);
        sums[0] = some.x, sums[1] = some.y, sums[2] = some.z, sums[3] = some.w;
    }
    static __device__ __forceinline__ void add(const float (&other)[4], float (&sums)[4]) {
        sums[0] += other[0], sums[1] += other[1], sums[2] += other[2], sums[3] += other[3];
    }

    // The sums of all parts, in order, for the own share, from those of the last own part and of the one before it, if any.
    __device__ __forceinline__ void exchange(Tile before, Tile last, float (&sums)[BANDS][4]) const {
        if constexpr (BLOCKS == 2) {
            exchange_halves(before, last, sums);
        } else {
            exchange_quarters(last, sums);
        }
    }
    __device__ __forceinline__ void exchange_halves(Tile before, Tile last, float (&sums)[BANDS][4]) const {
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            if (rank == 0) {
                float both[4] = {before[BANDS + band][0], before[BANDS + band][1], before[BANDS + band][2], before[BANDS + band][3]};
                add(last[BANDS + band], both);
                send(1, 0, band, both);
            } else {
                send(0, 0, band, before[band]), send(0, 1, band, last[band]);
            }
        }
        wait_for_phase(arrived, 0);
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            float first[4], third[4], fourth[4];
            receive(0, band, rank == 0 ? third : first);
            if (rank == 0) receive(1, band, fourth);
#pragma unroll
            for (int each = 0; each < 4; each++) {
                float start = rank == 0 ? before[band][each] + last[band][each] : first[each];
                float next = rank == 0 ? third[each] : before[BANDS + band][each];
                sums[band][each] = start + next + (rank == 0 ? fourth[each] : last[BANDS + band][each]);
            }
        }
    }
    __device__ __forceinline__ void exchange_quarters(Tile last, float (&sums)[BANDS][4]) const {
        float own[BANDS][4];
#pragma unroll
        for (int peer = 0; peer < BLOCKS; peer++) {
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                const float(&some)[4] = last[peer * BANDS + band];
                if (peer != rank) {
                    send(peer, rank < peer ? rank : rank - 1, band, some);
                } else {
                    own[band][0] = some[0], own[band][1] = some[1], own[band][2] = some[2], own[band][3] = some[3];
                }
            }
        }
        wait_for_phase(arrived, 0);
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            sums[band][0] = sums[band][1] = sums[band][2] = sums[band][3] = 0.0f;
#pragma unroll
            for (int part = 0; part < BLOCKS; part++) {
                float some[4] = {own[band][0], own[band][1], own[band][2], own[band][3]};
                if (part != rank) receive(part < rank ? part : part - 1, band, some);
                if (part == 0) {
                    sums[band][0] = some[0], sums[band][1] = some[1], sums[band][2] = some[2], sums[band][3] = some[3];
                } else {
                    add(some, sums[band]);
                }
            }
        }
    }
};

// Tile: 64 weights, the inner index, times 96 rows. Grid: tiles, `BLOCKS` for each.
template <int FORMAT, int BLOCKS>
__device__ __forceinline__ void multiply_split_ring(const RingProduct& ring_call) {
    const Product& call = ring_call.product;
    typedef Inbox<BLOCKS> Inbox;
    const int N = SPLIT_ROW_BANDS, BANDS = SPLIT_WEIGHT_BANDS + N, STAGES = SPLIT_STAGES, WARPS = SPLIT_WORKERS / 32;
    // Of a stage: one link of f16 pairs, two of the others.
    const int TOGETHER = Pieces<FORMAT>::TOGETHER, BAND_SIZE = TOGETHER * Pieces<FORMAT>::COUNT * 32;
    const int LINK_WORDS = Pieces<FORMAT>::COUNT * 128, OWN_PARTS = PARTS / BLOCKS, ROWS = Inbox::BANDS * BAND;
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
    auto send_weights = [&](int turn) {
        u64* barrier = full + turn % STAGES;
        expect_bytes(barrier, BANDS * BAND_SIZE * 16);
        uint4* to = ring + turn % STAGES * BANDS * BAND_SIZE;
        send_box(to, ring_call.weights, start * LINK_WORDS + turn * BAND_SIZE * 4, first_band, barrier);
    };
    auto send_values = [&](int turn) {
        uint4* to = ring + (turn % STAGES * BANDS + SPLIT_WEIGHT_BANDS) * BAND_SIZE;
        send_box(to, ring_call.values, start * LINK_WORDS + turn * BAND_SIZE * 4, first_row_band, full + turn % STAGES);
    };
    int sent = 0;
    auto refill = [&] {
        if (sent < turns && warp == 0) {
            wait_for_phase(empty + sent % STAGES, (sent / STAGES - 1) & 1);
            if (lane == 0) send_weights(sent), send_values(sent);
        }
        sent++;
    };
    // Weights need not wait for the kernel before.
    const bool HAS_SENDER = FORMAT == SPLIT;
    bool sends = threadIdx.x == (HAS_SENDER ? SPLIT_WORKERS : 0);
    for (int turn = 0; turn < ahead && sends; turn++) send_weights(turn);
    __syncwarp();
    // Everybody's inbox is prepared.
    wait_in_cluster();
    if constexpr (HAS_SENDER) {
        if (warp >= WARPS) {
            give_registers_up<24>();
            wait_for_previous();
            for (int turn = 0; turn < turns && sends; turn++) {
                if (turn >= STAGES) wait_for_phase(empty + turn % STAGES, (turn / STAGES - 1) & 1), send_weights(turn);
                send_values(turn);
            }
            return;
        }
        take_registers<232>();
    }
    float* scales = row_scales + warp * ROWS;
    Finisher<FORMAT, Inbox::BANDS, true> finisher(call, scales, first_row, rows, first_band + warp * 2);
    wait_for_previous();
    for (; sent < ahead; sent++) {
        if (!HAS_SENDER && threadIdx.x == 0) send_values(sent);
    }
    // On their way while the products are made.
    finisher.expect_residuals();
    float own_scales[(ROWS + 31) / 32];
#pragma unroll
    for (int index = 0; index < (ROWS + 31) / 32; index++) {
        int row = lane + index * 32;
        own_scales[index] = row < rows ? scale_at(call, first_row + row) : 0.0f;
    }
    SplitWorker<FORMAT, BLOCKS, decltype(refill)> worker(ring, full, refill);
    float before[N][4], last[N][4];
    if (OWN_PARTS > 1) worker.multiply_part(rank * OWN_PARTS, call.links, before);
    worker.multiply_part(rank * OWN_PARTS + OWN_PARTS - 1, call.links, last);
    float sums[Inbox::BANDS][4];
    inbox.exchange(before, last, sums);
#pragma unroll
    for (int index = 0; index < (ROWS + 31) / 32; index++) {
        if (lane + index * 32 < rows) scales[lane + index * 32] = own_scales[index];
    }
    __syncwarp();
    finisher.finish(sums);
}
#endif

#if HAS_PIPELINES
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS) multiply_split_ring<FORMAT, BLOCKS>(call)
#else
#define MULTIPLY_SPLIT_RING(FORMAT, BLOCKS)
#endif
