// Attention in chunks of 64 keys on tensor cores, for any number of queries.
//
// For one query and head, a chunk gives its largest score, the sum of `p = exp(score - largest)` and the sum of
// `p * value`; chunks are merged in order, then chunks of eight of the path's own keys. Four warps share a chunk: each has
// sixteen of its keys for all rows of the block, and then sixteen of its components. So every key and value is read and
// cut once, into the registers of the one lane that hands it to the tensor cores; rows and exponents are left operands in
// shared memory, in the order of fragments.cuh. Chains cover 32 components, then 32 keys, and are added in order, to
// nearest: a row's digits do not depend on how many rows or chunks are gone through at once.
#pragma once

#include "attention_operands.cuh"
#include "attention_own.cuh"
#include "cluster.cuh"
#include "context_operands.cuh"

// Blocks that share the chunks of a few rows, and of some more.
#define FEW_BLOCKS 4
#define PAIR_BLOCKS 2

// Grid: tiles of `16 * TILES` rows of one series, times the blocks of a cluster, heads, series. `SHARERS` times four warps of
// each of `BLOCKS` take chunks side by side and leave what they come to in shared memory, from where it is merged in order by
// sixteen threads for each row, in the first block of a cluster. `IS_CUT`: keys and values are as context_operands.cuh has them.
template <int FORMAT, int TILES, int SHARERS, int GROUPS, int BLOCKS, bool IS_CUT>
struct ChunkAttention {
    static const int ROWS = TILES * TILE_ROWS, OWN_GROUPS = GROUPS;
    static const bool CAN_PACK = FORMAT != SPLIT;
    // Of a row of results.
    static const int STRIDE = GROUPS * GROUP + SHARE;
    static const int THREADS = SHARERS * CHUNK_THREADS;
    // Rows of results of all sharers.
    static const int ALL_ROWS = SHARERS * ROWS;
    // Keys of a round.
    static const int ROUND = BLOCKS * SHARERS * CHUNK;
    // Rows that a thread merges, if any.
    static const int OWNED = ROWS * LANES > THREADS ? ROWS * LANES / THREADS : 1;
    // Few rows: one block more, as attention_own_block.cuh has it. Of small heads every block rotates the queries for itself.
    static const bool HAS_OWN_BLOCK = BLOCKS == FEW_BLOCKS, ROTATES = HAS_OWN_BLOCK && GROUPS == 1;
    static const int CLUSTER = BLOCKS + HAS_OWN_BLOCK;
    // Where exponents and results will be.
    static const int OPENING_WORDS = SHARERS * (TILES * CHUNK_STEPS * STEP_WORDS(FORMAT) + ROWS * STRIDE);
    const Attention& call;
    int head_dim, links, lane, place, quarter, warp, sharer;
    // Where this sharer's next chunk starts, the end of the keys that any row sees, and that of all keys.
    int start, end, context;
    // [tiles, steps, parts, 32, 4] and [rows]; for each sharer [tiles, 4 steps, parts, 32, 4].
    u32 *queries, *exponents;
    float* query_scales;
    // For each sharer [rows, STRIDE], and as much for own chunks of another block; of every sharer [rows, 4 warps] twice, and
    // [rows].
    float *results, *tops, *sums, *largest;
    const float *keys, *values;
    // All chunks of the head.
    const u32* operands;
    // A warp's share of keys, or of values, of a cut chunk, and its scales: of a lane's four keys; of its components in each
    // group.
    struct CutKeys {
        Cut of[GROUPS * CHUNK_STEPS][2];
        float4 scale;
    };
    struct CutValues {
        Cut of[GROUPS][CHUNK_STEPS][2];
        float4 scales[GROUPS];
    };

    __device__ __forceinline__ ChunkAttention(const Attention& attention, float* memory, i64 prefix, int first, int last,
                                              int all)
        : call(attention), head_dim(attention.head_dim) {
        links = (head_dim + LINK - 1) / LINK, lane = threadIdx.x % 32, place = lane / 4, quarter = lane % 4;
        sharer = SHARERS == 1 ? 0 : threadIdx.x / CHUNK_THREADS, warp = threadIdx.x / 32 % CHUNK_WARPS;
        start = first + ((BLOCKS == 1 ? 0 : blockIdx.x % CLUSTER) * SHARERS + sharer) * CHUNK, end = last, context = all;
        const int exponent_words = TILES * CHUNK_STEPS * STEP_WORDS(FORMAT);
        queries = reinterpret_cast<u32*>(memory);
        memory += TILES * links * STEPS * STEP_WORDS(FORMAT);
        query_scales = memory;
        exponents = reinterpret_cast<u32*>(memory + ROWS) + sharer * exponent_words;
        memory += ROWS + SHARERS * exponent_words;
        results = memory;
        tops = results + (ALL_ROWS + HAS_OWN_BLOCK * ROWS) * STRIDE;
        sums = tops + ALL_ROWS * CHUNK_WARPS;
        largest = sums + ALL_ROWS * CHUNK_WARPS;
        keys = attention.prefix_keys + prefix, values = attention.prefix_values + prefix;
        operands = attention.operands + ((i64)blockIdx.z * call.heads + blockIdx.y) * call.chunks * CHUNK_WORDS(FORMAT, GROUPS);
    }

