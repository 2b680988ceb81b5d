//! Checkpoints as they come, whole and broken: every fault ends in one line that names it.

use std::path::{Path, PathBuf};

use nowcast::checkpoint::{Checkpoint, Dtype, Manifest};
use safetensors::tensor::{TensorView, serialize};

/// A file of the given header text and data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A file with one tensor.
fn with(tensor: &str, data: &[u8]) -> Vec<u8> {
    file(&format!("{{{tensor}}}"), data)
}

/// A valid file with the given F32 tensors, written by the reference implementation.
fn valid(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let data: Vec<Vec<u8>> = tensors.iter().map(|(_, shape)| vec![0x3f; shape.iter().product::<usize>() * 4]).collect();
    let views = tensors.iter().zip(&data);
    let views = views.map(|((name, shape), data)| {
        (name.to_string(), TensorView::new(Dtype::F32, shape.to_vec(), data).expect("sizes match"))
    });
    serialize(views, None).expect("serializes")
}

fn fault(bytes: Vec<u8>) -> String {
    let message = Checkpoint::from_bytes("weights", bytes).expect_err("must be refused").to_string();
    assert!(!message.contains('\n'), "more than one line: {message}");
    assert!(message.starts_with("weights "), "does not name the culprit: {message}");
    message
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/toto-univariate")
}

