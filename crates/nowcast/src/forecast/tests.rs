use proptest::prelude::*;

use super::*;

fn paths(samples: usize, values: Vec<f32>) -> VariateForecast {
    VariateForecast::new("close", Distribution::Paths { samples, values: values.into() }).unwrap()
}

#[test]
fn paths_are_samples_by_horizon() {
    let forecast = paths(2, vec![1.0, 2.0, 3.0, 5.0, 6.0, 8.0]);
    assert_eq!(forecast.horizon(), 3);
    assert_eq!(forecast.paths().unwrap().collect::<Vec<_>>(), [[1.0, 2.0, 3.0], [5.0, 6.0, 8.0]]);
    assert_eq!(forecast.mean(), [3.0, 4.0, 5.5]);
    assert_eq!(forecast.median(), forecast.mean());
    assert_eq!(forecast.std().unwrap(), [8f64.sqrt(), 8f64.sqrt(), 12.5f64.sqrt()]);
    assert_eq!(forecast.quantiles(&[0.25, 0.75]).unwrap(), [[2.0, 3.0, 4.25], [4.0, 5.0, 6.75]]);
}

#[test]
fn samples_in_order_answer_as_the_paths_they_come_from() {
    let values = vec![5.0, 2.0, 3.0, 1.0, 6.0, 8.0];
    let sorted = Distribution::Samples { samples: 2, values: vec![1.0, 5.0, 2.0, 6.0, 3.0, 8.0].into() };
    let (paths, sorted) = (paths(2, values), VariateForecast::new("close", sorted).unwrap());
    assert_eq!((sorted.horizon(), sorted.paths().is_none()), (3, true));
    assert_eq!((sorted.mean(), sorted.std().unwrap()), (paths.mean(), paths.std().unwrap()));
    assert_eq!(sorted.quantiles(&[0.25, 0.75]).unwrap(), paths.quantiles(&[0.25, 0.75]).unwrap());
}

#[test]
fn malformed_distributions_are_refused() {
    let refuse = |distribution| VariateForecast::new("x", distribution).unwrap_err().to_string();
    for (samples, count) in [(0, 0), (0, 4), (3, 4), (3, 0), (usize::MAX, 4)] {
        assert_eq!(
            refuse(Distribution::Paths { samples, values: vec![0.0; count].into() }),
            format!("{count} values are no {samples} paths of equal length for \"x\"")
        );
    }
    for (samples, count) in [(0, 0), (0, 4), (3, 4), (3, 0), (usize::MAX, 4)] {
        assert_eq!(
            refuse(Distribution::Samples { samples, values: vec![0.0; count].into() }),
            format!("{count} values are not {samples} samples of every step for \"x\"")
        );
    }
    let refuse_samples =
        |values: [f32; 4]| refuse(Distribution::Samples { samples: 2, values: values.to_vec().into() });
    assert_eq!(refuse_samples([0.0, 1.0, 3.0, 2.0]), "the samples of step 2 of \"x\" are not in ascending order");
    for (value, name) in [(f32::INFINITY, "inf"), (f32::NAN, "NaN")] {
        assert!(refuse_samples([0.0, 1.0, 2.0, value]).contains(&format!("is {name} at step 2")));
    }
    assert!(refuse_samples([f32::NEG_INFINITY, 1.0, 2.0, 3.0]).contains("is -inf at step 1"));
    assert_eq!(refuse(Distribution::Mean(Vec::new().into())), "the forecast of \"x\" has no step");
    assert_eq!(
        refuse(Distribution::Paths { samples: 2, values: vec![0.0, 1.0, 2.0, f32::INFINITY].into() }),
        "the forecast of \"x\" is inf at step 2: its values are too large for f32, divide the series by a power of ten"
    );
    assert!(refuse(Distribution::Mean(vec![f32::NAN].into())).contains("is NaN at step 1"));
}

#[test]
fn variates_share_their_horizon() {
    let mean = |name, steps| VariateForecast::new(name, Distribution::Mean(vec![1.0; steps].into())).unwrap();
    let forecast = Forecast::new(vec![mean("a", 3), mean("b", 3)]).unwrap();
    assert_eq!((forecast.horizon(), forecast.variates().len()), (3, 2));
    assert_eq!(forecast.variate("b").unwrap().name(), "b");
    assert!(forecast.variate("c").is_none());
    assert_eq!(
        Forecast::new(vec![mean("a", 3), mean("b", 2)]).unwrap_err().to_string(),
        "the forecast of \"b\" has 2 steps where the first variate has 3"
    );
    assert!(Forecast::new(Vec::new()).is_err());
}

