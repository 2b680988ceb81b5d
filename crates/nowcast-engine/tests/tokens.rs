//! The operations of token models, run by the CPU device and compared with plain loops.

use std::sync::Arc;

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::{Device, Executable, Launch};
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::operation::{self, EmbedTerm, Operation};
use nowcast_engine::plan::{Element, Plan, PlanBuilder, Section, Tensor};
use nowcast_engine::random::{Stream, uniform_from_64};
use nowcast_engine::token_sampling::{NO_TOKEN, TokenSampling};
use nowcast_engine::weights::WeightList;

const CAPACITY: Live = Live { batch: 3, context: 6, samples: 7 };
const LIVE: Live = Live { batch: 2, context: 5, samples: 4 };

fn prepare(plan: Plan, list: WeightList<'_>) -> Box<dyn Executable> {
    let device = CpuDevice::new(Some(3)).with_poisoned_memory();
    device.load(list).unwrap().prepare(Arc::new(plan)).unwrap()
}

fn launch(token_sampling: TokenSampling) -> Launch {
    Launch { live: LIVE, seed: 77, first_sample: 10, token_sampling }
}

fn read(executable: &mut dyn Executable, tensor: Tensor) -> Vec<f64> {
    let mut values = vec![f64::NAN; tensor.rows.count(LIVE) * tensor.width];
    executable.read(tensor, &mut values);
    values
}

fn noise(index: usize) -> f32 {
    ((index * 7919 % 1009) as f32 / 504.5 - 1.0) * 3.0
}

#[test]
fn embeddings_sum_one_row_of_each_table() {
    let (wide, narrow): (Vec<f32>, Vec<f32>) =
        ((0..9 * 4).map(noise).collect(), (0..5 * 2).map(|i| noise(i + 50)).collect());
    let mut list = WeightList::default();
    let (wide_id, narrow_id) = (list.table(4, wide.clone()), list.table(2, narrow.clone()));
    let mut plan = PlanBuilder::new(CAPACITY, true);
    // One table is chosen by numbers of the series, which its paths share; the other by numbers of each path.
    let of_series = plan.input(Element::I32, Rows::batch().times_context(3), 2);
    let of_paths = plan.input(Element::I32, Rows::batch().times_samples().times(4), 1);
    let tokens = Rows::fixed(3);
    let output = plan.tensor(Rows::batch().times_samples().times(3), 4);
    plan.keep(output);
    plan.push(Operation::Embed(operation::Embed {
        terms: vec![
            EmbedTerm {
                table: wide_id,
                index: of_series,
                groups: Rows::batch(),
                first: Rows::fixed(1).times_context(0),
                column: 1,
                output_column: 0,
            },
            EmbedTerm {
                table: narrow_id,
                index: of_paths,
                groups: Rows::batch().times_samples(),
                first: Rows::fixed(1),
                column: 0,
                output_column: 2,
            },
        ],
        tokens,
        output,
    }));
    let mut executable = prepare(plan.finish().unwrap(), list);
    let length = LIVE.context + 3;
    let series: Vec<i32> = (0..LIVE.batch * length * 2).map(|i| (i * 5 % 9) as i32).collect();
    let paths: Vec<i32> = (0..LIVE.batch * LIVE.samples * 4).map(|i| (i * 3 % 5) as i32).collect();
    executable.write_integers(of_series, &series);
    executable.write_integers(of_paths, &paths);
    executable.run(Section::Prefill, &launch(TokenSampling::default())).unwrap();
    let result = read(&mut *executable, output);
    for path in 0..LIVE.batch * LIVE.samples {
        for token in 0..3 {
            let first = series[(path / LIVE.samples * length + LIVE.context + token) * 2 + 1] as usize;
            let second = paths[path * 4 + 1 + token] as usize;
            for column in 0..4 {
                let own = if column < 2 { 0.0 } else { narrow[second * 2 + column - 2] };
                let expected = f64::from(wide[first * 4 + column] + own);
                assert_eq!(
                    result[(path * 3 + token) * 4 + column],
                    expected,
                    "path {path} token {token} column {column}"
                );
            }
        }
    }
}

#[test]
fn signs_become_bits_with_the_lowest_first_and_zero_is_no_sign() {
    let mut plan = PlanBuilder::new(CAPACITY, true);
    let input = plan.input(Element::F32, Rows::batch(), 5);
    let output = plan.tensor_of(Element::I32, Rows::batch(), 2);
    plan.keep(output);
    plan.push(Operation::QuantiseBits(operation::QuantiseBits { input, first_bits: 3, output }));
    let mut executable = prepare(plan.finish().unwrap(), WeightList::default());
    executable.write(input, &[0.5, -0.5, 1e-30, -0.0, 2.0, 0.0, f32::NAN, -1.0, 3.0, -3.0]);
    executable.run(Section::Prefill, &launch(TokenSampling::default())).unwrap();
    assert_eq!(read(&mut *executable, output), [5.0, 2.0, f64::from(NO_TOKEN), 1.0]);
}

/// Draws for every path from logits per series, then from logits per path that repeat them.
#[test]
fn tokens_are_drawn_from_the_filtered_probabilities_by_each_path_s_own_stream() {
    const VOCABULARY: usize = 40;
    let mut plan = PlanBuilder::new(CAPACITY, true);
    let of_series = plan.input(Element::F32, Rows::batch(), VOCABULARY);
    let streams = plan.input(Element::I32, Rows::batch(), 1);
    let of_paths = plan.tensor(Rows::batch().times_samples(), VOCABULARY);
    plan.push(Operation::RepeatRows(operation::RepeatRows { input: of_series, output: of_paths }));
    let tokens = plan.tensor_of(Element::I32, Rows::batch().times_samples(), 2);
    plan.keep(tokens);
    for (column, logits, shared) in [(0, of_series, true), (1, of_paths, false)] {
        let weights = plan.tensor_of(Element::F64, logits.rows, VOCABULARY);
        plan.push(Operation::SampleToken(operation::SampleToken {
            logits,
            weights,
            shared,
            streams,
            tokens,
            column,
            step: 3,
            position: 1,
        }));
    }
    let mut executable = prepare(plan.finish().unwrap(), WeightList::default());
    let logits: Vec<f32> = (0..LIVE.batch * VOCABULARY).map(noise).collect();
    executable.write(of_series, &logits);
    executable.write_integers(streams, &[5, -9]);
    for sampling in [
        TokenSampling::default(),
        TokenSampling { temperature: 0.6, top_k: 7, ..TokenSampling::default() },
        TokenSampling { top_p: 0.7, ..TokenSampling::default() },
        TokenSampling::GREEDY,
    ] {
        executable.run(Section::Prefill, &launch(sampling)).unwrap();
        let drawn = read(&mut *executable, tokens);
        for path in 0..LIVE.batch * LIVE.samples {
            let (series, sample) = (path / LIVE.samples, path % LIVE.samples);
            let stream = Stream { seed: 77, series: [5, -9i32 as u32][series], sample: 10 + sample as u32, step: 3 };
            let [high, low, ..] = stream.words(1);
            let mut left = uniform_from_64(high, low);
            let probabilities = sampling.probabilities(&logits[series * VOCABULARY..][..VOCABULARY]);
            let expected = probabilities.iter().position(|probability| {
                left -= probability;
                left < 0.0
            });
            assert_eq!(drawn[2 * path], expected.unwrap() as f64, "path {path} {sampling:?}");
            assert_eq!(drawn[2 * path], drawn[2 * path + 1], "shared logits or own");
        }
    }
}
