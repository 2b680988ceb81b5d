//! Tails and densities.

use super::*;
use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

/// Degrees of freedom, t, P[T > t] and density, from 40-digit quadrature with mpmath.
const REFERENCE: [(f64, f64, f64, f64); 40] = [
    (2.0, 0.0625, 0.4779244607155826, 0.35252011270555034),
    (2.0, 0.5, 0.3333333333333333, 0.2962962962962963),
    (2.0, 1.0, 0.2113248654051871, 0.19245008972987526),
    (2.0, 2.0, 0.09175170953613698, 0.06804138174397717),
    (2.0, 5.0, 0.018874775675311862, 0.007127781101106491),
    (2.0, 40.0, 0.0003122073360923703, 1.5595748834703734e-05),
    (2.0000001, 0.0625, 0.47792446058971877, 0.3525201147268723),
    (2.0000001, 0.5, 0.33333333224233586, 0.2962962987050261),
    (2.0000001, 1.0, 0.21132486315431234, 0.19245009173367061),
    (2.0000001, 2.0, 0.09175170635035906, 0.06804138179532578),
    (2.0000001, 5.0, 0.01887477375448457, 0.00712778070904463),
    (2.0000001, 40.0, 0.0003122072412916331, 1.559574487804096e-05),
    (2.5, 0.0625, 0.47740753906502936, 0.3608215246498859),
    (2.5, 0.5, 0.32884895993485735, 0.3062258405858296),
    (2.5, 1.0, 0.20203051363913674, 0.20079596067092012),
    (2.5, 2.0, 0.078695747878983, 0.06796349050979465),
    (2.5, 5.0, 0.011725594985430923, 0.005445551071356422),
    (2.5, 40.0, 7.097817145246691e-05, 4.430752414491523e-06),
    (5.0, 0.0625, 0.4762931000081273, 0.3787183749964537),
    (5.0, 0.5, 0.3191494358204645, 0.3279185313227465),
    (5.0, 1.0, 0.1816087338245613, 0.21967979735098056),
    (5.0, 2.0, 0.05096973941492918, 0.06509031032621647),
    (5.0, 5.0, 0.0020523579900266612, 0.0017574383788078445),
    (5.0, 40.0, 9.205981085886477e-08, 1.1476745739098755e-08),
    (30.0, 0.0625, 0.4752896126535127, 0.39483456556650687),
    (30.0, 0.5, 0.31036150244256366, 0.34787857969720454),
    (30.0, 1.0, 0.16265430771301495, 0.23799334232287983),
    (30.0, 2.0, 0.02731252248149155, 0.05685227504719796),
    (30.0, 5.0, 1.1648342733503898e-05, 3.288890205292243e-05),
    (30.0, 40.0, 6.863022597203201e-28, 5.055489286173315e-28),
    (1000.0, 0.0625, 0.4750885757992798, 0.3980635522322593),
    (1000.0, 0.5, 0.3085925404169374, 0.351938830615914),
    (1000.0, 1.0, 0.15877620904233616, 0.24184978955233824),
    (1000.0, 2.0, 0.02288517324662582, 0.05408517400975593),
    (1000.0, 5.0, 3.3836281823243153e-07, 1.7120122333122448e-06),
    (1e6, 0.0625, 0.4750823372163642, 0.3981637563697901),
    (1e6, 0.5, 0.30853759373618567, 0.35206520024085),
    (1e6, 1.0, 0.15865537491678908, 0.2419706035338315),
    (1e6, 2.0, 0.022750266925659603, 0.053991060997102186),
    (1e6, 5.0, 2.866998935445371e-07, 1.4869328706530253e-06),
];

/// Relative error allowed to a tail or density, in all: ten units for roots, quotients and the two polynomials,
/// 32 roundings of products for the constants, and four units in the exponent, -ln(power), magnified by it.
fn limit(nu: f64, t: f64) -> f64 {
    let exponent = 0.5 * nu * (t * t / nu).ln_1p();
    (10.0 + 16.0 + 4.0 * exponent) * f64::EPSILON
}

