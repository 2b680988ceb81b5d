//! Activation, exact mixtures, means, and what is refused.

use super::*;

/// torch's softplus.
fn softplus(x: f64) -> f64 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// Degrees of freedom, locations, scales and logits of row 0.
fn activated(input: &HeadOutput<'_>) -> [Vec<f32>; 4] {
    let count = input.positions * input.head.components();
    let mut parts = [(); 4].map(|()| vec![f32::NAN; count]);
    let [degrees_of_freedom, locations, scales, logits] = &mut parts;
    activate(input, 0, &mut Activated { degrees_of_freedom, locations, scales, logits }).unwrap();
    parts
}

#[test]
fn activation_agrees_with_an_f64_twin() {
    let (components, positions) = (24, 70);
    let head = Head::Mixture { components };
    let raw: Vec<f32> = noise(positions * head.values(), 1).iter().map(|&x| 30.0 * x).collect();
    let [degrees_of_freedom, locations, scales, logits] = activated(&plain(head, &raw, positions));
    let epsilon = f64::from(f32::EPSILON);
    for index in 0..positions * components {
        let at = |part: usize| raw[index / components * head.values() + part * components + index % components];
        // Half a unit for rounding to f32, and a thousandth for the f64 work before it.
        let scale = softplus(f64::from(at(2))).max(epsilon);
        assert!((f64::from(scales[index]) / scale - 1.0).abs() < 0.501 * epsilon);
        // The same, then once more for the sum with 2.
        let nu = 2.0 + softplus(f64::from(at(0))).max(epsilon);
        assert!((f64::from(degrees_of_freedom[index]) / nu - 1.0).abs() < 1.002 * epsilon);
        assert_eq!([locations[index], logits[index]], [at(1), at(3)]);
    }
}

#[test]
fn activation_of_special_values() {
    let raw = [1e4, 0.5, -1e4, f32::NAN, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, f32::NAN];
    let [degrees_of_freedom, locations, scales, logits] = activated(&plain(Head::StudentT, &raw, 3));
    assert_eq!(degrees_of_freedom[0], 10_002.0);
    assert!(degrees_of_freedom[1].is_nan() && locations[1].is_nan() && scales[2].is_nan());
    // 2 + epsilon is half way between two numbers of type f32 and rounds to 2, in the reference as well.
    assert_eq!(degrees_of_freedom[2], 2.0);
    assert_eq!(scales[..2], [f32::EPSILON, f32::INFINITY]);
    assert_eq!(logits, [0.0; 3]);
}

#[test]
fn the_mean_agrees_with_an_f64_twin() {
    for (components, positions) in [(1, 3), (5, 64), (24, 130)] {
        let head = Head::Mixture { components };
        let rows = 3;
        let raw: Vec<f32> = noise(rows * positions * head.values(), 2).iter().map(|&x| 8.0 * x).collect();
        let (location, scale) = (noise(rows * positions, 3), noise(rows * positions, 4));
        let affine = Affine { location: &location, scale: &scale, row_stride: positions, position_stride: 1 };
        let input = HeadOutput { affine, ..plain(head, &raw, positions) };
        let mut values = vec![f32::NAN; rows * positions];
        mean(&input, 0..rows, &mut Output { values: &mut values, row_stride: positions }).unwrap();
        for (index, &value) in values.iter().enumerate() {
            let part = |part: usize| {
                let start = index * head.values() + part * components;
                raw[start..start + components].iter().map(|&x| f64::from(x)).collect::<Vec<_>>()
            };
            let (locations, logits) = (part(1), part(3));
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let expected: f64 = weights.iter().zip(&locations).map(|(w, m)| w * m).sum::<f64>() / total;
            // Units of 2^-24: four for each exponential, one per unit of its rounded argument (at most 16), both
            // in numerator and denominator; one for rounding to f32.
            let magnitude = weights.iter().zip(&locations).map(|(w, m)| w * m.abs()).sum::<f64>() / total;
            let unit = f64::from(f32::EPSILON) / 2.0;
            let error = unit * ((4.0 + 16.0) * (magnitude + expected.abs()) + expected.abs());
            let (scale, location) = (f64::from(scale[index]), f64::from(location[index]));
            let real = scale * expected + location;
            // The affine map rounds its product and its sum.
            let limit = scale.abs() * error + unit * ((scale * expected).abs() + real.abs()) * 1.01;
            assert!((f64::from(value) - real).abs() <= limit, "{index}: {value} for {real}");
        }
    }
}

