//! Who multiplies.

use crate::problem::Problem;
use std::error::Error;
use std::time::{Duration, Instant};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One way to compute a problem, with weights of its own.
pub trait Contestant {
    /// Whose products these are, and how the weights lie.
    fn name(&self) -> String;

    /// In what numbers the weights are kept.
    fn dtype(&self) -> &'static str;

    /// The largest error of the results, in units of what the numbers allow.
    fn largest_error(&mut self) -> Result<f64>;

    /// The time of some products, each with the next copy of the weights.
    fn time(&mut self, calls: usize) -> Result<Duration>;
}

/// Copies of the weights, used in turn: a product then reads them from memory, as a forecast does.
pub struct Turns<T> {
    copies: Vec<T>,
    next: usize,
}

impl<T> Turns<T> {
    pub fn new(copies: usize, make: impl FnMut() -> T) -> Self {
        Self { copies: std::iter::repeat_with(make).take(copies).collect(), next: 0 }
    }

    /// Runs a product with each of the next copies.
    pub fn time(&mut self, calls: usize, mut product: impl FnMut(&T)) -> Duration {
        let begun = Instant::now();
        for _ in 0..calls {
            product(&self.copies[self.next]);
            self.next = (self.next + 1) % self.copies.len();
        }
        begun.elapsed()
    }
}

/// A row of `[rows, outputs]` results.
pub fn row_of(results: &[f32], problem: Problem, row: usize) -> Vec<f32> {
    results[row * problem.outputs..][..problem.outputs].to_vec()
}