#[test]
fn tails_and_densities_agree_with_high_precision_on_every_instruction_set() {
    for set in InstructionSet::supported() {
        check(set);
    }
}

fn check(set: InstructionSet) {
    for (nu, t, tail, density) in REFERENCE {
        let mixture = single(nu, 0.0, 1.0);
        let limit = limit(nu, t);
        let close = |ours: f64, exact: f64| (ours / exact - 1.0).abs() <= limit;
        let (above, below) = (mixture.evaluate(t, set), mixture.evaluate(-t, set));
        assert!(close(above.upper, tail), "{nu} {t}: {:e} for {tail:e}", above.upper);
        assert!(close(above.lower, 1.0 - tail), "{nu} {t}");
        assert!(close(above.density, density), "{nu} {t}: {:e} for {density:e}", above.density);
        assert_eq!([below.lower, below.upper, below.density], [above.upper, above.lower, above.density]);
        assert_eq!(below.slope, -above.slope);
        // f' = -f t (nu + 1) / (nu + t^2)
        assert!(close(above.slope, -density * t * (nu + 1.0) / (nu + t * t)), "{nu} {t}");
    }
}

#[test]
fn two_degrees_of_freedom_have_a_closed_form_far_out() {
    for exponent in -60..150 {
        let t = 1.7 * 10f64.powi(exponent);
        // 1/2 - t / (2 sqrt(2 + t^2)), without its cancellation.
        let root = (2.0 + t * t).sqrt();
        let exact = 1.0 / (root * (root + t));
        let ours = single(2.0, 0.0, 1.0).survival(t);
        assert!((ours / exact - 1.0).abs() <= limit(2.0, t), "{t:e}: {ours:e} for {exact:e}");
    }
}

#[test]
fn a_single_component_agrees_with_statrs() {
    // The twin's own accuracy: its incomplete beta function stops at about 1e-13.
    for nu in [2.0 + 1e-7, 2.5, 3.0, 7.0, 30.0, 300.0] {
        let ours = single(nu, 1.0, 2.0);
        let theirs = StudentsT::new(1.0, 2.0, nu).unwrap();
        for x in [-40.0, -5.0, -1.0, 0.0, 0.9, 1.0, 1.3, 2.0, 3.5, 8.0] {
            assert!((ours.cdf(x) - theirs.cdf(x)).abs() < 1e-12, "{nu} {x} {} {}", ours.cdf(x), theirs.cdf(x));
            assert!((ours.density(x) - theirs.pdf(x)).abs() < 1e-12, "{nu} {x}");
        }
    }
}

#[test]
fn huge_degrees_of_freedom_are_normal() {
    // The normal distribution function, from mpmath.
    let normal = [
        (-6.0f64, 9.86587645037698e-10),
        (-1.0, 0.15865525393145705),
        (0.0, 0.5),
        (0.5, 0.6914624612740131),
        (3.0, 0.9986501019683699),
    ];
    for nu in [1e12, 1e38, 1e300] {
        for (x, cdf) in normal {
            let ours = single(nu, 0.0, 1.0);
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            // To first order the two differ by at most (x^4 + 2 x^2 + 1) / (4 nu) relatively.
            let limit = (x.powi(4) + 2.0 * x * x + 1.0) / nu + limit(nu, x);
            assert!((ours.cdf(x) / cdf - 1.0).abs() < limit, "{nu} {x} {:e}", ours.cdf(x));
            assert!((ours.density(x) / density - 1.0).abs() < limit, "{nu} {x} {:e}", ours.density(x));
        }
    }
}