#[test]
fn a_mean_path_answers_central_rules_only() {
    let forecast = VariateForecast::new("load", Distribution::Mean(vec![1.5, 2.5].into())).unwrap();
    for rule in ["mean", "median", "trimmed_mean_0.1", "lower_trimmed_mean_0.1", "upper_trimmed_mean_0.1"] {
        assert_eq!(forecast.point(&rule.parse().unwrap()).unwrap(), [1.5, 2.5]);
    }
    let cure = "a distribution, but \"load\" was forecast as a mean path only: forecast with --decode sample";
    for rule in ["quantile_0.5", "mean_minus_std_0.5", "mean_quantile_mix_0.4_0.5", "quantile_plus_std_0.4_0.5"] {
        let message = forecast.point(&rule.parse().unwrap()).unwrap_err().to_string();
        assert_eq!(message, format!("{rule} needs {cure}"));
    }
    assert_eq!(forecast.std().unwrap_err().to_string(), format!("a standard deviation needs {cure}"));
    assert!(forecast.paths().is_none());
}

#[test]
fn a_single_path_has_no_standard_deviation() {
    let forecast = paths(1, vec![1.0, 2.0]);
    assert_eq!(forecast.quantile(0.9).unwrap(), [1.0, 2.0]);
    let message = "a standard deviation needs at least two sample paths, but \"close\" has one: raise --samples";
    assert_eq!(forecast.std().unwrap_err().to_string(), message);
    assert_eq!(forecast.point(&Aggregation::MeanPlusStd(0.5)).unwrap_err().to_string(), message);
}

#[test]
fn rules_built_by_hand_are_checked() {
    let forecast = paths(2, vec![1.0, 2.0]);
    assert!(forecast.point(&Aggregation::Quantile(1.0)).is_err());
    assert!(forecast.quantiles(&[0.5, f64::NAN]).is_err());
    assert!(forecast.point(&Aggregation::TrimmedMean(0.5)).is_err());
}

fn mixture(degrees_of_freedom: f64, locations: [f64; 2], scales: [f64; 2]) -> Mixture {
    Mixture::new(vec![0.25, 0.75], vec![degrees_of_freedom; 2], locations.to_vec(), scales.to_vec()).unwrap()
}

#[test]
fn mixtures_answer_exactly() {
    let steps = vec![mixture(5.0, [10.0, 10.0], [2.0, 2.0]), mixture(4.0, [-1.0, 3.0], [0.5, 1.0])];
    let forecast = VariateForecast::new("close", Distribution::Mixture(steps.clone())).unwrap();
    assert_eq!(forecast.horizon(), 2);
    assert_eq!(forecast.mean(), [10.0, 2.0]);
    // Step 1 is one Student-t with 5 degrees of freedom: variance 2^2 5/3, and t(5) has its 90% quantile at
    // 1.475884048824481 (its closed form bisected). A few ulps of 13 are allowed to the root finder.
    let tolerance = 32.0 * f64::EPSILON * 13.0;
    assert!((forecast.std().unwrap()[0] - (20f64 / 3.0).sqrt()).abs() <= tolerance);
    let quantiles = forecast.quantiles(&[0.9, 0.5, 0.1]).unwrap();
    for (quantile, expected) in quantiles.iter().zip([1.475884048824481, 0.0, -1.475884048824481]) {
        assert!((quantile[0] - (10.0 + 2.0 * expected)).abs() <= tolerance, "{}", quantile[0]);
    }
    let point = |rule: &str| forecast.point(&rule.parse().unwrap()).unwrap()[1];
    let (mean, std) = (2.0, steps[1].variance().sqrt());
    assert_eq!(point("median"), steps[1].quantile(0.5));
    assert_eq!(point("trimmed_mean_0.1"), steps[1].mean_between(0.1, 0.9));
    assert_eq!(point("lower_trimmed_mean_0.1"), steps[1].mean_between(0.1, 1.0));
    assert_eq!(point("upper_trimmed_mean_0.1"), steps[1].mean_between(0.0, 0.9));
    assert_eq!(point("mean_minus_std_0.5"), mean - 0.5 * std);
    assert_eq!(point("mean_quantile_mix_0.4_0.25"), 0.25 * mean + 0.75 * steps[1].quantile(0.4));
    assert_eq!(point("quantile_plus_std_0.4_0.5"), steps[1].quantile(0.4) + 0.5 * std);
}

#[test]
fn an_infinite_spread_is_no_point_forecast() {
    let steps = vec![mixture(3.0, [0.0, 1.0], [1.0, 1.0]), mixture(2.0, [0.0, 1.0], [1.0, 1.0])];
    let forecast = VariateForecast::new("close", Distribution::Mixture(steps)).unwrap();
    assert_eq!(forecast.std().unwrap()[1], f64::INFINITY);
    assert_eq!(
        forecast.point(&Aggregation::MeanPlusStd(0.5)).unwrap_err().to_string(),
        "mean_plus_std_0.5 of \"close\" is inf at step 2, where the tails have no finite spread: choose a quantile"
    );
    assert!(forecast.point(&Aggregation::TrimmedMean(0.1)).is_ok());
}

