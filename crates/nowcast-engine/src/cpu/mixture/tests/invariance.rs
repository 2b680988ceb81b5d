//! The same digits whatever the company, and sane digits from insane parameters.

use super::*;
use crate::cpu::detect::InstructionSet;
use sample::SampleRows;

const POSITIONS: usize = 70;
const HEAD: Head = Head::Mixture { components: 7 };

fn draws<'a>(series_keys: &'a [u32], samples: usize, first_sample: u32, shared: bool) -> Draws<'a> {
    Draws { seed: 2026, step: 3, series_keys, samples, first_sample, shared }
}

#[test]
fn shared_and_own_parameters_give_the_same_digits() {
    // Rows that share parameters are drawn together where positions leave room: 64, 10, 8, 2 or 1 of them.
    for positions in [1, 6, 8, 24, POSITIONS] {
        let (series, samples) = (3, 21);
        let width = positions * HEAD.values();
        let raw = noise(series * width, 5);
        let repeated: Vec<f32> = raw.chunks(width).flat_map(|row| row.repeat(samples)).collect();
        let keys = [1, 2, 3];
        let shared = sampled(&plain(HEAD, &raw, positions), &draws(&keys, samples, 4, true), 0..series * samples);
        let own = sampled(&plain(HEAD, &repeated, positions), &draws(&keys, samples, 4, false), 0..series * samples);
        assert_eq!(shared, own, "{positions} positions");
    }
}

#[test]
fn splitting_changes_no_digit() {
    let (series, samples) = (3, 8);
    let width = POSITIONS * HEAD.values();
    let raw = noise(series * width, 6);
    let keys = [10, 20, 30];
    let input = plain(HEAD, &raw, POSITIONS);
    let whole = sampled(&input, &draws(&keys, samples, 0, true), 0..series * samples);
    // Rows over threads.
    for split in [1, 7, 8, 13] {
        let mut parts = sampled(&input, &draws(&keys, samples, 0, true), 0..split);
        parts.extend(sampled(&input, &draws(&keys, samples, 0, true), split..series * samples));
        assert_eq!(whole, parts);
    }
    for one in 0..series {
        // A series alone, and its samples in chunks.
        let alone = plain(HEAD, &raw[one * width..][..width], POSITIONS);
        let rows = &whole[one * samples * POSITIONS..][..samples * POSITIONS];
        let mut chunks = sampled(&alone, &draws(&keys[one..][..1], 3, 0, true), 0..3);
        chunks.extend(sampled(&alone, &draws(&keys[one..][..1], 5, 3, true), 0..5));
        assert_eq!(rows, chunks);
        // Fewer positions.
        for positions in [1, 63, 64, 65] {
            let fewer = HeadOutput { positions, ..alone };
            let values = sampled(&fewer, &draws(&keys[one..][..1], samples, 0, true), 0..samples);
            for (fewer, all) in values.chunks(positions).zip(rows.chunks(POSITIONS)) {
                assert_eq!(fewer, &all[..positions]);
            }
        }
    }
}

#[test]
fn every_name_of_a_draw_matters() {
    let raw = noise(POSITIONS * HEAD.values(), 7);
    let input = plain(HEAD, &raw, POSITIONS);
    let keys = [series_key("a"), series_key("b")];
    let base = draws(&keys[..1], 1, 0, true);
    let first = sampled(&input, &base, 0..1);
    let others = [
        Draws { seed: 2027, ..base },
        Draws { seed: 2026 | 1 << 40, ..base },
        Draws { step: 4, ..base },
        Draws { first_sample: 1, ..base },
        Draws { series_keys: &keys[1..], ..base },
    ];
    for other in others {
        let second = sampled(&input, &other, 0..1);
        assert!(first.iter().zip(&second).filter(|(x, y)| x == y).count() < 3);
    }
}

#[test]
fn gaps_between_output_rows_stay_untouched() {
    let raw = noise(2 * POSITIONS * HEAD.values(), 8);
    let input = plain(HEAD, &raw, POSITIONS);
    let mut values = vec![-7.5; 2 * 100];
    let keys = [4];
    sample(&input, &draws(&keys, 2, 0, false), 0..2, &mut Output { values: &mut values, row_stride: 100 }).unwrap();
    let expected = sampled(&input, &draws(&keys, 2, 0, false), 0..2);
    for row in 0..2 {
        assert_eq!(values[row * 100..][..POSITIONS], expected[row * POSITIONS..][..POSITIONS]);
        assert!(values[row * 100 + POSITIONS..][..30].iter().all(|&value| value == -7.5));
    }
}

