// Attention of many paths over a context that was cut before (sm_90a, and the emulation).
//
// Chunks come into shared memory as they lie, before the kernel before has ended. A warp has half of a chunk, one link of its
// values, for all rows of the block: scores become exponents, and these the left operand of the values, without leaving it.
// Sixteen threads have a row of queries, its own keys, and in the end its answer. Chunks, chains and the order in which they
// are merged are those of attention_chunks.cuh, and so are the digits.
#pragma once

#include "attention_finish.cuh"
#include "attention_shares.cuh"
#include "newest_tokens.cuh"
#include "pipeline.cuh"

// Chunks that are gone through side by side, two warps for each.
#define PATH_SLOTS 4
#define PATH_THREADS (64 * PATH_SLOTS)

#if HAS_PIPELINES
// Grid: sixteens of rows of one series, heads, series.
template <int FORMAT>
struct PathAttention {
    static const int SLOTS = PATH_SLOTS, HALVES = CHUNK / LINK, SHARES = CHUNK_WARPS / HALVES;
    static const int MOST_STAGES = 2, ROWS = TILE_ROWS, THREADS = PATH_THREADS, OWN_GROUPS = 1, OWNED = 1;
    static const bool CAN_PACK = FORMAT != SPLIT;
    typedef NewestTokens<CAN_PACK, ROWS> Newest;
    static_assert(32 * SLOTS * HALVES == THREADS && ROWS * LANES == THREADS, "sixteen threads for each row");
    // Scales and keys of a chunk, and what comes into shared memory: values as well, unless that would leave a multiprocessor no
    // room for the block beside one of the kernel before.
    static const int KEY_WORDS = SCALE_WORDS(1) + SIDE_WORDS(FORMAT, 1);
    static const bool STAGES_VALUES = FORMAT != SPLIT;
    static_assert(Newest::WORDS <= SLOTS * HALVES * ROWS * GROUP, "room among results");
    static const int STAGED_WORDS = STAGES_VALUES ? CHUNK_WORDS(FORMAT, 1) : KEY_WORDS;
    // Of a half's keys: shares, columns of each, rows and columns of a lane.
    typedef ShareSums Scores[SHARES];

    const Attention& call;
    int head_dim, context, stages, slot, half, lane, place, quarter;
    // Chunks of the head, the first that is not hidden, and rounds of them. Stages are one or two.
    const u32* operands;
    int first_chunk, rounds;
    // Of every slot and half [ROWS, GROUP]; before that, the newest tokens.
    float* results;
    // [steps, parts, 32, 4], and behind the barriers [stages, SLOTS, STAGED_WORDS].
    u32 *left, *chunks;
    // Of every slot [ROWS, 2] twice, and [ROWS].
    float *tops, *sums, *query_scales;
    // [ROWS]: largest score and sum of what is put by.
    float2* put_by_numbers;
    // [MOST_STAGES, SLOTS]
    u64* arrived;

    __device__ __forceinline__ PathAttention(const Attention& attention, float* memory, const Window& window, int head)
        : call(attention), head_dim(attention.head_dim), context(window.context), stages(attention.stages) {
        int warp = threadIdx.x / 32;
        half = warp % HALVES, slot = warp / HALVES;
        lane = threadIdx.x % 32, place = lane / 4, quarter = lane % 4;
        operands = attention.operands + ((i64)blockIdx.z * attention.heads + head) * attention.chunks * CHUNK_WORDS(FORMAT, 1);
        first_chunk = hidden_keys(attention, window) / CHUNK;
        rounds = ((context + CHUNK - 1) / CHUNK - first_chunk + SLOTS - 1) / SLOTS;
        // What has as many words in every launch comes first, at addresses that are known where it is compiled.
        results = memory;
        left = reinterpret_cast<u32*>(results + SLOTS * HALVES * ROWS * GROUP);
        tops = reinterpret_cast<float*>(left + SHARE_WORDS(FORMAT)), sums = tops + SLOTS * ROWS * HALVES;
        query_scales = sums + SLOTS * ROWS * HALVES;
        put_by_numbers = reinterpret_cast<float2*>(query_scales + ROWS);
        arrived = reinterpret_cast<u64*>(put_by_numbers + ROWS);
        chunks = reinterpret_cast<u32*>(arrived + MOST_STAGES * SLOTS);
    }

