//! What attention costs: prefill of a context, and decode steps of many samples over a shared prefix.
//!
//! `cargo run --release -p nowcast-engine --example attention_speed [threads]`

use nowcast_engine::cpu::attention::{Decode, Prefill, Prefix, Suffix, scratch_len};
use nowcast_engine::cpu::pool::ThreadPool;
use std::time::Instant;

const HEADS: usize = 12;
const HEAD_DIM: usize = 64;
const STRIDE: usize = HEADS * HEAD_DIM;

/// The best of many runs, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..60).map(time).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, keys: usize, seconds: f64) {
    let operations = (4 * keys * HEAD_DIM * HEADS) as f64;
    println!("{what}: {:8.1} us, {:6.1} GFLOPS", seconds * 1e6, operations / seconds / 1e9);
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let pool = ThreadPool::new(threads);
    println!("{} threads, {HEADS} heads of {HEAD_DIM}", pool.threads());
    let values: Vec<f32> = (0..1024 * 8 * STRIDE).map(|index| (index % 97) as f32 / 97.0 - 0.5).collect();

    for tokens in [8, 64, 512] {
        let size = tokens * STRIDE;
        let mut output = vec![0.0; size];
        let mut scratch = vec![0.0; scratch_len(pool.threads(), tokens, HEAD_DIM)];
        let prefix =
            Prefix { keys: &values[..size], values: &values[..size], capacity: tokens, first: 0, live: tokens };
        let seconds = best(|| {
            let call = Prefill {
                heads: HEADS,
                head_dim: HEAD_DIM,
                series: 1,
                queries: tokens,
                query: &values,
                query_stride: STRIDE,
                prefix,
                output: &mut output,
                output_stride: STRIDE,
            };
            call.run(&mut scratch, &pool);
        });
        report(&format!("prefill of {tokens:4} tokens"), tokens * (tokens + 1) / 2, seconds);
    }

    for (samples, live, steps) in [(8, 8, 1), (256, 8, 1), (256, 8, 5), (256, 64, 1), (256, 64, 5), (1024, 64, 5)] {
        let size = samples * STRIDE;
        let mut output = vec![0.0; size];
        let mut scratch = vec![0.0; scratch_len(pool.threads(), live + steps, HEAD_DIM)];
        let prefix = Prefix { keys: &values, values: &values, capacity: 64, first: 0, live };
        let suffix = Suffix { keys: &values, values: &values, capacity: 8, first: 0, seen: steps };
        let seconds = best(|| {
            let call = Decode {
                heads: HEADS,
                head_dim: HEAD_DIM,
                series: 1,
                samples,
                tokens: 1,
                query: &values,
                query_stride: STRIDE,
                prefix,
                suffix,
                output: &mut output,
                output_stride: STRIDE,
            };
            call.run(&mut scratch, &pool);
        });
        report(&format!("decode of {samples:4} samples, {live:2} + {steps} keys"), samples * (live + steps), seconds);
    }
}
