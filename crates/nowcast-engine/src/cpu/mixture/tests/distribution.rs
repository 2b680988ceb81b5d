//! Draws against a plain twin, and a million of them against the exact distributions, at fixed seeds.

use super::*;
use crate::random::Stream;
use crate::student_t::Mixture;

const DRAWS: usize = 1_000_000;
const ROWS: usize = 1000;
const POSITIONS: usize = DRAWS / ROWS;

/// A million draws from one distribution, ascending.
fn million(head: Head, values: &[f32], seed: u64) -> Vec<f64> {
    let raw = values.repeat(POSITIONS);
    let keys = [series_key("series")];
    let draws = Draws { seed, step: 1, series_keys: &keys, samples: ROWS, first_sample: 0, shared: true };
    let mut drawn = sampled(&plain(head, &raw, POSITIONS), &draws, 0..ROWS);
    drawn.sort_unstable_by(f64::total_cmp);
    drawn
}

/// The Kolmogorov-Smirnov statistic times the root of the number of draws.
fn kolmogorov(drawn: &[f64], exact: &Mixture) -> f64 {
    let count = drawn.len() as f64;
    let distance = |(index, &x): (usize, &f64)| {
        let probability = exact.cdf(x);
        (probability - index as f64 / count).max((index + 1) as f64 / count - probability)
    };
    drawn.iter().enumerate().map(distance).fold(0.0, f64::max) * count.sqrt()
}

/// Exceeded with probability 2 exp(-2 limit^2) = 1e-6.
const KOLMOGOROV_LIMIT: f64 = 2.7;

#[test]
fn draws_agree_with_a_plain_twin() {
    let (components, positions, samples) = (5, 70, 40);
    let head = Head::Mixture { components };
    let mut raw = noise(positions * head.values(), 22);
    for values in raw.chunks_mut(head.values()) {
        // Above 20 softplus is the identity, so both sides have the very same parameters.
        values[..components].iter_mut().for_each(|nu| *nu = 25.0 + 5.0 * *nu);
        values[2 * components..3 * components].iter_mut().for_each(|scale| *scale = 30.0 + 10.0 * *scale);
    }
    let keys = [17, 18];
    let draws = Draws { seed: 1 << 40 | 5, step: 9, series_keys: &keys, samples, first_sample: 100, shared: false };
    let repeated = raw.repeat(2 * samples);
    let drawn = sampled(&plain(head, &repeated, positions), &draws, 0..2 * samples);
    for (index, &value) in drawn.iter().enumerate() {
        let (row, position) = (index / positions, index % positions);
        let sample = 100 + (row % samples) as u32;
        let stream = Stream { seed: draws.seed, series: keys[row / samples], sample, step: 9 };
        let [choice, high, low, angle] = stream.words(position as u32);
        let part = |part: usize| {
            let values = &raw[position * head.values() + part * components..][..components];
            values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>()
        };
        let weights: Vec<f64> = part(3).iter().map(|logit| logit.exp()).collect();
        let mut share = (f64::from(choice) + 0.5) / 2f64.powi(32) * weights.iter().sum::<f64>();
        // Weights differ by rounding, so a share within 1e-6 of a limit may go either way; none is here.
        let k = weights.iter().position(|weight| {
            share -= weight;
            share < 0.0
        });
        let k = k.unwrap();
        let (nu, scale) = (2.0 + part(0)[k], part(2)[k]);
        let u = (f64::from(high) * 2f64.powi(32) + f64::from(low) + 0.5) / 2f64.powi(64);
        let v = (f64::from(angle) + 0.5) / 2f64.powi(32);
        let radius = (nu * (u.powf(-2.0 / nu) - 1.0)).sqrt();
        let expected = part(1)[k] + scale * radius * (std::f64::consts::TAU * v).cos();
        // powf - 1 cancels: two units of one, half of which reaches the root of it.
        let limit = scale * (1e-14 * radius + 2.0 * f64::EPSILON * nu / radius) + 1e-15;
        assert!((value - expected).abs() <= limit, "{row} {position}: {value} {expected}");
    }
}

