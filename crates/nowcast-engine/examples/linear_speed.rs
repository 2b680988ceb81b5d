//! How near the linear layer comes to the machine: memory bandwidth for few rows, multiply-adds for many.
//!
//! `cargo run --release -p nowcast-engine --example linear_speed [threads]`
//!
//! The peaks are measured in the same second as the layers, because other programs may share the machine. With one
//! thread, on Linux, processor time is taken, which leaves out the time that other programs ran.

use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cpu::linear::{Addend, Layout, LinearCall, PackedLinear};
use nowcast_engine::cpu::pool::ThreadPool;
use std::hint::black_box;
use std::time::Instant;

/// Seconds of processor time where one thread works, of wall time where several do.
fn seconds(pool: &ThreadPool, origin: Instant) -> f64 {
    #[cfg(target_os = "linux")]
    if pool.threads() == 1 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid, and the clock exists on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        return time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    }
    let _ = pool;
    origin.elapsed().as_secs_f64()
}

/// The sum over the parts of the best of several rounds, in seconds.
fn best(pool: &ThreadPool, rounds: usize, parts: usize, mut work: impl FnMut(usize)) -> f64 {
    let origin = Instant::now();
    let mut times = vec![f64::INFINITY; parts];
    for _ in 0..rounds {
        for (part, time) in times.iter_mut().enumerate() {
            let start = seconds(pool, origin);
            work(part);
            *time = time.min(seconds(pool, origin) - start);
        }
    }
    times.iter().sum()
}

fn linear(inputs: usize, outputs: usize, pool: &ThreadPool) -> PackedLinear {
    let row = |row: usize, values: &mut [f32]| {
        for (index, value) in values.iter_mut().enumerate() {
            *value = ((row * 31 + index * 17) % 64) as f32 / 64.0 - 0.5;
        }
    };
    PackedLinear::pack(Layout::Plain, outputs, inputs, row, None, pool)
}

fn apply(linear: &PackedLinear, rows: usize, input: &[f32], output: &mut [f32], pool: &ThreadPool) {
    let call = LinearCall {
        input,
        input_stride: linear.inputs(),
        rows,
        columns: 0..linear.outputs(),
        output,
        output_stride: linear.outputs(),
        norm_epsilon: None,
        addend: Addend::Nothing,
    };
    linear.apply(call, pool);
}

/// Bytes per second of plain reading, from the same kind of pages as the weights.
fn read_bandwidth(pool: &ThreadPool) -> f64 {
    const PARTS: usize = 12;
    let mut values = vec![0.0f32; (PARTS * 10) << 20];
    values.fill(1.0);
    let size = values.len() / PARTS;
    let seconds = best(pool, 6, PARTS, |part| {
        let values = &values[part * size..][..size];
        pool.for_each_chunk(size, 1 << 16, |range| {
            let mut sums = [0.0; 64];
            for chunk in values[range].chunks_exact(64) {
                for (sum, value) in sums.iter_mut().zip(chunk) {
                    *sum += value;
                }
            }
            black_box(sums);
        });
    });
    (values.len() * size_of::<f32>()) as f64 / seconds
}

/// Floating-point operations per second of independent multiply-adds in registers.
fn peak(pool: &ThreadPool) -> f64 {
    const STEPS: usize = 100_000;
    let seconds = best(pool, 40, 1, |_| pool.run(|_| multiply_adds(STEPS)));
    (STEPS * CHAINS * 2 * pool.threads()) as f64 / seconds
}

const CHAINS: usize = 256;

fn multiply_adds(steps: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            return unsafe { multiply_adds_avx512(steps) };
        }
        if is_x86_feature_detected!("fma") {
            // SAFETY: the feature was just detected.
            return unsafe { multiply_adds_fma(steps) };
        }
    }
    multiply_adds_plain(steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_adds_avx512(steps: usize) {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_set1_ps(1.0); CHAINS / 16];
    let factor = _mm512_set1_ps(black_box(0.999));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, factor);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,fma")]
fn multiply_adds_fma(steps: usize) {
    use std::arch::x86_64::*;
    let factor = _mm256_set1_ps(black_box(0.999));
    for _ in 0..CHAINS / 64 {
        let mut sums = [_mm256_set1_ps(1.0); 8];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
    }
}

fn multiply_adds_plain(steps: usize) {
    let factor = black_box(0.999f32);
    let mut sums = [1.0f32; CHAINS];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = sum.mul_add(factor, factor);
        }
    }
    black_box(sums);
}

fn main() {
    let threads =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(ThreadPool::available_threads);
    let pool = ThreadPool::new(threads);
    println!("{} threads, {}", pool.threads(), InstructionSet::detected().name());

    let start = Instant::now();
    let layers: Vec<PackedLinear> = (0..12).map(|_| linear(768, 12_288, &pool)).collect();
    let bytes: usize = layers.iter().map(PackedLinear::bytes).sum();
    println!("packed {} MB in {:.0} ms", bytes / 1_000_000, start.elapsed().as_secs_f64() * 1e3);
    for rows in [1, 2, 8, 9, 16, 32, 64] {
        let (input, mut output) = (vec![0.5; rows * 768], vec![0.0; rows * 12_288]);
        let bandwidth = read_bandwidth(&pool);
        let seconds = best(&pool, 6, layers.len(), |layer| apply(&layers[layer], rows, &input, &mut output, &pool));
        let speed = bytes as f64 / seconds;
        println!(
            "{rows:5} rows: {:6.1} GB/s of {:6.1} read, {:3.0}%",
            speed / 1e9,
            bandwidth / 1e9,
            100.0 * speed / bandwidth
        );
    }
    drop(layers);

    for (inputs, outputs, rows) in
        [(768, 2304, 64), (768, 2304, 512), (768, 2304, 2048), (3072, 768, 512), (3072, 768, 2048), (768, 6144, 2048)]
    {
        let layer = linear(inputs, outputs, &pool);
        let (mut input, mut output) = (vec![0.0; rows * inputs], vec![0.0; rows * outputs]);
        input.fill(0.5);
        let peak = peak(&pool);
        let seconds = best(&pool, 8, 1, |_| apply(&layer, rows, &input, &mut output, &pool));
        let speed = 2.0 * (inputs * outputs * rows) as f64 / seconds;
        println!(
            "{rows:5} x {inputs} x {outputs}: {:7.1} GFLOPS of {:7.1} peak, {:3.0}%",
            speed / 1e9,
            peak / 1e9,
            100.0 * speed / peak
        );
    }

    let empty = best(&pool, 2000, 1, |_| pool.run(|_| {}));
    println!("empty parallel region: {:.2} us", empty * 1e6);
}