    __device__ __forceinline__ int chunk_of(int round, int which) const {
        return first_chunk + round * SLOTS + which;
    }
    __device__ __forceinline__ u32* chunk_at(int round, int which) const {
        return chunks + ((round & (stages - 1)) * SLOTS + which) * STAGED_WORDS;
    }
    __device__ __forceinline__ u64* arrived_at(int round, int which) const {
        return arrived + (round & (stages - 1)) * SLOTS + which;
    }
    // Four results of a row; every other row turned by half of the banks.
    __device__ __forceinline__ float4* result_at(int which, int of_half, int row, int component) const {
        return reinterpret_cast<float4*>(results + ((which * HALVES + of_half) * ROWS + row) * GROUP + (component ^ row % 2 * SHARE));
    }
    __device__ __forceinline__ int number_at(int which, int row) const {
        return (which * ROWS + row) * HALVES;
    }
    // This warp's values of a round: some steps of every share.
    __device__ __forceinline__ const u32* values_of(int round, int share) const {
        const u32* chunk = STAGES_VALUES ? chunk_at(round, slot) : operands + (i64)chunk_of(round, slot) * CHUNK_WORDS(FORMAT, 1);
        return chunk + KEY_WORDS + share * SHARE_WORDS(FORMAT) + half * SHARES * STEP_WORDS(FORMAT);
    }
    __device__ __forceinline__ bool is_live(int round) const {
        return chunk_of(round, slot) * CHUNK + half * LINK < context;
    }

    // A slot's chunk of a round on its way, by one thread for each slot.
    __device__ __forceinline__ void send(int round, int which) const {
        int chunk = chunk_of(round, which);
        if (round >= rounds || chunk * CHUNK >= context) return;
        u64* barrier = arrived_at(round, which);
        expect_bytes(barrier, STAGED_WORDS * 4);
        send_bytes(chunk_at(round, which), operands + (i64)chunk * CHUNK_WORDS(FORMAT, 1), STAGED_WORDS * 4, barrier);
    }

    // The first chunks on their way, other values as far as the L2 cache.
    __device__ __forceinline__ void begin() const {
        const int LINES = SHARES * STEP_WORDS(FORMAT) / 32, TOGETHER = 32 / LINES;
#pragma unroll
        for (int share = 0; share < CHUNK_WARPS; share += TOGETHER) {
            if (!STAGES_VALUES && is_live(0)) expect(values_of(0, share + lane / LINES) + lane % LINES * 32);
        }
        if (threadIdx.x >= SLOTS) return;
        for (int stage = 0; stage < stages; stage++) prepare_barrier(arrived_at(stage, threadIdx.x), 1);
        publish_barriers();
        for (int stage = 0; stage < stages; stage++) send(stage, threadIdx.x);
    }

    // A thread's four components of its row of queries as left operands.
    __device__ __forceinline__ void cut_query(const float4& four) const {
        int row = threadIdx.x / LANES, among = threadIdx.x % LANES;
        float top = largest_magnitude(four);
        top = largest_of_row(top);
        if (among == 0) query_scales[row] = scale_for(top);
        Cut cut = cut_four<FORMAT>(four.x, four.y, four.z, four.w, factor_for(top));
        u32* to = left + among / 4 * STEP_WORDS(FORMAT);
        to += (row % BAND * 4 + among % 4) * 4 + row / BAND % 2;
        to[0] = cut.near.x, to[2] = cut.near.y;
        if (FORMAT == SPLIT) to[128] = cut.rest.x, to[130] = cut.rest.y;
    }