#[test]
fn a_mixture_is_the_weighted_sum_of_its_components() {
    type Part = (f64, f64, f64, f64);
    let parts: [Part; 3] = [(0.2, 2.5, -3.0, 0.1), (0.5, 1e6, 0.0, 4.0), (0.3, 4.0, 2.0, 1.0)];
    let repeated: Vec<_> = parts.iter().cycle().take(21).collect();
    let list = |pick: &dyn Fn(&Part) -> f64| repeated.iter().map(|part| pick(part)).collect();
    let mixture = Mixture::new(list(&|p| p.0), list(&|p| p.1), list(&|p| p.2), list(&|p| p.3)).unwrap();
    assert_eq!(mixture.component_count(), 21);
    for x in [-100.0, -3.05, -1.0, 0.0, 2.0, 9.0] {
        let sum = |value: &dyn Fn(&Mixture) -> f64| -> f64 {
            parts.iter().map(|&(weight, nu, location, scale)| weight * value(&single(nu, location, scale))).sum()
        };
        // Sums of 24 terms and weights divided by a rounded sum.
        let close = |ours: f64, twin: f64| (ours / twin - 1.0).abs() < 48.0 * f64::EPSILON;
        assert!(close(mixture.cdf(x), sum(&|part| part.cdf(x))));
        assert!(close(mixture.survival(x), sum(&|part| part.survival(x))));
        assert!(close(mixture.density(x), sum(&|part| part.density(x))));
    }
}

#[test]
fn points_that_are_not_finite() {
    let mixture = random(5);
    assert_eq!([mixture.cdf(f64::INFINITY), mixture.survival(f64::INFINITY)], [1.0, 0.0]);
    assert_eq!([mixture.cdf(f64::NEG_INFINITY), mixture.survival(f64::NEG_INFINITY)], [0.0, 1.0]);
    assert_eq!(mixture.density(f64::INFINITY), 0.0);
    assert!(mixture.cdf(f64::NAN).is_nan() && mixture.density(f64::NAN).is_nan());
    assert!(mixture.cdf(f64::MAX) <= 1.0 && mixture.cdf(f64::MIN) >= 0.0);
}

#[test]
fn what_is_not_a_mixture_is_refused_with_a_reason() {
    let new = |weight: f64, nu: f64, location: f64, scale: f64| {
        Mixture::new(vec![1.0, weight], vec![3.0, nu], vec![0.0, location], vec![1.0, scale])
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(new(0.0, 2.0, 5.0, 1e-300), Ok(()));
    let refused = [
        (new(-0.1, 3.0, 0.0, 1.0), "weight of mixture component 1 is -0.1"),
        (new(f64::NAN, 3.0, 0.0, 1.0), "weight of mixture component 1 is NaN"),
        (new(1.0, 1.99, 0.0, 1.0), "degrees of freedom of mixture component 1 is 1.99"),
        (new(1.0, f64::INFINITY, 0.0, 1.0), "degrees of freedom of mixture component 1 is inf"),
        (new(1.0, 3.0, f64::NAN, 1.0), "location of mixture component 1 is NaN"),
        (new(1.0, 3.0, 0.0, 0.0), "scale of mixture component 1 is 0"),
        (new(1.0, 3.0, 0.0, f64::NAN), "scale of mixture component 1 is NaN"),
        (new(f64::MAX, 3.0, 0.0, 1.0), ""),
    ];
    for (result, message) in &refused[..7] {
        let error = result.as_ref().unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    assert_eq!(refused[7].0, Ok(()));
    let zero = Mixture::new(vec![0.0], vec![3.0], vec![0.0], vec![1.0]);
    assert_eq!(zero.unwrap_err(), MixtureError::WeightSum(0.0));
    assert!(matches!(Mixture::new(vec![], vec![], vec![], vec![]), Err(MixtureError::Lengths { .. })));
    let short = Mixture::new(vec![1.0; 2], vec![3.0; 2], vec![0.0], vec![1.0; 2]);
    assert!(matches!(short, Err(MixtureError::Lengths { locations: 1, .. })));
}
