//! What each dtype of the CPU is off by, against the stored f64 values of the public references.
//!
//! `cargo run --release -p nowcast --example dtype_errors -- goldens` prints, for each tensor and dtype, the largest error
//! of any case in units of the largest value of the tensor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use nowcast::device::{CpuDevice, Dtype};
use nowcast::golden::measure_dtype;

/// Toto's hidden states, its mixture's parameters and quantiles; Kronos' hidden states and the logits of its coarse token.
const TENSORS: [&str; 8] = [
    "hidden",
    "mix_df",
    "mix_loc",
    "mix_scale",
    "mix_logits",
    "first_patch_quantiles_exact_f64",
    "lm.context",
    "lm.s1_logits",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "goldens".into()));
    let dtypes = [Dtype::F32, Dtype::Bf16, Dtype::Int8];
    let mut worst: HashMap<(&str, Dtype), (f64, usize)> = HashMap::new();
    for dtype in dtypes {
        let report = measure_dtype(Arc::new(CpuDevice::new(None)), &folder, None, dtype, &mut |_, _| ())?;
        for case in report.cases {
            if let Some(failure) = case.failure {
                return Err(format!("{}: {failure}", case.case).into());
            }
            for check in case.checks {
                let Some(tensor) = TENSORS.into_iter().find(|&tensor| tensor == check.tensor) else { continue };
                let Some(largest) = check.largest else { continue };
                let (error, cases) = worst.entry((tensor, dtype)).or_default();
                *error = error.max(check.error / largest);
                *cases += 1;
            }
        }
    }
    println!("| tensor | cases | f32 | bf16 | int8 |\n|---|---|---|---|---|");
    for tensor in TENSORS {
        let of = |dtype| worst.get(&(tensor, dtype)).copied().unwrap_or((f64::NAN, 0));
        let errors = dtypes.map(|dtype| format!("{:.1e}", of(dtype).0));
        println!("| {tensor} | {} | {} |", of(Dtype::F32).1, errors.join(" | "));
    }
    Ok(())
}
