//! Measures draws, exact mixtures and their quantiles for a Toto head, on one thread.
//!
//! `cargo run --release -p nowcast-engine --example mixture_speed`

use nowcast_engine::cpu::mixture::{Affine, Draws, HeadOutput, Output, exact, mean, sample};
use nowcast_engine::head::Head;
use nowcast_engine::random::philox;
use std::hint::black_box;
use std::time::Instant;

const COMPONENTS: usize = 24;
const POSITIONS: usize = 64;
const SAMPLES: usize = 256;
const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Median time of a piece of work, in microseconds.
fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..101)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let head = Head::Mixture { components: COMPONENTS };
    let width = POSITIONS * head.values();
    let raw: Vec<f32> = (0..SAMPLES * width)
        .map(|index| (philox([index as u32, 0, 0, 0], [0, 0])[0] as f32 / 2_147_483_648.0 - 1.0) * 2.0)
        .collect();
    let affine = Affine { location: &[100.0], scale: &[3.0], row_stride: 0, position_stride: 0 };
    let input = HeadOutput { head, raw: &raw, row_stride: width, positions: POSITIONS, affine };
    let mut values = vec![0.0; SAMPLES * POSITIONS];
    for (shared, name) in [(true, "shared parameters"), (false, "own parameters")] {
        let draws = Draws { seed: 1, step: 0, series_keys: &[7], samples: SAMPLES, first_sample: 0, shared };
        let time = median(|| {
            let mut output = Output { values: &mut values, row_stride: POSITIONS };
            sample(&input, &draws, 0..SAMPLES, &mut output).expect("the shapes agree");
        });
        println!("{} draws, {name}: {time:.0} us", SAMPLES * POSITIONS);
    }
    let time = median(|| {
        let mut output = Output { values: &mut values, row_stride: POSITIONS };
        mean(&input, 0..1, &mut output).expect("the shapes agree");
    });
    println!("{POSITIONS} means: {time:.1} us");
    let build = || (0..POSITIONS).map(|position| exact(&input, 0, position).expect("sane")).collect::<Vec<_>>();
    println!("{POSITIONS} exact mixtures: {:.0} us", median(|| drop(black_box(build()))));
    let mixtures = build();
    let time = median(|| mixtures.iter().for_each(|mixture| drop(black_box(mixture.quantiles(&LEVELS)))));
    println!("{} quantiles: {time:.0} us", POSITIONS * LEVELS.len());
    let time = median(|| mixtures.iter().for_each(|mixture| _ = black_box(mixture.cdf(black_box(101.0)))));
    println!("{POSITIONS} distribution functions: {time:.1} us");
}