    // Waits for the kernel before. Then queries cut, and the answer of own keys, of which `LOADED` at most are seen, if any:
    // those of steps before are on their way while the newest are brought.
    template <int COUNT, int LOADED>
    __device__ __forceinline__ void open_rows(Newest& newest, i64 first_row, int head, int rows, Answer<1>* answer) const {
        int row = threadIdx.x / LANES;
        bool live = row < rows;
        OwnKeys<CAN_PACK, 1, COUNT, LOADED> own;
        own.begin(call, newest.query(row), (int)first_row + (live ? row : 0), head, call.hidden - context, live);
        wait_for_previous();
        newest.send();
        own.send(0);
        newest.keep();
        __syncthreads();
        int component = 4 * (threadIdx.x % LANES);
        cut_query(live && component < head_dim ? four_at(newest.query(row) + component) : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
        if (newest.appends()) own.replace(call.seen - 1, newest.key(row), newest.value(row));
        own.attend(answer);
    }

    // Scores of this half of the chunk that starts here, those that are not seen LEAST, and the largest of each row.
    __device__ __forceinline__ void score(const u32* chunk, int start, Scores& scores) const {
        LeftStep<FORMAT> rows[CHUNK_STEPS];
        const uint4* from = reinterpret_cast<const uint4*>(left) + lane;
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; step++) {
            rows[step].near = from[step * PARTS_OF(FORMAT) * 32];
            if (FORMAT == SPLIT) rows[step].rest = from[(step * PARTS_OF(FORMAT) + 1) * 32];
        }
        const float of_rows[2] = {query_scales[place], query_scales[BAND + place]};
        bool all_seen = start + CHUNK <= context && start >= call.hidden;
#pragma unroll
        for (int index = 0; index < SHARES; index++) {
            int share = half * SHARES + index, column = share * SHARE + quarter * 4;
            multiply_share<FORMAT>(rows, chunk + SCALE_WORDS(1) + share * SHARE_WORDS(FORMAT), head_dim > LINK, scores[index]);
            scale_scores(four_at(reinterpret_cast<const float*>(chunk) + column), of_rows, scores[index]);
            if (!all_seen) hide_scores(start + column, call.hidden, context, scores[index]);
        }
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            float top = LEAST;
#pragma unroll
            for (int index = 0; index < SHARES; index++) top = fmaxf(top, largest_of_four(sums_of_row(scores[index], upper)));
            top = largest_of_quarters(top);
            if (quarter == 0) tops[number_at(slot, upper * BAND + place) + half] = top;
        }
    }

    // Exponents of the scores, as left operands, and their sums.
    __device__ __forceinline__ void weigh(const Scores& scores, LeftStep<FORMAT> (&exponents)[SHARES]) const {
        Cut cuts[2][SHARES];
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int number = number_at(slot, upper * BAND + place);
            float top = fmaxf(tops[number], tops[number + 1]), parts[SHARES];
#pragma unroll
            for (int index = 0; index < SHARES; index++) {
                parts[index] = weigh_share<FORMAT>(sums_of_row(scores[index], upper), top, &cuts[upper][index]);
            }
            if (quarter == 0) sums[number + half] = parts[0] + parts[1];
        }
#pragma unroll
        for (int index = 0; index < SHARES; index++) exponents[index] = LeftStep<FORMAT>(cuts[0][index], cuts[1][index]);
    }

    // Exponents times the values of this half, one link.
    __device__ __forceinline__ void add_values(int round, const LeftStep<FORMAT> (&exponents)[SHARES]) const {
#pragma unroll
        for (int share = 0; share < CHUNK_WARPS; share++) {
            if (share * SHARE >= head_dim) break;
            float chains[2][4] = {};
#pragma unroll
            for (int step = 0; step < SHARES; step++) {
                Cut columns[2];
                load_cut<FORMAT>(values_of(round, share) + step * STEP_WORDS(FORMAT), columns);
                exponents[step].multiply(columns, chains);
            }
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                *result_at(slot, half, upper * BAND + place, share * SHARE + quarter * 4) = sums_of_row(chains, upper);
            }
        }
    }

    // This warp's half of its slot's chunk; what it comes to is there when all have met.
    __device__ __forceinline__ void go_through(int round) const {
        int start = chunk_of(round, slot) * CHUNK;
        Scores scores;
        if (is_live(round)) {
            wait_for_phase(arrived_at(round, slot), (stages == 1 ? round : round >> 1) & 1);
            score(chunk_at(round, slot), start, scores);
        } else if (quarter < 2) {
            int number = number_at(slot, quarter * BAND + place) + half;
            tops[number] = LEAST, sums[number] = 0.0f;
        }
        __syncthreads();
        if (!is_live(round)) return;
        LeftStep<FORMAT> exponents[SHARES];
        weigh(scores, exponents);
        add_values(round, exponents);
    }

    // What a slot came to for this thread's row, but for its numbers.
    __device__ __forceinline__ float4 value_of(int round, int which, bool has_second) const {
        int row = threadIdx.x / LANES, component = 4 * (threadIdx.x % LANES);
        float4 four = *result_at(which, 0, row, component);
        if (has_second) {
            float4 more = *result_at(which, 1, row, component);
            four.x += more.x, four.y += more.y, four.z += more.z, four.w += more.w;
        }
        float4 scale = four_at(reinterpret_cast<const float*>(chunk_at(round, which)) + CHUNK + component);
        return make_float4(four.x * scale.x, four.y * scale.y, four.z * scale.z, four.w * scale.w);
    }

    // Merges what the slots came to for this thread's row. Each of its threads takes one exponential for all of them.
    __device__ __forceinline__ void merge_chunks(int round, Answer<1>* answer) const {
        int row = threadIdx.x / LANES, among = threadIdx.x % LANES, left_over = context - chunk_of(round, 0) * CHUNK;
        float largest = answer->largest, own = 0.0f;
        bool is_seen[SLOTS];
#pragma unroll
        for (int which = 0; which < SLOTS; which++) {
            float2 top = *reinterpret_cast<const float2*>(tops + number_at(which, row));
            float both = fmaxf(top.x, top.y), before = largest;
            is_seen[which] = which * CHUNK < left_over && both > LEAST;
            if (is_seen[which]) largest = fmaxf(largest, both);
            if (among / 2 == which) own = (among % 2 ? both : before) - largest;
        }
        own = exponential_of_negative(own);
#pragma unroll
        for (int which = 0; which < SLOTS; which++) {
            int first = threadIdx.x % 32 / LANES * LANES + 2 * which;
            float before = __shfl_sync(0xffffffffu, own, first), now = __shfl_sync(0xffffffffu, own, first + 1);
            if (is_seen[which]) {
                float2 sum = *reinterpret_cast<const float2*>(sums + number_at(which, row));
                answer->sum = fmaf(sum.x + sum.y, now, answer->sum * before);
                float4 value = value_of(round, which, left_over - which * CHUNK > LINK);
                answer->value[0] = scaled_sum(value, now, scaled(answer->value[0], before));
            }
        }
        answer->largest = largest;
    }

    // A row's answer waits where its first chunk's results were, which only its own threads read.
    __device__ __forceinline__ void put_by(const Answer<1>& answer) const {
        int row = threadIdx.x / LANES;
        *result_at(0, 0, row, 4 * (threadIdx.x % LANES)) = answer.value[0];
        put_by_numbers[row] = make_float2(answer.largest, answer.sum);
    }

    __device__ __forceinline__ void take_up(int row, Answer<1>* answer) const {
        answer->value[0] = *result_at(0, 0, row, 4 * (threadIdx.x % LANES));
        answer->largest = put_by_numbers[row].x, answer->sum = put_by_numbers[row].y;
    }
};

