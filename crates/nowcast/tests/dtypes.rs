//! bf16 and int8 against the stored f64 values of the public references.

use std::path::Path;
use std::sync::Arc;

use nowcast::ModelFamily;
use nowcast::device::{CpuDevice, Dtype};
use nowcast::golden::measure_dtype;

/// Products between the input and the hidden states of the stored Toto cases: four in each of four layers.
const PRODUCTS: f64 = 16.0;
/// A tensor's largest error in units of its typical one; of ten thousand normal errors the largest is 4.4.
const DEVIATIONS: f64 = 6.0;

/// What the hidden states may be off by, in units of their largest value: every product rounds both operands, errors are
/// independent and add up as their squares do, and the largest value is no smaller than the typical one.
fn limit(dtype: Dtype) -> f64 {
    let of_operand = match dtype {
        Dtype::F32 => 2f64.powi(-24),
        Dtype::Bf16 => 2f64.powi(-9),
        // Half a step of 127; a row's largest value is three times its typical one.
        Dtype::Int8 => 3.0 / 254.0,
    };
    DEVIATIONS * of_operand * (2.0 * PRODUCTS / 3.0).sqrt()
}

#[test]
fn hidden_states_are_off_by_what_the_dtype_explains() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/toto-univariate");
    let mut last = 0.0;
    for dtype in Dtype::ALL {
        let device = Arc::new(CpuDevice::new(None).with_poisoned_memory());
        let report = measure_dtype(device, &goldens, Some(ModelFamily::Toto), dtype, &mut |_, _| ()).unwrap();
        assert!(report.cases[0].failure.is_none(), "{:?}", report.cases[0].failure);
        let hidden = report.cases[0].checks.iter().find(|check| check.tensor == "hidden").expect("it is stored");
        let error = hidden.error / hidden.largest.expect("it is stored in f64");
        assert!(error <= limit(dtype), "{dtype}: {error:e}, limit {:e}", limit(dtype));
        // Each rounds more than the one before: none of them is another in disguise.
        assert!(error > 2.0 * last, "{dtype}: {error:e} after {last:e}");
        last = error;
    }
}