    // Room for the newest tokens until exponents and results need it.
    __device__ __forceinline__ float* opening() const {
        return query_scales + ROWS;
    }

    // A sharer behind the last chunk looks at that one, in vain.
    __device__ __forceinline__ const u32* cut_chunk() const {
        return operands + (i64)((start < end ? start : end - 1) / CHUNK) * CHUNK_WORDS(FORMAT, GROUPS);
    }
    // Values of this warp's components of a group.
    __device__ __forceinline__ const u32* cut_values(int group) const {
        return cut_chunk() + SCALE_WORDS(GROUPS) + SIDE_WORDS(FORMAT, GROUPS) + (group * CHUNK_WARPS + warp) * SHARE_WORDS(FORMAT);
    }

    // The scales of keys, then of components.
    __device__ __forceinline__ const float* cut_scales() const {
        return reinterpret_cast<const float*>(cut_chunk());
    }

    // This warp's keys on their way, and its values as far as the L2 cache. What is loaded in branches would keep its
    // registers from round to round: behind the head's end comes what stands before it, once more.
    __device__ __forceinline__ CutKeys load_cut_keys() const {
        CutKeys cut;
        const u32* share = cut_chunk() + SCALE_WORDS(GROUPS) + warp * GROUPS * SHARE_WORDS(FORMAT);
#pragma unroll
        for (int step = 0; step < GROUPS * CHUNK_STEPS; step++) {
            load_cut<FORMAT>(share + (step < links * STEPS ? step : 0) * STEP_WORDS(FORMAT), cut.of[step]);
        }
        cut.scale = four_at(cut_scales() + warp * SHARE + quarter * 4);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (lane * 32 < SHARE_WORDS(FORMAT)) expect(cut_values(group) + lane * 32);
        }
        return cut;
    }

    // This warp's values of all groups on their way, in the registers where keys were.
    __device__ __forceinline__ CutValues load_cut_values() const {
        CutValues cut;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int inside = group * GROUP < head_dim ? group : 0;
#pragma unroll
            for (int step = 0; step < CHUNK_STEPS; step++) {
                load_cut<FORMAT>(cut_values(inside) + step * STEP_WORDS(FORMAT), cut.of[group][step]);
            }
            cut.scales[group] = four_at(cut_scales() + CHUNK + inside * GROUP + warp * SHARE + quarter * 4);
        }
        return cut;
    }

    __device__ __forceinline__ u32* query_step(int tile, int step) const {
        return queries + (tile * links * STEPS + step) * STEP_WORDS(FORMAT);
    }

    __device__ __forceinline__ u32* exponent_step(int tile, int step) const {
        return exponents + (tile * CHUNK_STEPS + step) * STEP_WORDS(FORMAT);
    }

    // Cuts the rows of the block, of which so many are live, from where their queries are: sixteen threads each.
    template <typename Place>
    __device__ __forceinline__ void cut_queries(int rows, Place query_of) const {
        int among = threadIdx.x % LANES;
#pragma unroll 1
        for (int row = threadIdx.x / LANES; row < ROWS; row += THREADS / LANES) {
            const float* from = query_of(row);
            float4 four[GROUPS];
            float top = 0.0f;
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                int component = group * GROUP + among * 4;
                four[group] = row < rows && component < head_dim ? four_at(from + component) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) top = fmaxf(top, largest_magnitude(four[group]));
            top = largest_of_row(top);
            float factor = factor_for(top);
            if (among == 0) query_scales[row] = scale_for(top);
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                int step = group * CHUNK_STEPS + among / 4;
                if (step >= links * STEPS) break;
                Cut cut = cut_four<FORMAT>(four[group].x, four[group].y, four[group].z, four[group].w, factor);
                u32* to = query_step(row / TILE_ROWS, step) + (row % BAND * 4 + among % 4) * 4 + row / BAND % 2;
                to[0] = cut.near.x, to[2] = cut.near.y;
                if (FORMAT == SPLIT) to[128] = cut.rest.x, to[130] = cut.rest.y;
            }
        }
    }

    // A lane's keys and, of a group, its components.
    __device__ __forceinline__ void load_keys(int from, int group, ChunkPairs* pairs) const {
        pairs->load_keys(keys, call.prefix_capacity, head_dim, from + warp * SHARE + 2 * place, group * GROUP + quarter * 4);
    }

    __device__ __forceinline__ void load_values(int group, ChunkPairs* pairs) const {
        pairs->load_values(values, head_dim, group * GROUP + warp * SHARE + 2 * place, start + quarter * 4, context - 1);
    }

    // What a lane's four results of a row are multiplied with: it has neighbouring columns of the right operand.
    __device__ __forceinline__ float4 scales_of_results(const float2& top) const {
        float2 scale = make_float2(scale_for(top.x), scale_for(top.y));
        int from = quarter * 8;
        return make_float4(__shfl_sync(0xffffffffu, scale.x, from), __shfl_sync(0xffffffffu, scale.y, from),
                           __shfl_sync(0xffffffffu, scale.x, from + 4), __shfl_sync(0xffffffffu, scale.y, from + 4));
    }

    // The same of keys that were cut.
    __device__ __forceinline__ void score_cut(const CutKeys& cut, float (&scores)[TILES][2][4]) const {
#pragma unroll
        for (int link = 0; link < GROUPS * GROUP / LINK; link++) {
            if (link >= links) break;
            const Cut(&columns)[STEPS][2] = reinterpret_cast<const Cut(&)[STEPS][2]>(cut.of[link * STEPS]);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                add_link<FORMAT>(query_step(tile, link * STEPS), columns, link == 0, scores[tile]);
            }
        }
        scale_scores(cut.scale, scores);
    }

    // Scores of this warp's keys: of each tile both columns' four sums, scaled.
    __device__ __forceinline__ void score(ChunkPairs* pairs, float (&scores)[TILES][2][4]) const {
        float2 top = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (GROUPS > 1) load_keys(start, group, pairs);
            pairs->widen(&top);
        }
        top = largest_of_columns(top);
        float2 factor = make_float2(factor_for(top.x), factor_for(top.y));
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (GROUPS > 1) load_keys(start, group, pairs);
#pragma unroll
            for (int half = 0; half < GROUP / LINK; half++) {
                int link = group * (GROUP / LINK) + half;
                if (link >= links) break;
                Cut columns[STEPS][2];
#pragma unroll
                for (int step = 0; step < STEPS; step++) pairs->cut_step<FORMAT>(half * STEPS + step, factor, columns[step]);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    add_link<FORMAT>(query_step(tile, link * STEPS), columns, link == 0, scores[tile]);
                }
            }
        }
        scale_scores(scales_of_results(top), scores);
    }

    __device__ __forceinline__ void scale_scores(const float4& scale, float (&scores)[TILES][2][4]) const {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                float of_row = query_scales[tile * TILE_ROWS + upper * BAND + place];
                scores[tile][0][2 * upper] *= scale.x * of_row;
                scores[tile][1][2 * upper] *= scale.y * of_row;
                scores[tile][0][2 * upper + 1] *= scale.z * of_row;
                scores[tile][1][2 * upper + 1] *= scale.w * of_row;
            }
        }
    }

    // Replaces scores by LEAST where they are not seen, and leaves the largest of each row for the other warps.
    __device__ __forceinline__ void leave_tops(const Window& window, int first, int hidden, float (&scores)[TILES][2][4]) const {
        bool all_seen = start + CHUNK <= visible_keys(window, first) && start >= hidden;
        int key = start + warp * SHARE + quarter * 4;
#pragma unroll
        for (int index = 0; index < 2 * TILES; index++) {
            int row = index * BAND + place, upper = index % 2;
            float(&low)[4] = scores[index / 2][0], (&high)[4] = scores[index / 2][1];
            if (!all_seen) {
                int visible = visible_keys(window, first + row);
                auto sees = [&](int next) { return key + next < visible && key + next >= hidden; };
                low[2 * upper] = sees(0) ? low[2 * upper] : LEAST;
                high[2 * upper] = sees(1) ? high[2 * upper] : LEAST;
                low[2 * upper + 1] = sees(2) ? low[2 * upper + 1] : LEAST;
                high[2 * upper + 1] = sees(3) ? high[2 * upper + 1] : LEAST;
            }
            float top = fmaxf(fmaxf(low[2 * upper], high[2 * upper]), fmaxf(low[2 * upper + 1], high[2 * upper + 1]));
            top = largest_of_quarters(top);
            if (quarter == 0) tops[(sharer * ROWS + row) * CHUNK_WARPS + warp] = top;
        }
    }

    // Exponents of the scores, as the left operand of the values, and their sums. What is not seen has none.
    __device__ __forceinline__ void weigh(const float (&scores)[TILES][2][4]) const {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const float(&low)[4] = scores[tile][0], (&high)[4] = scores[tile][1];
            Cut cuts[2];
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                int row = sharer * ROWS + tile * TILE_ROWS + upper * BAND + place;
                float4 all = four_at(tops + row * CHUNK_WARPS);
                float top = fmaxf(fmaxf(all.x, all.y), fmaxf(all.z, all.w));
                float first = exponential_of_negative(low[2 * upper] - top), second = exponential_of_negative(high[2 * upper] - top);
                float third = exponential_of_negative(low[2 * upper + 1] - top), fourth = exponential_of_negative(high[2 * upper + 1] - top);
                float sum = (first + second) + (third + fourth);
                sum += __shfl_xor_sync(0xffffffffu, sum, 1);
                sum += __shfl_xor_sync(0xffffffffu, sum, 2);
                if (quarter == 0) sums[row * CHUNK_WARPS + warp] = sum;
                if (quarter == 0 && warp == 0) largest[row] = top;
                cuts[upper] = cut_four<FORMAT>(first, second, third, fourth, power_of_two(LARGEST_EXPONENT));
            }
            uint4* to = reinterpret_cast<uint4*>(exponent_step(tile, warp)) + lane;
            to[0] = make_uint4(cuts[0].near.x, cuts[1].near.x, cuts[0].near.y, cuts[1].near.y);
            if (FORMAT == SPLIT) to[32] = make_uint4(cuts[0].rest.x, cuts[1].rest.x, cuts[0].rest.y, cuts[1].rest.y);
        }
    }

    // Values that were cut times exponents.
    __device__ __forceinline__ void add_cut_values(const CutValues& cut) const {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (group * GROUP >= head_dim) break;
            float totals[TILES][2][4];
#pragma unroll
            for (int link = 0; link < CHUNK / LINK; link++) {
                if (link > 0 && end - start <= LINK) break;
                const Cut(&columns)[STEPS][2] = reinterpret_cast<const Cut(&)[STEPS][2]>(cut.of[group][link * STEPS]);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    add_link<FORMAT>(exponent_step(tile, link * STEPS), columns, link == 0, totals[tile]);
                }
            }
            leave_results(group * GROUP + warp * SHARE + quarter * 4, cut.scales[group], totals);
        }
    }

    // Results of this warp's rows and components, for those who merge.
    __device__ __forceinline__ void leave_results(int component, const float4& scale, const float (&totals)[TILES][2][4]) const {
#pragma unroll
        for (int index = 0; index < 2 * TILES; index++) {
            int row = sharer * ROWS + index * BAND + place, upper = index % 2;
            const float(&low)[4] = totals[index / 2][0], (&high)[4] = totals[index / 2][1];
            float4 four = make_float4(low[2 * upper] * scale.x, high[2 * upper] * scale.y, low[2 * upper + 1] * scale.z,
                                      high[2 * upper + 1] * scale.w);
            *reinterpret_cast<float4*>(results + row * STRIDE + component) = four;
        }
    }

    // The chunk's values times exponents, this warp's components of every group.
    __device__ __forceinline__ void add_values(ChunkPairs* pairs) const {
        bool has_second = end - start > LINK;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = group * GROUP + warp * SHARE;
            if (group * GROUP >= head_dim) break;
            if (group > 0) load_values(group, pairs);
            float2 top = make_float2(0.0f, 0.0f);
            pairs->widen(&top);
            top = largest_of_columns(top);
            float2 factor = make_float2(factor_for(top.x), factor_for(top.y));
            float4 scale = scaled(scales_of_results(top), power_of_two(-LARGEST_EXPONENT));
            float totals[TILES][2][4];
#pragma unroll
            for (int link = 0; link < CHUNK / LINK; link++) {
                if (link > 0 && !has_second) break;
                Cut columns[STEPS][2];
#pragma unroll
                for (int step = 0; step < STEPS; step++) pairs->cut_step<FORMAT>(link * STEPS + step, factor, columns[step]);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    add_link<FORMAT>(exponent_step(tile, link * STEPS), columns, link == 0, totals[tile]);
                }
            }
            leave_results(component + quarter * 4, scale, totals);
        }
    }

    // One chunk for this sharer: its keys are on their way in `pairs`, or in `cut`. What it comes to is there when all have met.
    __device__ __forceinline__ void go_through(const Window& window, int first, int hidden, ChunkPairs* pairs, const CutKeys& cut) const {
        float scores[TILES][2][4];
        CutValues values;
        if constexpr (IS_CUT) {
            score_cut(cut, scores);
            values = load_cut_values();
        } else {
            score(pairs, scores);
            load_values(0, pairs);
        }
        leave_tops(window, first, hidden, scores);
        __syncthreads();
        weigh(scores);
        __syncthreads();
        if constexpr (IS_CUT) {
            add_cut_values(values);
        } else {
            add_values(pairs);
        }
    }

    // Comes to a meeting, and waits for the others unless it leaves.
    __device__ __forceinline__ static void part(bool leaves) {
#ifdef HAS_CLUSTERS
        arrive_in_cluster();
        if (!leaves) wait_in_cluster();
#endif
    }

    // Waits until all sharers are here.
    __device__ __forceinline__ static void meet() {
        if (BLOCKS == 1) __syncthreads();
#ifdef HAS_CLUSTERS
        if (BLOCKS > 1) arrive_in_cluster(), wait_in_cluster();
#endif
    }

    // The same place in the shared memory of a block of the cluster.
    __device__ __forceinline__ static float* of_block(float* place, int block) {
#ifdef HAS_CLUSTERS
        if (BLOCKS > 1) return in_peer(place, block);
#endif
        return place;
    }

    // Merges what the sharers came to for a row, whose sixteen threads come here; of a cluster, those of the first block. What
    // stands behind the head's end is never written out.
    __device__ __forceinline__ void merge_chunks(int row, Answer<GROUPS>* answer) const {
        int component = 4 * (threadIdx.x % LANES);
        // Chunks asked for together: few rows of small heads leave registers for all.
        const int ALL = BLOCKS * SHARERS, MOST = ROTATES ? 8 : 4, TOGETHER = ALL < MOST ? ALL : MOST;
#pragma unroll
        for (int first = 0; first < ALL; first += TOGETHER) {
            // The first sharer's chunk comes first. What chunks behind the end left is nobody's.
            if (start + (first - sharer) * CHUNK >= end) break;
            Answer<GROUPS> chunks[TOGETHER];
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                int block = (first + next) / SHARERS, at = (first + next) % SHARERS * ROWS + row;
                Answer<GROUPS>& chunk = chunks[next];
                float4 parts = four_at(of_block(sums + at * CHUNK_WARPS, block));
                chunk.largest = *of_block(largest + at, block), chunk.sum = (parts.x + parts.y) + (parts.z + parts.w);
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    chunk.value[group] = four_at(of_block(results + at * STRIDE + component + group * GROUP, block));
                }
            }