#[test]
fn values_are_mapped_to_real_units_in_f64() {
    let raw = noise(2 * POSITIONS * HEAD.values(), 9);
    let unit = plain(HEAD, &raw, POSITIONS);
    let (location, scale) = (wide_noise(2 * POSITIONS, 10), wide_noise(2 * POSITIONS, 11));
    let affine = Affine { location: &location, scale: &scale, row_stride: POSITIONS, position_stride: 1 };
    let keys = [4];
    let before = sampled(&unit, &draws(&keys, 2, 0, false), 0..2);
    let after = sampled(&HeadOutput { affine, ..unit }, &draws(&keys, 2, 0, false), 0..2);
    for (index, (x, y)) in before.into_iter().zip(after).enumerate() {
        assert_eq!(y, scale[index] * x + location[index]);
    }
}

#[test]
fn broken_parameters_show_and_spoil_no_neighbour() {
    let head = Head::Mixture { components: 2 };
    let good = noise(POSITIONS * head.values(), 12);
    let keys = [4];
    let affine = Affine { location: &[5.0], scale: &[0.5], row_stride: 0, position_stride: 0 };
    let run = |raw: &[f32]| {
        let input = HeadOutput { affine, ..plain(head, raw, POSITIONS) };
        sampled(&input, &draws(&keys, 1, 0, true), 0..1)
    };
    let expected = run(&good);
    let broken = [
        // Degrees of freedom, locations, scales, logits, both components alike; and the sample, if it is known.
        ([f32::NAN, 0.0, 0.0, 0.0], Some(f64::NAN)),
        ([0.0, f32::NAN, 0.0, 0.0], Some(f64::NAN)),
        ([0.0, 0.0, f32::NAN, 0.0], Some(f64::NAN)),
        ([0.0, 0.0, 0.0, f32::NAN], Some(f64::NAN)),
        ([0.0, 0.0, 0.0, f32::INFINITY], Some(f64::NAN)),
        ([0.0, 0.0, 0.0, f32::NEG_INFINITY], Some(f64::NAN)),
        ([0.0, f32::INFINITY, 0.0, 0.0], Some(0.0)),
        ([0.0, 0.0, f32::INFINITY, 0.0], Some(0.0)),
        ([0.0, 3.4e38, 0.0, 0.0], None),
        ([0.0, -f32::MAX, f32::MAX, 0.0], Some(0.0)),
        ([1e4, 1.0, -1e4, 1e4], None),
        ([-1e4, 1.0, -1e4, -1e4], None),
        ([f32::MAX, 1.0, 0.0, 0.0], None),
    ];
    for (values, known) in broken {
        let mut raw = good.clone();
        let at = 33;
        for (place, value) in raw[at * 8..][..8].iter_mut().enumerate() {
            *value = values[place / 2];
        }
        let drawn = run(&raw);
        for position in (0..POSITIONS).filter(|&position| position != at) {
            assert_eq!(drawn[position], expected[position]);
        }
        let sample = drawn[at];
        let right = known
            .map_or(sample.is_finite() && sample != 0.0, |known| sample == known || known.is_nan() && sample.is_nan());
        assert!(right, "{values:?} gave {sample}");
    }
}

#[test]
fn a_weight_of_zero_is_never_drawn() {
    for certain in 0..4 {
        let head = Head::Mixture { components: 4 };
        let mut values = vec![0.0; head.values()];
        for k in 0..4 {
            values[4 + k] = k as f32;
            values[8 + k] = -1e4;
            values[12 + k] = if k == certain { 1e4 } else { -1e4 };
        }
        let raw = values.repeat(1000);
        let drawn = sampled(&plain(head, &raw, 1000), &draws(&[1], 20, 0, true), 0..20);
        // A scale of 2^-23 moves the location by less than a half in all but one draw of 10^13.
        assert!(drawn.iter().all(|&value| value.round() == certain as f64));
    }
}

#[test]
fn fused_and_portable_digits_differ_by_rounding_only() {
    let raw = noise(40 * POSITIONS * HEAD.values(), 13);
    let input = plain(HEAD, &raw, POSITIONS);
    let keys = [4];
    let draws = draws(&keys, 40, 0, false);
    let run = |set: InstructionSet| {
        let mut values = vec![f64::NAN; 40 * POSITIONS];
        let output = &mut Output { values: &mut values, row_stride: POSITIONS };
        set.dispatch(SampleRows { input: &input, draws: &draws, rows: 0..40, output });
        values
    };
    let portable = run(InstructionSet::PORTABLE);
    let fused: Vec<_> = InstructionSet::supported().filter(|set| set.is_fused()).map(run).collect();
    assert!(fused.windows(2).all(|pair| pair[0] == pair[1]));
    for (x, y) in fused.iter().flat_map(|fused| portable.iter().zip(fused)) {
        // Activations are rounded to f32, perhaps the other way; locations are below 1 and may cancel.
        let limit = 2.0 * f64::from(f32::EPSILON) * x.abs().max(1.0);
        assert!((x - y).abs() <= limit, "{x} {y}");
    }
}
