//! From what a caller has to what a model answers: prepare, group by shape, plan, run, gather.
//!
//! | file | what it owns |
//! |---|---|
//! | `series` | Toto's forecaster: any series |
//! | `candles` | Kronos' forecaster: bars of a market |
//! | `keeper` | weights and plans, given up and brought back |
//! | `budget` | one memory limit for several forecasters |
//! | [`memory`] | cutting a request to fit |
//! | `plans` | plans kept ready |

mod budget;
mod candles;
mod keeper;
pub mod memory;
pub(crate) mod plans;
mod series;

use nowcast_engine::device::Activity;

pub use budget::MemoryBudget;
pub(crate) use candles::prepare as prepare_candles;
pub use candles::{CandleForecaster, CandleOptions, DEFAULT_PATHS};
pub(crate) use series::prepare as prepare_series;
pub use series::{DEFAULT_SAMPLES, Decode, ForecastOptions, Forecaster, Xpos};

/// What happened inside, counted since the forecaster was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Plans written down, to run or to learn their size.
    pub plans_built: u64,
    /// Runs that found their plan ready.
    pub plans_reused: u64,
    /// Graphs recorded (GPU only).
    pub graphs_captured: u64,
    /// Graphs launched (GPU only).
    pub graphs_replayed: u64,
    /// Graphs that could not be recorded, so that kernels were launched one by one (GPU only).
    pub graph_fallbacks: u64,
    /// Times the host waited for the device in the middle of a forecast.
    pub host_syncs: u64,
    /// Operations performed, a kernel or a few each.
    pub operations_run: u64,
    /// Bytes of the largest plan.
    pub planned_bytes: usize,
}

impl Counters {
    /// What a device did between two looks at it.
    fn add(&mut self, before: Activity, after: Activity) {
        self.graphs_captured += after.graphs_captured - before.graphs_captured;
        self.graphs_replayed += after.graphs_replayed - before.graphs_replayed;
        self.graph_fallbacks += after.graph_fallbacks - before.graph_fallbacks;
        self.host_syncs += after.host_syncs - before.host_syncs;
    }
}