template <int FORMAT>
__device__ __forceinline__ void attend_paths(const Attention& call) {
    typedef PathAttention<FORMAT> Block;
    SHARED_MEMORY(memory);
    int series = count(call.series, call.live), head = blockIdx.y, first = blockIdx.x * Block::ROWS;
    Window window = window_of(call, series);
    if ((int)blockIdx.z >= series || first >= window.series_rows) return wait_for_previous();
    i64 first_row = (i64)blockIdx.z * window.series_rows + first;
    int rows = window.series_rows - first < Block::ROWS ? window.series_rows - first : Block::ROWS;
    Block block(call, memory, window, head);
    // The kernel behind `cut_context` began when that had ended, and this one began later.
    block.begin();
    int own = own_keys(call);
    expect_own_keys<Block>(call, first_row, head, rows);
    typename Block::Newest newest(call, block.results, first_row, head, rows);
    Answer<1> own_answer, answer;
    if (own <= 2) {
        block.template open_rows<2, 2>(newest, first_row, head, rows, &own_answer);
    } else if (own <= 4) {
        block.template open_rows<4, 4>(newest, first_row, head, rows, &own_answer);
    } else if (own <= 6) {
        block.template open_rows<OWN_CHUNK, 6>(newest, first_row, head, rows, &own_answer);
    } else {
        block.template open_rows<OWN_CHUNK, OWN_CHUNK>(newest, first_row, head, rows, &own_answer);
    }
    __syncthreads();
    clear(&answer);
#pragma unroll 1
    for (int round = 0; round < block.rounds; round++) {
        block.go_through(round);
        __syncthreads();
        block.merge_chunks(round, &answer);
        if (round + 1 == block.rounds) break;
        // Nobody overwrites what others still read.
        __syncthreads();
        if (threadIdx.x < PATH_SLOTS) block.send(round + block.stages, threadIdx.x);
    }
    if (own > OWN_CHUNK) {
        block.put_by(answer);
        __syncwarp();
        return finish_rows<OWN_CHUNK, OWN_CHUNK, 1>(block, first_row, head, threadIdx.x / LANES, rows);
    }
    if (own > 0) merge(&answer, own_answer);
    int row = threadIdx.x / LANES;
    if (row < rows) write_answer<Block::CAN_PACK>(call, first_row + row, head, answer);
}
#endif
