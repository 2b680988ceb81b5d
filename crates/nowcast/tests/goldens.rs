//! The goldens decide; and a golden with one changed digit is noticed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nowcast::ModelFamily;
use nowcast::device::CudaDevice;
use nowcast::golden::{verify, verify_on};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens")
}

#[test]
fn every_toto_case_passes() {
    every_case_passes(ModelFamily::Toto, false, 7);
}

#[test]
fn every_kronos_case_passes() {
    every_case_passes(ModelFamily::Kronos, false, 5);
    every_case_passes(ModelFamily::Kronos, true, 5);
}

fn every_case_passes(family: ModelFamily, eager: bool, cases: usize) {
    let report = verify(&goldens(), Some(family), eager, &mut |_, _| ()).unwrap();
    for case in &report.cases {
        let failed: Vec<_> = case.checks.iter().filter(|check| !check.pass).collect();
        assert!(case.pass, "{}: {:?} {failed:?}", case.case, case.failure);
    }
    assert_eq!((report.passed, report.failed), (cases, 0));
}

/// The CUDA kernels, compiled for this processor: the same arithmetic, the same checks. These cases draw no samples,
/// which would take minutes; labels, exogenous variates, groups and several decode steps are there.
#[test]
fn a_toto_case_passes_on_emulated_cuda_kernels() {
    let device = match CudaDevice::emulated() {
        Ok(device) => Arc::new(device.with_poisoned_memory()),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let report = verify_on(device, &goldens().join("toto-exogenous"), None, false, &mut |_, _| ()).unwrap();
    let failed: Vec<_> = report.cases[0].checks.iter().filter(|check| !check.pass).collect();
    assert!(report.cases[0].pass, "{:?} {failed:?}", report.cases[0].failure);
}

/// Copies a case and changes one value of a stored f64 tensor by a thousandth.
fn tampered(tensor: &str, folder: &Path) {
    let source = goldens().join("toto-univariate");
    for file in ["case.json", "config.json", "model.safetensors"] {
        std::fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    let mut bytes = std::fs::read(source.join("golden.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let start = 8 + length + header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    let value = f64::from_le_bytes(bytes[start..start + 8].try_into().unwrap());
    bytes[start..start + 8].copy_from_slice(&(value * 1.001).to_le_bytes());
    std::fs::write(folder.join("golden.safetensors"), bytes).unwrap();
}

#[test]
fn one_changed_digit_fails() {
    for tensor in ["mean_kv_f64", "hidden_f64", "mix_loc_f64", "loc_f64", "first_patch_quantiles_exact_f64"] {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("toto-tampered");
        std::fs::create_dir(&named).unwrap();
        tampered(tensor, &named);
        let report = verify(&named, None, false, &mut |_, _| ()).unwrap();
        assert_eq!((report.passed, report.failed), (0, 1), "{tensor}");
        let failed = report.cases[0].checks.iter().find(|check| !check.pass).expect("one check failed");
        assert!(failed.tensor.starts_with(tensor.trim_end_matches("_f64")), "{tensor}: {failed:?}");
    }
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(verify(folder.path(), None, false, &mut |_, _| ()).is_err());
}
