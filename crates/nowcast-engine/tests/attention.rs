//! The attention kernels against plain loops in `f64`, and against themselves in other company.

use nowcast_engine::cpu::attention::{Decode, Grouped, Prefill, Prefix, Suffix, scratch_len};
use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cpu::pool::ThreadPool;
use proptest::prelude::*;

/// Half a unit in the last place of 1: the relative error of one rounding.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
const SENTINEL: f32 = 12_345.678;

/// A value in -1..1 that depends on its seed and place alone.
fn noise(seed: u64, place: [usize; 4]) -> f32 {
    let mut state = seed;
    for index in place {
        state = (state ^ index as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
    }
    (state.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn query(row: usize, head: usize, component: usize) -> f32 {
    2.0 * noise(1, [row, head, component, 0])
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Attention of one query in `f64`, with a bound on the error of `f32` for each component.
///
/// A score of n products is off by at most 2 n roundings of the magnitude of its terms, and `score - largest` by one
/// more of itself; the exponential adds 2 units. Together they move every `p` by a factor within 1 +- e. The sums over
/// N keys add 2 N roundings above and N below, the division one.
fn twin(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<(f64, f64)> {
    let terms = |key: &Vec<f32>| query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).collect::<Vec<_>>();
    let scores: Vec<f64> = keys.iter().map(|key| terms(key).iter().sum()).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut relative = 0.0f64;
    for (key, score) in keys.iter().zip(&scores) {
        let magnitude: f64 = terms(key).iter().map(|term| term.abs()).sum();
        let error = ROUNDING * (2.0 * query.len() as f64 * magnitude + (score - largest).abs());
        relative = relative.max((error + 4.0 * ROUNDING).exp_m1());
    }
    let p: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = p.iter().sum();
    let count = keys.len() as f64;
    (0..query.len())
        .map(|component| {
            let weighted = |f: fn(f64) -> f64| {
                p.iter().zip(values).map(|(p, value)| p * f(f64::from(value[component]))).sum::<f64>() / sum
            };
            let (value, magnitude) = (weighted(|v| v), weighted(f64::abs));
            let above = (relative + 2.0 * count * ROUNDING) * magnitude;
            let below = (relative + (count + 6.0) * ROUNDING) * value.abs();
            (value, 1.01 * (above + below))
        })
        .collect()
}

fn compare(result: &[f32], twin: &[(f64, f64)], what: &str) {
    assert_eq!(result.len(), twin.len());
    for (index, (result, (exact, bound))) in result.iter().zip(twin).enumerate() {
        let error = (f64::from(*result) - exact).abs();
        assert!(error <= *bound, "{what}, component {index}: {result} for {exact}, error {error:e}, bound {bound:e}");
    }
}

/// Asserts that fused instruction sets agree.
struct Agreement(Option<Vec<u32>>);

impl Agreement {
    fn check(&mut self, set: InstructionSet, result: &[f32]) {
        if set.is_fused() {
            let bits = bits(result);
            assert!(*self.0.get_or_insert_with(|| bits.clone()) == bits, "{} has other digits", set.name());
        }
    }
}

/// The caches of some series, NaN wherever no token lives.
struct PrefixMemory {
    keys: Vec<f32>,
    values: Vec<f32>,
    capacity: usize,
    live: usize,
}

impl PrefixMemory {
    fn new(series: &[usize], heads: usize, head_dim: usize, capacity: usize, live: usize) -> Self {
        let size = series.len() * heads * head_dim * capacity;
        let (mut keys, mut values) = (vec![f32::NAN; size], vec![f32::NAN; size]);
        for (index, series) in series.iter().enumerate() {
            for head in 0..heads {
                for token in 0..live {
                    for component in 0..head_dim {
                        let start = (index * heads + head) * head_dim * capacity;
                        let place = [*series, head, token, component];
                        keys[start + component * capacity + token] = noise(2, place);
                        values[start + token * head_dim + component] = noise(3, place);
                    }
                }
            }
        }
        Self { keys, values, capacity, live }
    }

    fn view(&self) -> Prefix<'_> {
        Prefix { keys: &self.keys, values: &self.values, capacity: self.capacity, first: 0, live: self.live }
    }
}

fn vectors(seed: u64, owner: usize, head: usize, tokens: usize, head_dim: usize) -> Vec<Vec<f32>> {
    let token = |token| (0..head_dim).map(|component| noise(seed, [owner, head, token, component])).collect();
    (0..tokens).map(token).collect()
}

/// Rows of queries; NaN in the padding of a row.
fn queries(rows: &[usize], heads: usize, head_dim: usize, stride: usize) -> Vec<f32> {
    let mut memory = vec![f32::NAN; rows.len() * stride];
    for (index, row) in rows.iter().enumerate() {
        for head in 0..heads {
            for component in 0..head_dim {
                memory[index * stride + head * head_dim + component] = query(*row, head, component);
            }
        }
    }
    memory
}

/// Removes the padding of rows after a check that it was left alone.
fn unpad(output: &[f32], width: usize, stride: usize) -> Vec<f32> {
    let mut result = Vec::new();
    for row in output.chunks(stride) {
        result.extend_from_slice(&row[..width]);
        assert!(row[width..].iter().all(|value| *value == SENTINEL), "padding was touched");
    }
    result
}

#[derive(Clone, Debug)]
struct Case {
    heads: usize,
    head_dim: usize,
    series: Vec<usize>,
    capacity: usize,
    live: usize,
    padding: usize,
}

impl Case {
    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn stride(&self) -> usize {
        self.width() + self.padding
    }

    /// Query row numbers are `series * 1000 + token`.
    fn prefill(&self, count: usize, set: InstructionSet, pool: &ThreadPool) -> Vec<f32> {
        let Self { heads, head_dim, capacity, live, .. } = *self;
        let tokens = live - count..live;
        let rows: Vec<usize> =
            self.series.iter().flat_map(|series| tokens.clone().map(move |token| series * 1000 + token)).collect();
        let query = queries(&rows, heads, head_dim, self.stride());
        let prefix = PrefixMemory::new(&self.series, heads, head_dim, capacity, live);
        let mut output = vec![SENTINEL; rows.len() * self.stride()];
        let mut scratch = vec![f32::NAN; scratch_len(pool.threads(), live, head_dim)];
        let call = Prefill {
            heads,
            head_dim,
            series: self.series.len(),
            queries: count,
            query: &query,
            query_stride: self.stride(),
            prefix: prefix.view(),
            output: &mut output,
            output_stride: self.stride(),
        };
        call.run_with(set, &mut scratch, pool);
        unpad(&output, self.width(), self.stride())
    }

    fn check_prefill(&self, count: usize, pool: &ThreadPool) {
        let mut agreement = Agreement(None);
        for set in InstructionSet::supported() {
            let result = self.prefill(count, set, pool);
            agreement.check(set, &result);
            let mut parts = result.chunks(self.head_dim);
            for series in &self.series {
                for token in self.live - count..self.live {
                    for head in 0..self.heads {
                        let query: Vec<f32> =
                            (0..self.head_dim).map(|component| query(series * 1000 + token, head, component)).collect();
                        let keys = vectors(2, *series, head, token + 1, self.head_dim);
                        let values = vectors(3, *series, head, token + 1, self.head_dim);
                        let what = format!("{} {self:?} token {token} head {head}", set.name());
                        compare(parts.next().unwrap(), &twin(&query, &keys, &values), &what);
                    }
                }
            }
        }
    }

    /// Row numbers of the suffixes are `series * 1000 + sample`; those of queries add a million per token.
    fn decode(&self, samples: usize, own: Own, set: InstructionSet, pool: &ThreadPool) -> Vec<f32> {
        let Self { heads, head_dim, capacity, live, .. } = *self;
        let rows: Vec<usize> =
            self.series.iter().flat_map(|series| (0..samples).map(move |sample| series * 1000 + sample)).collect();
        let asking: Vec<usize> =
            rows.iter().flat_map(|row| (0..own.tokens).map(move |t| row + t * 1_000_000)).collect();
        let query = queries(&asking, heads, head_dim, self.stride());
        let steps = own.seen + own.tokens - 1;
        let prefix = PrefixMemory::new(&self.series, heads, head_dim, capacity, live);
        let step_capacity = steps + self.padding;
        let size = rows.len() * heads * step_capacity * head_dim;
        let (mut keys, mut values) = (vec![f32::NAN; size], vec![f32::NAN; size]);
        for (index, row) in rows.iter().enumerate() {
            for head in 0..heads {
                let start = (index * heads + head) * step_capacity * head_dim;
                for (seed, memory) in [(4, &mut keys), (5, &mut values)] {
                    let own = vectors(seed, *row, head, steps, head_dim).concat();
                    memory[start..start + own.len()].copy_from_slice(&own);
                }
            }
        }
        let mut output = vec![SENTINEL; asking.len() * self.stride()];
        let mut scratch = vec![f32::NAN; scratch_len(pool.threads(), live + steps, head_dim)];
        let hidden = own.hidden.min(live);
        let call = Decode {
            heads,
            head_dim,
            series: self.series.len(),
            samples,
            tokens: own.tokens,
            query: &query,
            query_stride: self.stride(),
            prefix: Prefix { first: hidden, live: live - hidden, ..prefix.view() },
            suffix: Suffix {
                keys: &keys,
                values: &values,
                capacity: step_capacity,
                first: own.hidden - hidden,
                seen: own.seen,
            },
            output: &mut output,
            output_stride: self.stride(),
        };
        call.run_with(set, &mut scratch, pool);
        unpad(&output, self.width(), self.stride())
    }

    fn check_decode(&self, samples: usize, own: Own, pool: &ThreadPool) {
        let mut agreement = Agreement(None);
        for set in InstructionSet::supported() {
            let result = self.decode(samples, own, set, pool);
            agreement.check(set, &result);
            let mut parts = result.chunks(self.head_dim);
            for series in &self.series {
                for (sample, token) in (0..samples).flat_map(|sample| (0..own.tokens).map(move |token| (sample, token)))
                {
                    let row = series * 1000 + sample;
                    let asking = row + token * 1_000_000;
                    for head in 0..self.heads {
                        let query: Vec<f32> =
                            (0..self.head_dim).map(|component| query(asking, head, component)).collect();
                        let seen = |shared: u64, private: u64| {
                            let mut all = vectors(shared, *series, head, self.live, self.head_dim);
                            all.extend(vectors(private, row, head, own.seen + token, self.head_dim));
                            all.split_off(own.hidden)
                        };
                        let what = format!("{} {self:?} {own:?} sample {sample} head {head}", set.name());
                        compare(parts.next().unwrap(), &twin(&query, &seen(2, 4), &seen(3, 5)), &what);
                    }
                }
            }
        }
    }
}

/// What a path sees of its own tokens.
#[derive(Debug, Clone, Copy)]
struct Own {
    /// Queries of a path.
    tokens: usize,
    /// Own tokens that the first of them sees.
    seen: usize,
    /// Oldest tokens out of sight.
    hidden: usize,
}

/// One query that sees some own tokens.
fn one(seen: usize) -> Own {
    Own { tokens: 1, seen, hidden: 0 }
}

#[test]
fn prefill_matches_the_twin() {
    let pool = ThreadPool::new(2);
    let case = Case { heads: 3, head_dim: 64, series: vec![0, 1], capacity: 64, live: 33, padding: 7 };
    case.check_prefill(33, &pool);
    case.check_prefill(1, &pool);
    Case { heads: 2, head_dim: 20, series: vec![5], capacity: 75, live: 75, padding: 0 }.check_prefill(75, &pool);
    Case { heads: 1, head_dim: 1, series: vec![5], capacity: 1, live: 1, padding: 1 }.check_prefill(1, &pool);
}

#[test]
fn decode_matches_the_twin() {
    let pool = ThreadPool::new(2);
    Case { heads: 3, head_dim: 64, series: vec![0, 1], capacity: 40, live: 37, padding: 3 }.check_decode(
        70,
        one(2),
        &pool,
    );
    Case { heads: 2, head_dim: 20, series: vec![4], capacity: 8, live: 8, padding: 0 }.check_decode(9, one(1), &pool);
}

#[test]
fn decode_without_a_suffix_or_a_prefix_matches_the_twin() {
    let pool = ThreadPool::new(2);
    Case { heads: 1, head_dim: 8, series: vec![4], capacity: 8, live: 3, padding: 0 }.check_decode(2, one(0), &pool);
    Case { heads: 1, head_dim: 8, series: vec![4], capacity: 8, live: 0, padding: 0 }.check_decode(2, one(3), &pool);
}

#[test]
fn several_queries_of_a_path_see_one_more_of_its_own_tokens_each() {
    let pool = ThreadPool::new(2);
    let case = Case { heads: 2, head_dim: 20, series: vec![0, 1], capacity: 19, live: 17, padding: 1 };
    for (tokens, seen) in [(5, 1), (3, 4), (11, 1), (4, 0)] {
        case.check_decode(7, Own { tokens, seen, hidden: 0 }, &pool);
    }
    Case { live: 0, ..case }.check_decode(7, Own { tokens: 5, seen: 1, hidden: 0 }, &pool);
}

#[test]
fn hidden_tokens_have_no_influence() {
    let pool = ThreadPool::new(2);
    let case = Case { heads: 2, head_dim: 20, series: vec![0, 1], capacity: 19, live: 17, padding: 1 };
    for hidden in [1, 16, 17, 19] {
        case.check_decode(7, Own { tokens: 1, seen: 4, hidden }, &pool);
        case.check_decode(3, Own { tokens: 3, seen: 4, hidden }, &pool);
    }
}

#[test]
fn the_digits_of_prefill_do_not_depend_on_company() {
    let (one, many) = (ThreadPool::new(1), ThreadPool::new(3));
    let all = Case { heads: 2, head_dim: 40, series: vec![0, 1, 2], capacity: 90, live: 90, padding: 0 };
    for set in InstructionSet::supported() {
        let expected = all.prefill(90, set, &many);
        let width = all.width();
        let alone = Case { series: vec![1], capacity: 101, ..all.clone() };
        assert_eq!(bits(&alone.prefill(90, set, &one)), bits(&expected[90 * width..180 * width]));
        for count in [1, 2, 7, 65] {
            let last = alone.prefill(count, set, &many);
            assert_eq!(bits(&last), bits(&expected[(180 - count) * width..180 * width]), "last {count}");
        }
        // What comes later has no influence.
        for live in [1, 8, 9, 50] {
            let earlier = Case { live, ..alone.clone() }.prefill(live, set, &one);
            assert_eq!(bits(&earlier), bits(&expected[90 * width..(90 + live) * width]), "first {live}");
        }
    }
}

#[test]
fn the_digits_of_decode_do_not_depend_on_company() {
    let (one, many) = (ThreadPool::new(1), ThreadPool::new(3));
    let all = Case { heads: 2, head_dim: 40, series: vec![0, 1, 2], capacity: 45, live: 45, padding: 2 };
    for set in InstructionSet::supported() {
        let expected = all.decode(150, self::one(3), set, &many);
        let width = all.width();
        for samples in [1, 2, 7, 8, 9, 65, 150] {
            let alone = Case { series: vec![1], capacity: 61, padding: 0, ..all.clone() };
            for pool in [&one, &many] {
                let result = alone.decode(samples, self::one(3), set, pool);
                assert_eq!(bits(&result), bits(&expected[150 * width..(150 + samples) * width]), "{samples} samples");
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Variates {
    heads: usize,
    head_dim: usize,
    groups: Vec<Vec<i32>>,
    inner: usize,
    padding: usize,
}

impl Variates {
    /// The query, key or value of a row, numbered `[entry, variate, inner]`.
    fn vector(&self, part: u64, row: [usize; 3], head: usize) -> Vec<f32> {
        let owner = row[0] * 10_000 + row[1] * 100 + row[2];
        (0..self.head_dim).map(|component| noise(10 + part, [owner, head, component, 0])).collect()
    }

    fn run(&self, set: InstructionSet, pool: &ThreadPool, poisoned: Option<i32>) -> Vec<f32> {
        let width = self.heads * self.head_dim;
        let (batch, variates) = (self.groups.len(), self.groups[0].len());
        let stride = 3 * width + 3 * self.padding;
        // Value first, then query, then key, to see that the offsets are heeded.
        let offsets = [width + self.padding, 2 * (width + self.padding), 0];
        let rows = batch * variates * self.inner;
        let mut input = vec![f32::NAN; rows * stride];
        for row in 0..rows {
            let place = [row / self.inner / variates, row / self.inner % variates, row % self.inner];
            if poisoned == Some(self.groups[place[0]][place[1]]) {
                continue;
            }
            for (part, offset) in offsets.iter().enumerate() {
                for head in 0..self.heads {
                    let start = row * stride + offset + head * self.head_dim;
                    input[start..start + self.head_dim].copy_from_slice(&self.vector(part as u64, place, head));
                }
            }
        }
        let output_stride = width + self.padding;
        let mut output = vec![SENTINEL; rows * output_stride];
        let mut scratch = vec![f32::NAN; scratch_len(pool.threads(), variates, self.head_dim)];
        let call = Grouped {
            heads: self.heads,
            head_dim: self.head_dim,
            batch,
            variates,
            inner: self.inner,
            input: &input,
            input_stride: stride,
            offsets,
            groups: &self.groups.concat(),
            output: &mut output,
            output_stride,
        };
        call.run_with(set, &mut scratch, pool);
        unpad(&output, width, output_stride)
    }

    fn check(&self, pool: &ThreadPool) {
        let mut agreement = Agreement(None);
        for set in InstructionSet::supported() {
            let result = self.run(set, pool, None);
            agreement.check(set, &result);
            let mut parts = result.chunks(self.head_dim);
            for (entry, groups) in self.groups.iter().enumerate() {
                for (variate, own) in groups.iter().enumerate() {
                    for inner in 0..self.inner {
                        for head in 0..self.heads {
                            let others = (0..groups.len()).filter(|other| groups[*other] == *own);
                            let (keys, values): (Vec<_>, Vec<_>) = others
                                .map(|other| {
                                    let row = [entry, other, inner];
                                    (self.vector(1, row, head), self.vector(2, row, head))
                                })
                                .unzip();
                            let query = self.vector(0, [entry, variate, inner], head);
                            let what = format!("{} {self:?} variate {variate}", set.name());
                            compare(parts.next().unwrap(), &twin(&query, &keys, &values), &what);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn grouped_matches_the_twin() {
    let pool = ThreadPool::new(2);
    let groups = vec![vec![0, 0, 1, 0, 7, 1, 1], vec![3, 3, 3, 3, 3, 3, 3]];
    Variates { heads: 3, head_dim: 64, groups, inner: 5, padding: 3 }.check(&pool);
    Variates { heads: 1, head_dim: 20, groups: vec![vec![-1; 40]], inner: 1, padding: 0 }.check(&pool);
    Variates { heads: 2, head_dim: 5, groups: vec![vec![9]], inner: 3, padding: 1 }.check(&pool);
}

#[test]
fn other_groups_have_no_influence() {
    let pool = ThreadPool::new(2);
    let case = Variates { heads: 2, head_dim: 24, groups: vec![vec![0, 1, 0, 0, 1, 0]], inner: 2, padding: 0 };
    for set in InstructionSet::supported() {
        let (whole, poisoned) = (case.run(set, &pool, None), case.run(set, &pool, Some(1)));
        for (variate, group) in case.groups[0].iter().enumerate() {
            let rows = variate * 2 * 48..(variate + 1) * 2 * 48;
            if *group == 0 {
                assert_eq!(bits(&whole[rows.clone()]), bits(&poisoned[rows]));
            } else {
                assert!(poisoned[rows].iter().all(|value| value.is_nan()));
            }
        }
    }
}

#[test]
#[should_panic(expected = "scratch")]
fn too_little_scratch_is_refused() {
    let pool = ThreadPool::new(1);
    let prefix = PrefixMemory::new(&[0], 1, 4, 4, 4);
    let (query, mut output) = (vec![0.0; 16], vec![0.0; 16]);
    let call = Prefill {
        heads: 1,
        head_dim: 4,
        series: 1,
        queries: 4,
        query: &query,
        query_stride: 4,
        prefix: prefix.view(),
        output: &mut output,
        output_stride: 4,
    };
    call.run(&mut vec![0.0; scratch_len(1, 4, 4) - 1], &pool);
}

fn cases() -> impl Strategy<Value = (Case, usize)> {
    (1..4usize, 1..70usize, 1..3usize, 1..80usize, 0..20usize, 0..5usize, any::<u8>()).prop_map(
        |(heads, head_dim, series, live, spare, padding, count)| {
            let series = (0..series).collect();
            (Case { heads, head_dim, series, capacity: live + spare, live, padding }, usize::from(count) % live + 1)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_prefill_matches_the_twin((case, count) in cases(), threads in 1..4usize) {
        case.check_prefill(count, &ThreadPool::new(threads));
    }

    #[test]
    fn any_decode_matches_the_twin((case, samples) in cases(), steps in 0..6usize, threads in 1..4usize) {
        case.check_decode(samples, one(steps), &ThreadPool::new(threads));
    }

    #[test]
    fn any_grouping_matches_the_twin(
        (heads, head_dim, inner, padding) in (1..3usize, 1..70usize, 1..4usize, 0..4usize),
        groups in prop::collection::vec(0..3i32, 1..20),
    ) {
        let groups = vec![groups.clone(), groups.into_iter().rev().collect()];
        Variates { heads, head_dim, groups, inner, padding }.check(&ThreadPool::new(2));
    }
}