#[test]
fn one_student_t_is_drawn_from_its_distribution() {
    let mut extreme = 0;
    for (seed, nu) in [2.0001, 3.0, 30.0, 1e5].into_iter().enumerate() {
        let values = [raw_for(nu - 2.0), 0.0, raw_for(1.0)];
        let exact = exact(&plain(Head::StudentT, &values, 1), 0, 0).unwrap();
        let drawn = million(Head::StudentT, &values, seed as u64);
        let statistic = kolmogorov(&drawn, &exact);
        assert!(statistic < KOLMOGOROV_LIMIT, "{nu}: {statistic}");
        let beyond = |level: f64| {
            let (low, high) = (exact.quantile(level), exact.quantile(1.0 - level));
            drawn.iter().filter(|&&x| x < low || x > high).count()
        };
        // 200 expected beyond both ends, five standard deviations of a Poisson number allowed.
        let far = beyond(1e-4) as f64;
        assert!((far - 200.0).abs() < 5.0 * 200f64.sqrt(), "{nu}: {far}");
        extreme += beyond(1e-6);
    }
    // Eight expected over all four: a Poisson number is 0 or above 23 with probability 4e-4 + 3e-6.
    assert!((1..=23).contains(&extreme), "{extreme}");
}

#[test]
fn a_mixture_is_drawn_from_its_distribution() {
    let components = 24;
    let head = Head::Mixture { components };
    let values: Vec<f32> = noise(head.values(), 20).iter().map(|&x| 3.0 * x).collect();
    let exact = exact(&plain(head, &values, 1), 0, 0).unwrap();
    let statistic = kolmogorov(&million(head, &values, 5), &exact);
    assert!(statistic < KOLMOGOROV_LIMIT, "{statistic}");
}

#[test]
fn components_are_chosen_with_their_weights() {
    let components = 24;
    let head = Head::Mixture { components };
    let mut values = vec![0.0; head.values()];
    let logits = noise(components, 21);
    for k in 0..components {
        // Light tails and small scales: the nearest hundred tells the component.
        values[k] = 1e6;
        values[components + k] = 100.0 * k as f32;
        values[3 * components + k] = 2.0 * logits[k];
    }
    let mut counts = vec![0u32; components];
    for x in million(head, &values, 6) {
        counts[(x / 100.0).round() as usize] += 1;
    }
    let weights: Vec<f64> = logits.iter().map(|&logit| (2.0 * f64::from(logit)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let statistic: f64 = (counts.iter().zip(&weights))
        .map(|(&count, weight)| {
            let expected = DRAWS as f64 * weight / total;
            (f64::from(count) - expected).powi(2) / expected
        })
        .sum();
    // The chi-square distribution with 23 degrees of freedom exceeds 71 with probability 1e-6.
    assert!(statistic < 71.0, "{statistic}");
}

#[test]
fn neighbouring_draws_are_uncorrelated() {
    let values = [raw_for(10.0), 0.0, raw_for(1.0)];
    let raw = values.repeat(POSITIONS);
    let keys = [1];
    let draws = Draws { seed: 8, step: 0, series_keys: &keys, samples: ROWS, first_sample: 0, shared: true };
    let drawn = sampled(&plain(Head::StudentT, &raw, POSITIONS), &draws, 0..ROWS);
    let variance: f64 = drawn.iter().map(|&x| x * x).sum::<f64>() / DRAWS as f64;
    for lag in [1, 2, POSITIONS, 2 * POSITIONS] {
        let products = drawn.iter().zip(&drawn[lag..]).map(|(&x, &y)| x * y);
        let correlation = products.sum::<f64>() / DRAWS as f64 / variance;
        // Five standard deviations.
        assert!(correlation.abs() < 5.0 / (DRAWS as f64).sqrt(), "{lag}: {correlation}");
    }
}
