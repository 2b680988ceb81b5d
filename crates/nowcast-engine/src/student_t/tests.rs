//! Comparisons with an independent implementation and with definitions.

use super::Mixture;
use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

#[test]
fn a_single_component_agrees_with_statrs() {
    for nu in [2.0 + 1e-7, 2.5, 3.0, 7.0, 30.0, 300.0] {
        let ours = Mixture::new(vec![1.0], vec![nu], vec![1.0], vec![2.0]).unwrap();
        let theirs = StudentsT::new(1.0, 2.0, nu).unwrap();
        for x in [-40.0, -5.0, -1.0, 0.0, 0.9, 1.0, 1.3, 2.0, 3.5, 8.0] {
            assert!((ours.cdf(x) - theirs.cdf(x)).abs() < 1e-12, "{nu} {x} {} {}", ours.cdf(x), theirs.cdf(x));
            assert!((ours.density(x) - theirs.pdf(x)).abs() < 1e-12, "{nu} {x}");
        }
        for level in [1e-6, 0.01, 0.1, 0.5, 0.77, 0.999] {
            assert!((ours.cdf(ours.quantile(level)) - level).abs() < 1e-14, "{nu} {level}");
        }
    }
}

#[test]
fn the_whole_range_gives_the_mean() {
    let mixture = Mixture::new(vec![0.3, 0.7], vec![2.5, 9.0], vec![-10.0, 10.0], vec![0.1, 3.0]).unwrap();
    assert!((mixture.mean() - 4.0).abs() < 1e-14);
    assert!((mixture.mean_between(0.0, 1.0) - 4.0).abs() < 1e-14);
    assert!((mixture.mean_between(1e-9, 1.0 - 1e-9) - 4.0).abs() < 1e-3);
}