/// Every rule by plain loops over the samples of one step.
fn by_plain_loops(rule: &str, samples: &[f32]) -> f64 {
    let mut sorted: Vec<f64> = samples.iter().copied().map(f64::from).collect();
    for end in (1..sorted.len()).rev() {
        for k in 0..end {
            if sorted[k] > sorted[k + 1] {
                sorted.swap(k, k + 1);
            }
        }
    }
    let count = sorted.len();
    let mean_of = |from: usize, to: usize| sorted[from..to].iter().sum::<f64>() / (to - from) as f64;
    let mean = mean_of(0, count);
    let std = (sorted.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1) as f64).sqrt();
    let quantile = |level: f64| {
        let position = level * (count - 1) as f64;
        let below = position as usize;
        let above = if below + 1 < count { below + 1 } else { below };
        sorted[below] * (1.0 - (position - below as f64)) + sorted[above] * (position - below as f64)
    };
    let tenth = count / 10;
    match rule {
        "mean" => mean,
        "median" if count % 2 == 1 => sorted[count / 2],
        "median" => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        "trimmed_mean_0.1" => mean_of(tenth, count - tenth),
        "lower_trimmed_mean_0.1" => mean_of(tenth, count),
        "upper_trimmed_mean_0.1" => mean_of(0, count - tenth),
        "quantile_0.4" => quantile(0.4),
        "mean_minus_std_0.5" => mean - 0.5 * std,
        "mean_plus_std_0.5" => mean + 0.5 * std,
        "mean_quantile_mix_0.4_0.25" => 0.25 * mean + 0.75 * quantile(0.4),
        "quantile_plus_std_0.4_0.5" => quantile(0.4) + 0.5 * std,
        _ => unreachable!("{rule}"),
    }
}

proptest! {
    #[test]
    fn rules_equal_their_plain_loops(
        (samples, values) in (2usize..40, 1usize..6).prop_flat_map(|(samples, horizon)| {
            (Just(samples), prop::collection::vec(-1e6f32..1e6, samples * horizon))
        }),
    ) {
        let forecast = paths(samples, values.clone());
        let horizon = values.len() / samples;
        // Sums of at most 40 terms below 1e6 in f64: 40 roundings of half an ulp of 4e7 each, doubled for the std.
        let tolerance = 40.0 * 4e7 * f64::EPSILON;
        for rule in ["mean", "median", "trimmed_mean_0.1", "lower_trimmed_mean_0.1", "upper_trimmed_mean_0.1",
            "quantile_0.4", "mean_minus_std_0.5", "mean_plus_std_0.5", "mean_quantile_mix_0.4_0.25",
            "quantile_plus_std_0.4_0.5"]
        {
            let point = forecast.point(&rule.parse().unwrap()).unwrap();
            for step in 0..horizon {
                let column: Vec<f32> = (0..samples).map(|sample| values[sample * horizon + step]).collect();
                let expected = by_plain_loops(rule, &column);
                prop_assert!((point[step] - expected).abs() <= tolerance, "{rule}: {} for {expected}", point[step]);
            }
        }
    }

    #[test]
    fn quantiles_of_mixtures_ascend(
        degrees_of_freedom in 2.0..30.0,
        locations in prop::array::uniform2(-1e6..1e6f64),
        scales in prop::array::uniform2(1e-3..1e4f64),
    ) {
        let steps = vec![mixture(degrees_of_freedom, locations, scales)];
        let forecast = VariateForecast::new("close", Distribution::Mixture(steps)).unwrap();
        let levels: Vec<f64> = (1..100).map(|percent| f64::from(percent) / 100.0).collect();
        let quantiles = forecast.quantiles(&levels).unwrap().concat();
        prop_assert!(quantiles.is_sorted_by(|left, right| left < right));
        prop_assert_eq!(forecast.median()[0], quantiles[49]);
        let (lower, upper) = (forecast.quantile(0.1).unwrap()[0], forecast.quantile(0.9).unwrap()[0]);
        let trimmed = forecast.point(&Aggregation::TrimmedMean(0.1)).unwrap()[0];
        prop_assert!(lower <= trimmed && trimmed <= upper);
    }

    #[test]
    fn central_rules_stay_within_the_samples(
        values in prop::collection::vec(-1e30f32..1e30, 1..60),
        share in 0.0..0.5,
    ) {
        let lowest = f64::from(values.iter().copied().fold(f32::INFINITY, f32::min));
        let highest = f64::from(values.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        // The sum of 60 terms rounds by at most 60 half ulps of 6e31; a mean of equal samples may leave them by that.
        let slack = 60.0 * 6e31 * f64::EPSILON;
        let forecast = paths(values.len(), values);
        for rule in [Aggregation::Mean, Aggregation::Median, Aggregation::TrimmedMean(share),
            Aggregation::LowerTrimmedMean(share), Aggregation::UpperTrimmedMean(share)]
        {
            let point = forecast.point(&rule).unwrap()[0];
            prop_assert!(lowest - slack <= point && point <= highest + slack, "{rule}: {point}");
        }
    }
}