#[test]
fn every_broken_file_is_refused_in_one_line() {
    let f32x2 = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    let deep = format!(r#""a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}}"#, ["1"; 17].join(","));
    let long_name = format!(r#""{}":{{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#, "n".repeat(513));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "is empty"),
        ("short", vec![1, 2, 3], "has only 3 bytes"),
        ("no header", 8_u64.to_le_bytes().to_vec(), "is truncated: its header needs 8 bytes, 0 are there"),
        ("header of 2^64 bytes", vec![0xff; 16], "announce a header of 18446744073709551615 bytes"),
        ("header above the limit", [&100_000_001_u64.to_le_bytes()[..], b"{}"].concat(), "header of 100000001 bytes"),
        ("header is not JSON", file("[]", &[]), "its header is not JSON"),
        ("header is broken JSON", file("{\"a\"", &[]), "has a damaged header: tensor \"a\": EOF"),
        ("header is not UTF-8", [&4_u64.to_le_bytes()[..], b"{\"\xff\""].concat(), "has a damaged header"),
        ("bytes after the JSON", file("{} x", &[]), "trailing characters"),
        ("nested too deep", file(&("{\"a\":".repeat(200) + "1"), &[]), "has a damaged header"),
        ("git-lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n".to_vec(), "is a git-lfs pointer"),
        ("web page", b"<!DOCTYPE html><html></html>".to_vec(), "is a web page"),
        ("web page in capitals", b"\n<HTML><body>no</body>".to_vec(), "is a web page"),
        ("zip", b"PK\x03\x04aaaaaaaaaaaaaaaa".to_vec(), "is a PyTorch pickle"),
        ("GGUF", b"GGUF\x03\0\0\0\0\0\0\0\0\0".to_vec(), "is a GGUF file"),
        ("JSON", b"{\"error\":\"not found\"}".to_vec(), "is JSON text"),
        (
            "unknown type",
            with(r#""a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}"#, &[0; 8]),
            "unknown variant `Q4`",
        ),
        (
            "negative size",
            with(r#""a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}"#, &[0; 8]),
            "tensor \"a\": invalid value",
        ),
        (
            "fractional size",
            with(r#""a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}"#, &[0; 8]),
            "tensor \"a\": invalid type",
        ),
        ("no shape", with(r#""a":{"dtype":"F32","data_offsets":[0,8]}"#, &[0; 8]), "missing field `shape`"),
        ("no offsets", with(r#""a":{"dtype":"F32","shape":[2]}"#, &[0; 8]), "missing field `data_offsets`"),
        ("three offsets", with(r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}"#, &[0; 8]), "tensor \"a\": "),
        (
            "field twice",
            with(r#""a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}"#, &[0; 8]),
            "duplicate field `shape`",
        ),
        ("name twice", with(&format!("{f32x2},{f32x2}"), &[0; 8]), "tensor \"a\" appears twice"),
        (
            "metadata twice",
            with(&format!(r#""__metadata__":{{}},{f32x2},"__metadata__":{{}}"#), &[0; 8]),
            "__metadata__ appears twice",
        ),
        ("metadata of numbers", with(&format!(r#""__metadata__":{{"a":1}},{f32x2}"#), &[0; 8]), "expected a string"),
        ("17 dimensions", with(&deep, &[0; 4]), "more than 16 dimensions"),
        ("name of 513 bytes", with(&long_name, &[0; 4]), "a tensor name has 513 bytes"),
        (
            "product overflows to a small number",
            with(r#""a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}"#, &[]),
            "impossible shape [4611686018427387904, 4] of F32",
        ),
        (
            "half a byte",
            with(r#""a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}"#, &[0; 1]),
            "impossible shape [3] of F4",
        ),
        (
            "offsets reversed",
            with(r#""a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#, &[0; 8]),
            "takes 8 bytes, but its offsets are 8 to 0",
        ),
        (
            "size contradicts shape",
            with(r#""a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}"#, &[0; 8]),
            "takes 4 bytes, but its offsets are 0 to 8",
        ),
        ("data cut", with(f32x2, &[0; 7]), "is truncated: tensor \"a\" ends at byte 8 of the data, 7 bytes are there"),
        ("data too long", with(f32x2, &[0; 9]), "its tensors take 8 bytes, but 9 bytes of data are there"),
        (
            "gap at the start",
            with(r#""a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#, &[0; 8]),
            "starts at byte 4 of the data and leaves a gap",
        ),
        (
            "overlap",
            with(&format!(r#"{f32x2},"b":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#), &[0; 8]),
            "tensor \"b\" starts at byte 4 of the data and overlaps",
        ),
        (
            "two tensors whose sizes overflow only together",
            with(
                r#""a":{"dtype":"U8","shape":[2305843009213693951],"data_offsets":[0,2305843009213693951]},
                   "b":{"dtype":"U8","shape":[1],"data_offsets":[2305843009213693951,2305843009213693952]}"#,
                &[0; 8],
            ),
            "is truncated: tensor \"a\" ends at byte 2305843009213693951",
        ),
    ];
    for (case, bytes, expected) in cases {
        let message = fault(bytes);
        assert!(message.contains(expected), "{case}: {message}");
    }
}

#[test]
fn what_the_format_allows_is_read() {
    let metadata = r#""__metadata__":{"format":"pt"},"#;
    let scalar = r#""tau":{"dtype":"F32","shape":[],"data_offsets":[0,4]}"#;
    let empty = r#""none":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]}"#;
    let checkpoint =
        Checkpoint::from_bytes("weights", with(&format!("{metadata}{scalar},{empty}"), &1.5_f32.to_le_bytes()))
            .unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["none", "tau"]);
    let tau = checkpoint.tensor("tau").unwrap();
    assert_eq!((tau.rows(), tau.row_length(), tau.to_f32().unwrap()), (1, 1, vec![1.5]));
    let none = checkpoint.tensor("none").unwrap();
    assert_eq!((none.rows(), none.row_length(), none.to_f32().unwrap()), (0, 3, vec![]));
    assert!(checkpoint.tensor("absent").is_none());
    let padded = file("{}      ", &[]);
    assert_eq!(Checkpoint::from_bytes("weights", padded).unwrap().names().len(), 0);
}

#[test]
fn unaligned_rows_of_every_float_type_convert_like_the_reference() {
    // Odd header lengths put the data at every alignment.
    let values: Vec<f32> = vec![0.0, -0.0, 1.0, -1.5, 65504.0, 6.1e-5, 5.9e-8, f32::INFINITY, 0.1, 1e-3, -7.25, 3.0];
    for padding in 0..8 {
        for dtype in ["F32", "F16", "BF16", "F64"] {
            let stored: Vec<f64> = values
                .iter()
                .map(|&value| match dtype {
                    "F16" => half::f16::from_f32(value).to_f64(),
                    "BF16" => half::bf16::from_f32(value).to_f64(),
                    _ => f64::from(value),
                })
                .collect();
            let data: Vec<u8> = values
                .iter()
                .flat_map(|&value| match dtype {
                    "F16" => half::f16::from_f32(value).to_le_bytes().to_vec(),
                    "BF16" => half::bf16::from_f32(value).to_le_bytes().to_vec(),
                    "F32" => value.to_le_bytes().to_vec(),
                    _ => f64::from(value).to_le_bytes().to_vec(),
                })
                .collect();
            let header = format!(
                r#"{{"w":{{"dtype":"{dtype}","shape":[3,2,2],"data_offsets":[0,{}]}}}}{}"#,
                data.len(),
                " ".repeat(padding)
            );
            let checkpoint = Checkpoint::from_bytes("weights", file(&header, &data)).unwrap();
            let tensor = checkpoint.tensor("w").unwrap();
            assert!(tensor.is_float());
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&tensor.to_f64().unwrap()), bits(&stored), "{dtype} with padding {padding}");
            let narrow: Vec<f64> = tensor.to_f32().unwrap().into_iter().map(f64::from).collect();
            assert_eq!(bits(&narrow), bits(&stored), "{dtype} with padding {padding}");
            assert_eq!((tensor.rows(), tensor.row_length()), (6, 2));
            for row in 0..6 {
                let mut out = [f32::NAN; 2];
                tensor.row(row, &mut out).unwrap();
                let out = out.map(f64::from);
                assert_eq!(bits(&out), bits(&stored[2 * row..2 * row + 2]), "row {row} of {dtype}");
            }
        }
    }
}

#[test]
fn long_half_precision_tensors_convert_whole() {
    // Every pattern of 16 bits, longer than any block of the conversion, and not a multiple of it.
    let patterns: Vec<u16> = (0..=u16::MAX).chain(0..77).collect();
    let data: Vec<u8> = patterns.iter().flat_map(|pattern| pattern.to_le_bytes()).collect();
    for dtype in ["F16", "BF16"] {
        let tensor =
            format!(r#""w":{{"dtype":"{dtype}","shape":[{}],"data_offsets":[0,{}]}}"#, patterns.len(), data.len());
        let checkpoint = Checkpoint::from_bytes("weights", with(&tensor, &data)).unwrap();
        let converted = checkpoint.tensor("w").unwrap().to_f32().unwrap();
        for (&pattern, converted) in patterns.iter().zip(converted) {
            let expected = match dtype {
                "F16" => half::f16::from_bits(pattern).to_f32(),
                _ => half::bf16::from_bits(pattern).to_f32(),
            };
            assert!(
                expected.to_bits() == converted.to_bits() || expected.is_nan() && converted.is_nan(),
                "{dtype} {pattern:#06x}: {converted} instead of {expected}"
            );
        }
    }
}

#[test]
fn integers_are_held_but_are_no_floats() {
    let data: Vec<u8> = [3_i64, -1].iter().flat_map(|value| value.to_le_bytes()).collect();
    let checkpoint =
        Checkpoint::from_bytes("weights", with(r#""ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}"#, &data))
            .unwrap();
    let ids = checkpoint.tensor("ids").unwrap();
    assert_eq!(ids.to_i64().unwrap(), [3, -1]);
    let message = ids.to_f32().unwrap_err().to_string();
    assert_eq!(message, "tensor \"ids\" holds I64 where floats (F32, F16, BF16, F64) are needed");
    assert_eq!(ids.row(0, &mut [0.0; 2]).unwrap_err().to_string(), message);
    let floats = Checkpoint::from_bytes("weights", valid(&[("w", &[2])])).unwrap();
    let message = floats.tensor("w").unwrap().to_i64().unwrap_err().to_string();
    assert_eq!(message, "tensor \"w\" holds F32 where I64 is needed");
}

#[test]
fn a_golden_checkpoint_reads_like_the_reference_implementation_reads_it() {
    let folder = golden();
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(checkpoint.names().len(), reference.len());
    for (name, expected) in reference.iter() {
        let found = checkpoint.tensor(name).unwrap();
        assert_eq!((found.shape, found.dtype, found.bytes), (expected.shape(), expected.dtype(), expected.data()));
        checkpoint.release(name);
        assert_eq!(checkpoint.tensor(name).unwrap().bytes, expected.data(), "{name} after its pages were dropped");
    }
    let cases = Checkpoint::open(&folder.join("golden.safetensors")).unwrap();
    assert!(cases.names().len() > 0);
}

#[test]
fn the_fingerprint_is_stable_and_tells_checkpoints_apart() {
    let print = |bytes: Vec<u8>| Checkpoint::from_bytes("weights", bytes).unwrap().fingerprint();
    let base = valid(&[("a", &[4]), ("b", &[2, 2])]);
    assert_eq!(print(base.clone()), print(base.clone()));
    assert_ne!(print(base.clone()), print(valid(&[("a", &[2, 2]), ("b", &[4])])), "other shapes");
    let mut other = base.clone();
    *other.last_mut().unwrap() ^= 1;
    assert_ne!(print(base.clone()), print(other), "other weights");
    // FNV-1a of the file size, the header and the data, computed by hand in Python.
    assert_eq!(print(with(r#""a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#, &[7])), 6_671_627_474_094_633_631);
}

#[test]
fn folders_without_weights_say_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
        assert!(message.contains(folder.path().to_str().unwrap()), "{message}");
        message
    };
    assert!(open().contains("has no model.safetensors and no model.safetensors.index.json"));
    std::fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(open().contains("only the PyTorch pickle \"pytorch_model.bin\": convert it"));
    std::fs::write(folder.path().join("weights.safetensors"), "x").unwrap();
    assert!(open().contains("rename \"weights.safetensors\" or give its path"));
    std::fs::create_dir(folder.path().join("model.safetensors")).unwrap();
    assert!(open().contains("is not a regular file"));
    #[cfg(unix)]
    {
        let device = Checkpoint::open(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(device, "/dev/null is not a regular file");
    }
    let absent = Checkpoint::open(&folder.path().join("absent")).unwrap_err().to_string();
    assert!(absent.contains("absent"), "{absent}");
}

#[test]
fn empty_and_truncated_files_on_disk_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, "").unwrap();
    let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
    assert_eq!(message, format!("{} is empty: download it again", path.display()));
    let whole = valid(&[("a", &[100])]);
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("is truncated"), "{message}");
}

/// A folder with two shards and the given index.
fn sharded(index: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.safetensors"), valid(&[("a", &[2]), ("b", &[3])])).unwrap();
    std::fs::write(folder.path().join("two.safetensors"), valid(&[("c", &[2, 2])])).unwrap();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    folder
}

#[test]
fn shards_are_one_checkpoint() {
    let folder = sharded(
        r#"{"metadata":{"total_size":36},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}}"#,
    );
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(checkpoint.tensor("c").unwrap().shape, [2, 2]);
}

#[test]
fn every_broken_index_is_refused_in_one_line() {
    let traversals = [
        "../one.safetensors",
        "/etc/one.safetensors",
        "x/one.safetensors",
        "..\\\\one.safetensors",
        "C:one.safetensors",
        "",
        ".safetensors",
        "one.bin",
    ];
    for target in traversals {
        let folder = sharded(&format!(r#"{{"weight_map":{{"a":"{target}"}}}}"#));
        let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
        assert!(message.contains("only plain names of .safetensors files"), "{target}: {message}");
    }
    let many = (0..1001).map(|shard| format!(r#""t{shard}":"s{shard}.safetensors""#)).collect::<Vec<_>>().join(",");
    let cases = [
        ("no JSON", "<html>".to_string(), "is not an index of shards"),
        ("no map", "{}".into(), "missing field `weight_map`"),
        ("map of numbers", r#"{"weight_map":{"a":1}}"#.into(), "expected a string"),
        ("empty map", r#"{"weight_map":{}}"#.into(), "names no tensor"),
        (
            "name twice",
            r#"{"weight_map":{"a":"one.safetensors","a":"one.safetensors"}}"#.into(),
            "tensor \"a\" appears twice",
        ),
        ("too many files", format!(r#"{{"weight_map":{{{many}}}}}"#), "names 1001 files"),
        ("absent file", r#"{"weight_map":{"a":"three.safetensors"}}"#.into(), "three.safetensors"),
        (
            "absent tensor",
            r#"{"weight_map":{"z":"one.safetensors"}}"#.into(),
            "promises tensor \"z\" in one.safetensors",
        ),
        (
            "wrong shard",
            r#"{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}"#.into(),
            "promises tensor \"b\" in two.safetensors",
        ),
    ];
    for (case, index, expected) in cases {
        let folder = sharded(&index);
        let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{case}: {message}");
    }
    let folder = sharded(r#"{"weight_map":{"a":"one.safetensors","c":"two.safetensors"}}"#);
    std::fs::write(folder.path().join("two.safetensors"), valid(&[("a", &[2]), ("c", &[1])])).unwrap();
    let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("tensor \"a\" is in two shards"), "{message}");
}

#[test]
fn a_manifest_returns_what_it_asked_for_under_either_name() {
    let mut manifest = Manifest::new();
    manifest.require_any(["mlp.0.weight", "mlp.0.w12.weight"], &[4, 2]);
    manifest.require("norm.scale", &[2]);
    for name in ["mlp.0.weight", "mlp.0.w12.weight"] {
        let checkpoint = Checkpoint::from_bytes(
            "weights",
            valid(&[(name, &[4, 2]), ("norm.scale", &[2]), ("rotary_emb.freqs", &[1])]),
        )
        .unwrap();
        let found: Vec<_> = manifest.check(&checkpoint).unwrap().iter().map(|tensor| tensor.name).collect();
        assert_eq!(found, [name, "norm.scale"]);
    }
}

#[test]
fn a_manifest_says_everything_that_does_not_fit_in_one_line() {
    let ids = with(
        r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"ids":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},"x":{"dtype":"U8","shape":[0],"data_offsets":[16,16]}"#,
        &[0; 16],
    );
    let checkpoint = Checkpoint::from_bytes("weights", ids).unwrap();
    let mut manifest = Manifest::new();
    manifest.require("a", &[3]);
    manifest.require("ids", &[1]);
    let line = |manifest: &Manifest| manifest.check(&checkpoint).unwrap_err().to_string();
    assert_eq!(
        line(&manifest),
        "weights does not fit its config.json: wrong shape: a is [2] instead of [3]; unusable: ids holds I64 instead of floats"
    );
    manifest.require_any(["b", "c"], &[1, 2]);
    assert_eq!(
        line(&manifest),
        "weights does not fit its config.json: missing: b or c [1, 2]; wrong shape: a is [2] instead of [3]; unusable: ids holds I64 instead of floats; present but not asked for: x"
    );
    let mut twins = Manifest::new();
    twins.require_any(["a", "ids"], &[2]);
    assert!(line(&twins).contains("a and ids are both there and mean the same"), "{}", line(&twins));
    let mut many = Manifest::new();
    for layer in 0..7 {
        many.require(format!("layers.{layer}"), &[1]);
    }
    assert!(line(&many).contains("layers.4 [1] … and 2 more"), "{}", line(&many));
    assert!(!line(&many).contains("layers.5"), "{}", line(&many));
}

/// Resident bytes of the mapping of a file in this process.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).expect("the file is mapped");
    rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn released_tensors_leave_the_resident_set_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    const BIG: usize = 1 << 20;
    std::fs::write(&path, valid(&[("big", &[4, BIG]), ("small", &[3])])).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let sum = || checkpoint.tensor("big").unwrap().bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    let expected = 0x3f * 16 * BIG as u64;
    assert_eq!(sum(), expected);
    assert!(resident(&path) >= 16 * BIG, "{} resident after reading", resident(&path));
    checkpoint.release("big");
    assert!(resident(&path) < BIG, "{} resident after release", resident(&path));
    assert_eq!(sum(), expected);
    checkpoint.release("absent");
}

proptest::proptest! {
    /// Whatever happens to a valid file, what we still accept the reference implementation accepts too, and reads alike.
    #[test]
    fn no_damaged_file_is_read_that_the_reference_refuses(
        changes in proptest::collection::vec((0_usize..300, proptest::num::u8::ANY), 0..4),
        digits in proptest::collection::vec((0_usize..300, b'0'..=b'9'), 0..3),
        length in 0_usize..400,
    ) {
        let mut bytes = valid(&[("a", &[2, 3]), ("b", &[]), ("c", &[0, 7]), ("d", &[5])]);
        for (position, value) in changes.into_iter().chain(digits) {
            if let Some(byte) = bytes.get_mut(position) {
                *byte = value;
            }
        }
        if length < 100 {
            bytes.truncate(bytes.len() - length);
        }
        if let Ok(checkpoint) = Checkpoint::from_bytes("weights", bytes.clone()) {
            let reference = safetensors::SafeTensors::deserialize(&bytes).expect("the reference accepts it");
            proptest::prop_assert_eq!(checkpoint.names().len(), reference.len());
            for (name, expected) in reference.iter() {
                let found = checkpoint.tensor(name).expect("the same names");
                proptest::prop_assert_eq!(found.shape, expected.shape());
                proptest::prop_assert_eq!(found.bytes, expected.data());
            }
        }
    }
}
