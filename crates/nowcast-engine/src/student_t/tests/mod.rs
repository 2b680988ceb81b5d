//! Comparisons with high-precision constants, an independent implementation, and definitions.

use super::*;
use crate::random::philox;

mod moments;
mod probabilities;
mod quantiles;

/// A reproducible number in [0, 1).
fn noise(index: u32, salt: u32) -> f64 {
    f64::from(philox([index, salt, 0, 0], [7, 7])[0]) / 4_294_967_296.0
}

fn single(degrees_of_freedom: f64, location: f64, scale: f64) -> Mixture {
    Mixture::new(vec![1.0], vec![degrees_of_freedom], vec![location], vec![scale]).unwrap()
}

/// A mixture of 1 to 24 components like those of a trained head: scales over two decades, tails of all kinds.
fn random(index: u32) -> Mixture {
    let count = 1 + index % 24;
    let list = |salt: u32, map: &dyn Fn(f64) -> f64| (0..count).map(|k| map(noise(k, 10 * index + salt))).collect();
    Mixture::new(
        list(0, &|u| (4.0 * u).exp()),
        list(1, &|u| 2.0 + (1e-7f64.ln() * u + 1e6f64.ln() * (1.0 - u)).exp()),
        list(2, &|u| 2.0 * u - 1.0),
        list(3, &|u| (5.0 * (u - 0.7)).exp()),
    )
    .unwrap()
}
