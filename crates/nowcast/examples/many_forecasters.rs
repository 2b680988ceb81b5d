//! Several forecasters at work at once in one process: how many forecasts they finish together.
//!
//! `cargo run --release -p nowcast --example many_forecasters -- MODEL [THREADS] [SECONDS]`

use std::sync::Barrier;
use std::time::{Duration, Instant};

use nowcast::device::CpuDevice;
use nowcast::toto::LoadOptions;
use nowcast::{ForecastOptions, Forecaster, Result, Series};

/// Forecasters that work at the same time, row by row.
const FORECASTERS: [usize; 4] = [1, 2, 4, 8];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or_else(|| "nano".into());
    let threads = arguments.next().and_then(|number| number.parse().ok());
    let seconds = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(2.0);
    let source = nowcast::checkpoint::resolve(&model, &nowcast::checkpoint::HubOptions::from_environment())?;
    for count in FORECASTERS {
        let load = |_| {
            let device = std::sync::Arc::new(CpuDevice::new(threads));
            Forecaster::load_with(&source, device, LoadOptions::default())
        };
        let forecasters = (0..count).map(load).collect::<Result<Vec<_>>>()?;
        let mut times = together(forecasters, Duration::from_secs_f64(seconds))?;
        let total = times.len();
        times.sort_by(f64::total_cmp);
        println!(
            "{count} forecasters: {:.1} forecasts per second together; one takes {:.2} ms, 99% {:.2} ms",
            total as f64 / seconds,
            times[total / 2],
            times[total * 99 / 100]
        );
    }
    Ok(())
}

/// Milliseconds of every forecast that they finish within the time.
fn together(forecasters: Vec<Forecaster>, time: Duration) -> Result<Vec<f64>> {
    let start = Barrier::new(forecasters.len());
    let work = |mut forecaster: Forecaster| -> Result<Vec<f64>> {
        let closes = (0..512).map(|step| 100.0 + (step as f32 / 7.0).sin()).collect();
        let series = [Series::new("close", closes)?];
        let mut options = ForecastOptions::new(8);
        options.samples = Some(256);
        options.context = Some(512);
        // The first forecast writes the plan.
        forecaster.forecast(&series, &options)?;
        start.wait();
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < time {
            let started = Instant::now();
            forecaster.forecast(&series, &options)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = forecasters.into_iter().map(|forecaster| scope.spawn(|| work(forecaster))).collect();
        let mut times = Vec::new();
        for thread in running {
            times.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(times)
    })
}