#pragma unroll
            for (int next = 0; next < TOGETHER; next++) {
                bool is_there = start + (first + next - sharer) * CHUNK < end;
                if (is_there && chunks[next].largest > LEAST) merge(answer, chunks[next]);
            }
        }
    }

    // A row's answer waits where its first chunk's results were, which only its own threads read.
    __device__ __forceinline__ void put_by(int row, const Answer<GROUPS>& answer) const {
        put(results, row, answer);
    }
    // An own chunk waits in the first block, behind the results of all sharers.
    __device__ __forceinline__ void put_by_first(int item, const Answer<GROUPS>& chunk) const {
        put(of_block(results, 0), ALL_ROWS + item, chunk);
    }

    __device__ __forceinline__ static void put(float* rows, int row, const Answer<GROUPS>& answer) {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = 4 * (threadIdx.x % LANES) + group * GROUP;
            *reinterpret_cast<float4*>(rows + row * STRIDE + component) = answer.value[group];
        }
        *reinterpret_cast<float2*>(rows + row * STRIDE + GROUPS * GROUP) = make_float2(answer.largest, answer.sum);
    }

    __device__ __forceinline__ void take_up(int row, Answer<GROUPS>* answer) const {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            int component = 4 * (threadIdx.x % LANES) + group * GROUP;
            answer->value[group] = four_at(results + row * STRIDE + component);
        }
        float2 numbers = *reinterpret_cast<const float2*>(results + row * STRIDE + GROUPS * GROUP);
        answer->largest = numbers.x, answer->sum = numbers.y;
    }

};