#[test]
fn the_mean_of_one_student_t_is_its_location() {
    let raw = [0.3, 1.5, 0.2, 7.0, -2.5, 1.0];
    let affine = Affine { location: &[10.0], scale: &[2.0], row_stride: 0, position_stride: 0 };
    let input = HeadOutput { affine, ..plain(Head::StudentT, &raw, 2) };
    let mut values = [0.0; 2];
    mean(&input, 0..1, &mut Output { values: &mut values, row_stride: 2 }).unwrap();
    assert_eq!(values, [13.0, 5.0]);
}

#[test]
fn the_exact_mixture_is_in_real_units() {
    let raw = [raw_for(1.0), raw_for(7.0), -1.0, 4.0, raw_for(0.5), raw_for(3.0), 0.0, 3f32.ln()];
    let affine = Affine { location: &[100.0], scale: &[10.0], row_stride: 0, position_stride: 0 };
    let input = HeadOutput { affine, ..plain(Head::Mixture { components: 2 }, &raw, 1) };
    let ours = exact(&input, 0, 0).unwrap();
    let expected =
        crate::student_t::Mixture::new(vec![0.25, 0.75], vec![3.0, 9.0], vec![90.0, 140.0], vec![5.0, 30.0]).unwrap();
    for x in [50.0, 88.0, 92.0, 120.0, 200.0] {
        // Parameters are f32 on one side: four of them, half a unit each, with factors of order one.
        assert!((ours.cdf(x) - expected.cdf(x)).abs() < 4.0 * f64::from(f32::EPSILON));
    }
    assert!(matches!(exact(&input, 1, 0), Err(ExactError::Shape(_))));
    assert!(matches!(exact(&input, 0, 1), Err(ExactError::Shape(_))));
    let broken = [f32::NAN; 8];
    let input = plain(Head::Mixture { components: 2 }, &broken, 1);
    assert!(matches!(exact(&input, 0, 0), Err(ExactError::Mixture(_))));
}

#[test]
fn short_buffers_are_refused() {
    let raw = [0.0; 12];
    let input = plain(Head::StudentT, &raw, 2);
    let mut values = [0.0; 4];
    let mut run = |input: &HeadOutput<'_>, rows, stride, series: &[u32]| {
        let draws = Draws { seed: 1, step: 0, series_keys: series, samples: 2, first_sample: 0, shared: false };
        sample(input, &draws, rows, &mut Output { values: &mut values, row_stride: stride })
    };
    assert_eq!(run(&input, 0..2, 2, &[5]), Ok(()));
    assert!(matches!(run(&input, 0..3, 2, &[5]), Err(ShapeError::TooShort { .. })));
    assert!(matches!(run(&input, 0..2, 3, &[5]), Err(ShapeError::TooShort { buffer: "the output", .. })));
    assert_eq!(run(&input, 0..2, 1, &[5]), Err(ShapeError::Overlap { stride: 1, positions: 2 }));
    let far = HeadOutput { row_stride: usize::MAX, ..input };
    assert!(matches!(run(&far, 0..2, 2, &[5]), Err(ShapeError::TooShort { needed: usize::MAX, .. })));
    let none = HeadOutput { head: Head::Mixture { components: 0 }, ..input };
    assert_eq!(run(&none, 0..2, 2, &[5]), Err(ShapeError::NoComponents));
    let units = Affine { location: &[], ..input.affine };
    assert!(run(&HeadOutput { affine: units, ..input }, 0..2, 2, &[5]).is_err());
    assert_eq!(run(&HeadOutput { positions: 0, ..input }, 0..2, 0, &[5]), Ok(()));
}
