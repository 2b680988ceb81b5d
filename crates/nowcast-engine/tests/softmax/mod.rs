//! Softmax attention in f64, and by how much a kernel may miss it.

use nowcast_engine::dtype::Dtype;

const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// What a scalar product on tensor cores may be off by, in units of the sum of its products' magnitudes, but for adding
/// its chains.
pub(crate) fn on_tensor_cores(dtype: Dtype) -> f64 {
    // Two roundings of operands; f32 also drops the product of what both leave. A chain of 32 rounds towards zero in
    // every round.
    let (operands, rounds) = match dtype {
        Dtype::F32 => (3.0 * 2f64.powi(-22), 6.0),
        _ => (2.0 * 2f64.powi(-11), 2.0),
    };
    operands * 1.01 + rounds * 2f64.powi(-23)
}

/// The same on multiply-adds: of own keys sixteen chains of every fourth four components, added in four levels, or of eight
/// values one chain.
#[allow(dead_code, reason = "not every test has own tokens alone")]
pub(crate) fn on_multiply_adds(head_dim: usize) -> f64 {
    (4.0 * head_dim.div_ceil(64) as f64 + 4.0) * UNIT
}

/// The answer to a query and by how much each component may miss it, where scalar products are off by `product` and so many
/// keys are own ones.
pub(crate) fn attention(
    product: f64,
    own: usize,
    query: &[f64],
    keys: &[Vec<f64>],
    values: &[Vec<f64>],
) -> Vec<(f64, f64)> {
    let products = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).collect::<Vec<_>>();
    let scores: Vec<f64> = keys.iter().map(|key| products(key).iter().sum()).collect();
    let sizes = keys.iter().map(|key| products(key).iter().map(|p| p.abs()).sum::<f64>()).fold(0.0, f64::max);
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = largest - scores.iter().copied().fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let links = query.len().div_ceil(32) as f64;
    // Two scores make an exponent, whose difference is rounded; its exponential is within two units.
    let exponential = 2.0 * UNIT;
    let exponent = 2.0 * (product + links * UNIT) * sizes + spread * UNIT + exponential;
    // A chunk's exponents are added in a tree of eight levels and its values in two chains; every chunk, and eight own
    // keys, are scaled by a power and added.
    let chunks = (keys.len() / 64 + 2 + own.div_ceil(8)) as f64;
    let relative = exponent + product + (8.0 + 2.0) * UNIT + chunks * (2.0 * exponential + 3.0 * UNIT);
    let component = |column: usize| {
        let parts = || weights.iter().zip(values).map(move |(weight, value)| weight / sum * value[column]);
        // The rest of an exponent is a multiple of 2^-36, that of a value of 2^-36 of the chunk's largest one.
        let smallest = 2.0 * 2f64.powi(-36) * values.iter().map(|value| value[column].abs()).sum::<f64>();
        (parts().sum(), 2.0 * relative * parts().map(f64::abs).sum::<f64>() + smallest)
    };
    (0..query.len()).map(component).collect()
}
