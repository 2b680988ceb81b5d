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

/// The CUDA kernels, compiled for this processor: the same arithmetic, the same checks. This case draws no samples,
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

/// Copies a folder and everything below it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() { copy(&entry.path(), &target) } else { drop(std::fs::copy(entry.path(), target)) }
    }
}

/// Copies a case and changes the first value of a stored tensor by a thousandth and a little, or an integer by one.
fn tampered(case: &str, tensor: &str, folder: &Path) {
    copy(&goldens().join(case), folder);
    let path = folder.join("golden.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let start = first_byte(&bytes, tensor);
    match header(&bytes)[tensor]["dtype"].as_str().unwrap() {
        "F64" => change(&mut bytes[start..], |bytes| shifted(f64::from_le_bytes(bytes)).to_le_bytes()),
        "F32" => {
            change(&mut bytes[start..], |bytes| (shifted(f64::from(f32::from_le_bytes(bytes))) as f32).to_le_bytes())
        }
        "I64" => change(&mut bytes[start..], |bytes| (i64::from_le_bytes(bytes) ^ 1).to_le_bytes()),
        other => panic!("{tensor} holds {other}"),
    }
    std::fs::write(path, bytes).unwrap();
}

fn header(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(&bytes[8..8 + header_length(bytes)]).unwrap()
}

fn header_length(bytes: &[u8]) -> usize {
    u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize
}

/// Where a tensor's values begin in a file.
fn first_byte(bytes: &[u8], tensor: &str) -> usize {
    8 + header_length(bytes) + header(bytes)[tensor]["data_offsets"][0].as_u64().unwrap() as usize
}

fn shifted(value: f64) -> f64 {
    value + value.abs() / 1e3 + 1e-3
}

fn change<const N: usize>(bytes: &mut [u8], to: impl Fn([u8; N]) -> [u8; N]) {
    let changed = to(bytes[..N].try_into().unwrap());
    bytes[..N].copy_from_slice(&changed);
}

#[test]
fn one_changed_digit_fails() {
    let toto = ["mean_kv_f64", "hidden_f64", "mix_loc_f64", "loc_f64", "first_patch_quantiles_exact_f64"];
    let of_kronos = [
        ("kronos-predict", "slide.gen_s1"),
        ("kronos-predict", "slide.s2_logits"),
        ("kronos-predict", "slide.preds"),
        ("kronos-predict", "noamount.y_stamp"),
        ("kronos-batch", "batch.ctx_s2"),
        ("kronos-sampling", "probs.T1.0_k0_p1.0"),
        ("kronos-tokens", "tok.s1_ids"),
        ("kronos-tokens", "lm.context_f64"),
        ("kronos-tokens-fixed-te", "tok.forward_z_f64"),
    ];
    for (case, tensor) in toto.map(|tensor| ("toto-univariate", tensor)).into_iter().chain(of_kronos) {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join(case);
        tampered(case, tensor, &named);
        let report = verify(&named, None, false, &mut |_, _| ()).unwrap();
        assert_eq!((report.passed, report.failed), (0, 1), "{case} {tensor}: {:?}", report.cases[0].failure);
        let failed = report.cases[0].checks.iter().find(|check| !check.pass).expect("one check failed");
        let expected = tensor.trim_end_matches("_f64").replace("y_stamp", "stamps");
        assert!(failed.tensor.starts_with(&expected), "{case} {tensor}: {failed:?}");
    }
}

#[test]
fn kronos_cases_out_of_bounds_fail_in_words() {
    let failure = |case: &str, damage: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join(case);
        copy(&goldens().join(case), &named);
        damage(&named);
        let report = verify(&named, None, false, &mut |_, _| ()).unwrap();
        let failure = report.cases[0].failure.clone().unwrap_or_default();
        assert!(!failure.is_empty() && !failure.contains('\n'), "{case}: {failure:?}");
        failure
    };
    for (case, tensor) in [
        ("kronos-predict", "short.gen_s2"),
        ("kronos-predict", "short.ctx_s1"),
        ("kronos-predict", "slide.x_stamp"),
        ("kronos-tokens", "step_s1"),
        ("kronos-tokens", "stamp"),
    ] {
        for value in [-1i64, 1 << 40] {
            let words = failure(case, &|folder| {
                let path = folder.join("golden.safetensors");
                let mut bytes = std::fs::read(&path).unwrap();
                let start = first_byte(&bytes, tensor);
                bytes[start..start + 8].copy_from_slice(&value.to_le_bytes());
                std::fs::write(path, bytes).unwrap();
            });
            assert!(words.contains(&value.to_string()) && words.contains("allowed"), "{words}");
        }
    }
    for (field, value, word) in [
        ("pred_len", "0", "horizon"),
        ("pred_len", "1000000000000", "horizon"),
        ("max_context", "0", "window"),
        ("clip", "-1", "clip"),
    ] {
        let words = failure("kronos-batch", &|folder| {
            let path = folder.join("case.json");
            let text = std::fs::read_to_string(&path).unwrap();
            let (before, rest) = text.split_once(&format!("\"{field}\":")).unwrap();
            let end = rest.find([',', '}', '\n']).unwrap();
            std::fs::write(path, format!("{before}\"{field}\": {value}{}", &rest[end..])).unwrap();
        });
        assert!(words.contains(word), "{field}: {words}");
    }
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(verify(folder.path(), None, false, &mut |_, _| ()).is_err());
}
