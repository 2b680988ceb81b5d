//! Whether every way to run a model computes the same.
//!
//! The baseline is the eager mode in f32: operation by operation, nothing folded or fused. Every other [`Way`] is held
//! against it after one step (what the first tokens are predicted from), after several (each fed back into the next)
//! and in between (keys and values of every layer, live rows only), over a grid of contexts and batches. What must not
//! change at all is compared digit by digit: a series alone and in company, whole and in pieces under a memory limit,
//! on one thread and on all, a second time. Counters must stand still after the first forecast, and no way may take much
//! more memory than the eager one.
//!
//! | file | what it owns |
//! |---|---|
//! | `rounding` | how far apart two computations may be |
//! | `state` | reading what a plan keeps; live rows of KV caches |
//! | `series`, `candles` | one and several steps of each family |
//! | `grid` | the walk over contexts and batches |
//! | `company` | digits, counters and memory of whole forecasts |
//! | `windows` | the inputs, cut from a caller's data |

mod candles;
mod company;
mod grid;
mod rounding;
mod series;
mod state;
mod windows;

use std::sync::Arc;

use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use serde::Serialize;

use grid::Case;

pub use candles::verify_candles;
pub use series::verify_series;

/// One way to run a model.
#[derive(Clone)]
pub struct Way {
    /// Mode, dtype and device in words, such as `default f32 cpu`.
    pub name: String,
    /// Where it runs.
    pub device: Arc<dyn Device>,
    /// The same place with one thread, where threads can be chosen.
    pub one_thread: Option<Arc<dyn Device>>,
    /// Operation by operation, without folding or fusion.
    pub eager: bool,
    /// In what numbers it multiplies.
    pub dtype: Dtype,
    /// Whether its digits must be those of the last way before it that says no here; then that comparison is all it needs.
    pub same_digits: bool,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Past steps.
    pub contexts: Vec<usize>,
    /// Items that run together.
    pub batches: Vec<usize>,
    /// The context of the larger batches.
    pub batch_context: usize,
}

impl Scope {
    /// Contexts of 64 to 2,048 steps and batches of 1 to 64.
    pub fn whole() -> Self {
        Self { contexts: vec![64, 128, 256, 512, 1024, 2048], batches: vec![1, 2, 8, 64], batch_context: 256 }
    }

    /// The ends of both ranges.
    pub fn quick() -> Self {
        Self { contexts: vec![64, 512], batches: vec![1, 16], batch_context: 128 }
    }

    /// Context and batch of each comparison, the cheapest first.
    fn cells(&self) -> Vec<Cell> {
        let least = self.batches.first().copied().unwrap_or(1);
        let by_context = self.contexts.iter().map(|&context| Cell { context, batch: least });
        let by_batch = self.batches.iter().skip(1).map(|&batch| Cell { context: self.batch_context, batch });
        by_context.chain(by_batch).collect()
    }
}

/// One context and batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    context: usize,
    batch: usize,
}

/// What was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Checks that passed.
    pub passed: usize,
    /// The others.
    pub failed: usize,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// One entry for each comparison.
    pub checks: Vec<Check>,
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Name of the [`Way`].
    pub way: String,
    /// Context, batch and steps.
    pub setting: String,
    /// What was compared.
    pub what: String,
    /// What was measured.
    pub measured: f64,
    /// The most allowed.
    pub limit: f64,
    /// Where it was measured, if not everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<String>,
    /// Whether the measured value is within the limit; NaN never is.
    pub pass: bool,
}

/// The largest of several errors, and whose it was.
#[derive(Debug, Clone, Default)]
struct Worst {
    error: f64,
    of: Option<String>,
}

impl Worst {
    fn include(&mut self, error: f64, name: impl FnOnce() -> String) {
        // Not `f64::max`, which would lose a NaN.
        if error.is_nan() || error > self.error || self.of.is_none() {
            *self = Self { error, of: Some(name()) };
        }
    }
}

impl Report {
    fn push(&mut self, case: Case<'_>, what: &str, measured: f64, limit: f64) {
        self.push_worst(case, what, Worst { error: measured, of: None }, limit);
    }

    fn push_worst(&mut self, case: Case<'_>, what: &str, worst: Worst, limit: f64) {
        let Worst { error: measured, of: worst } = worst;
        let pass = measured <= limit;
        *if pass { &mut self.passed } else { &mut self.failed } += 1;
        let (way, setting, what) = (case.way.name.clone(), case.setting.to_string(), what.to_string());
        self.checks.push(Check { way, setting, what, measured, limit, worst, pass });
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl Way {
    /// What all others are compared with.
    fn baseline(device: Arc<dyn Device>) -> Self {
        let (name, dtype) = ("eager f32".into(), Dtype::F32);
        Self { name, device, one_thread: None, eager: true, dtype, same_digits: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_the_worst_and_never_passes() {
        let mut worst = Worst::default();
        worst.include(0.5, || "a".into());
        worst.include(f64::NAN, || "b".into());
        worst.include(0.7, || "c".into());
        assert!(worst.error.is_nan() && worst.of.as_deref() == Some("b"));
    }
}
