//! What a parallel region costs beside its work: fork, join, and a sleeping worker's waking.
//!
//! `cargo run --release -p nowcast-engine --example pool_speed`

use nowcast_engine::cpu::pool::ThreadPool;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Regions timed together.
const REGIONS: u32 = 1000;

/// Microseconds of one region, the median of many rounds.
fn region(pool: &ThreadPool, rounds: usize, pause: Duration) -> f64 {
    let regions = if pause.is_zero() { REGIONS } else { 1 };
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            std::thread::sleep(pause);
            let start = Instant::now();
            (0..regions).for_each(|_| pool.run(|thread| _ = black_box(thread)));
            start.elapsed().as_secs_f64() * 1e6 / f64::from(regions)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

fn main() {
    for threads in [1, 2, 4, 8] {
        let pool = ThreadPool::new(threads);
        let busy = region(&pool, 51, Duration::ZERO);
        let asleep = region(&pool, 51, Duration::from_millis(2));
        println!("{threads} threads: {busy:.2} us a region, {asleep:.1} us after a rest of 2 ms");
    }
}
