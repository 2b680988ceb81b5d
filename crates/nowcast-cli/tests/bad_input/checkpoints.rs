//! Models that are not there, not whole or not what they claim to be.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Faults, Place};
use crate::program::golden;

/// A checkpoint to break: its config, the header of its weights, and their data.
struct Broken {
    config: Value,
    header: Value,
    data: Vec<u8>,
}

impl Broken {
    fn new() -> Self {
        let config = fs::read(golden("toto-univariate").join("config.json")).unwrap();
        let bytes = fs::read(golden("toto-univariate").join("model.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        Self {
            config: serde_json::from_slice(&config).unwrap(),
            header: serde_json::from_slice(&bytes[8..8 + length]).unwrap(),
            data: bytes[8 + length..].to_vec(),
        }
    }

    fn weights(&self) -> Vec<u8> {
        let header = self.header.to_string().into_bytes();
        [&(header.len() as u64).to_le_bytes()[..], &header, &self.data].concat()
    }

    /// Puts it into the folder `model` of a place.
    fn write(&self, place: &Place) {
        write_model(place, self.config.to_string().as_bytes(), &self.weights());
    }
}

fn write_model(place: &Place, config: &[u8], weights: &[u8]) {
    fs::create_dir_all(place.path("model")).unwrap();
    place.write("model/config.json", config);
    place.write("model/model.safetensors", weights);
}

#[test]
fn the_checkpoint_is_whole_before_it_is_broken() {
    let place = Place::new();
    Broken::new().write(&place);
    let run = place.forecast(&["good.csv", "--model", "model"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn configs() {
    let place = Place::new();
    let mut faults = Faults::default();
    let mut check = |name: &str, config: &[u8], words: &[&str]| {
        write_model(&place, config, &Broken::new().weights());
        faults.check(&place, name, place.forecast(&["good.csv", "--model", "model"]), words);
        faults.check(&place, name, place.call(&["inspect", "model"]), words);
    };
    for (field, value, words) in [
        ("patch_size", json!(0), &["patch_size is 0", "1 to"][..]),
        ("patch_size", json!(32), &["stride"]),
        ("patch_size", json!("16"), &["patch_size is \"16\""]),
        ("stride", json!(8), &["stride is 8"]),
        ("num_heads", json!(0), &["num_heads is 0"]),
        ("num_heads", json!(5), &["num_heads is 5", "divisor"]),
        ("num_heads", json!(64), &["even"]),
        ("embed_dim", json!(1_u64 << 40), &["embed_dim"]),
        ("embed_dim", json!(62), &["num_heads"]),
        ("num_layers", json!(-1), &["num_layers is -1"]),
        ("num_layers", json!(1_000_000_000), &["num_layers is 1000000000"]),
        ("num_layers", json!(4.5), &["num_layers is 4.5"]),
        ("num_layers", json!(8), &["missing"]),
        ("mlp_hidden_dim", json!(0), &["mlp_hidden_dim is 0"]),
        ("mlp_hidden_dim", json!(32), &["wrong shape", "instead of"]),
        ("spacewise_every_n_layers", json!(3), &["spacewise_every_n_layers is 3"]),
        ("spacewise_every_n_layers", json!(0), &["spacewise_every_n_layers is 0"]),
        ("spacewise_first", json!("no"), &["spacewise_first"]),
        ("scaler_cls", json!("<class 'MinMaxScaler'>"), &["MinMaxScaler", "CausalPatchStdMeanScaler"]),
        ("scaler_cls", json!(null), &["scaler_cls is null"]),
        ("scale_factor_exponent", json!(1e300), &["scale_factor_exponent"]),
        ("output_distribution_classes", json!(["NormalOutput"]), &["NormalOutput", "MixtureOfStudentTsOutput"]),
        ("output_distribution_classes", json!([]), &["output_distribution_classes"]),
        ("output_distribution_kwargs", json!({"k_components": 0}), &["k_components is 0"]),
        ("output_distribution_kwargs", json!({"k_components": 1e9}), &["k_components"]),
        ("output_distribution_kwargs", json!({}), &["no output_distribution_kwargs.k_components"]),
    ] {
        let mut config = Broken::new().config;
        config[field] = value.clone();
        check(&format!("{field}: {value}"), config.to_string().as_bytes(), words);
    }
    let mut large = Broken::new().config;
    for (field, value) in [("embed_dim", 65_536), ("mlp_hidden_dim", 262_144), ("num_layers", 1000)] {
        large[field] = json!(value);
    }
    check("100 billion parameters", large.to_string().as_bytes(), &["parameters", "at most"]);
    let mut without = Broken::new().config;
    without.as_object_mut().unwrap().remove("embed_dim");
    check("no embed_dim", without.to_string().as_bytes(), &["no embed_dim"]);
    check("not JSON", b"patch_size: 16", &["not a JSON object"]);
    check("a list", b"[1, 2]", &["not a JSON object"]);
    check("empty", b"", &["not a JSON object"]);
    check("not text", b"{\"a\": \"\xff\xfe\"}", &["config.json"]);
    check("a megabyte and more", &vec![b' '; (1 << 20) + 1], &["allowed: 1048576"]);
    check("deeply nested", "[".repeat(100_000).as_bytes(), &["not a JSON object"]);
}

#[test]
fn weights() {
    let place = Place::new();
    let mut faults = Faults::default();
    let whole = Broken::new();
    let config = whole.config.to_string();
    let mut check = |name: &str, weights: &[u8], words: &[&str]| {
        write_model(&place, config.as_bytes(), weights);
        faults.check(&place, name, place.forecast(&["good.csv", "--model", "model"]), words);
    };
    let bytes = whole.weights();
    let with_length = |length: u64| [&length.to_le_bytes()[..], &bytes[8..]].concat();
    check("empty", b"", &["is empty"]);
    check("seven bytes", &bytes[..7], &["only 7 bytes"]);
    check("header cut", &bytes[..500], &["truncated"]);
    check("data cut", &bytes[..bytes.len() - 1], &["truncated"]);
    check("data cut in half", &bytes[..bytes.len() / 2], &["truncated"]);
    check("trailing bytes", &[&bytes[..], b"more"].concat(), &["damaged"]);
    check("header length of all ones", &with_length(u64::MAX), &["not a safetensors file"]);
    check("header length beyond the file", &with_length(99_000_000), &["truncated"]);
    check("header length too short", &with_length(100), &["damaged header"]);
    check("header length zero", &with_length(0), &["not a safetensors file"]);
    check("web page", b"<!DOCTYPE html><html>not found</html>", &["web page"]);
    check("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", &["git-lfs"]);
    check("pickle", b"PK\x03\x04archive/data.pkl", &["pickle"]);

    const TENSOR: &str = "model.patch_embed.projection.weight";
    let mut edited = |name: &str, edit: &dyn Fn(&mut Value), words: &[&str]| {
        let mut broken = Broken::new();
        edit(&mut broken.header);
        check(name, &broken.weights(), words);
    };
    let huge = 1_u64 << 33;
    edited("shape that overflows", &|header| header[TENSOR]["shape"] = json!([huge, huge]), &["impossible shape"]);
    edited("shape beyond its bytes", &|header| header[TENSOR]["shape"] = json!([huge, 4]), &["damaged"]);
    edited("negative shape", &|header| header[TENSOR]["shape"] = json!([-64, 16]), &["damaged header"]);
    edited("shape turned around", &|header| header[TENSOR]["shape"] = json!([16, 64]), &["wrong shape", TENSOR]);
    edited("integers", &|header| header[TENSOR]["dtype"] = json!("I32"), &["instead of floats", TENSOR]);
    edited("half the bytes", &|header| header[TENSOR]["dtype"] = json!("F16"), &["damaged"]);
    edited("unknown type", &|header| header[TENSOR]["dtype"] = json!("F7"), &["damaged header"]);
    edited("offsets beyond the file", &|header| header[TENSOR]["data_offsets"] = json!([0, u64::MAX]), &["damaged"]);
    edited("offsets backwards", &|header| header[TENSOR]["data_offsets"] = json!([4096, 0]), &["damaged"]);
    edited("two tensors in one place", &|header| header["twin"] = header[TENSOR].clone(), &["overlaps"]);
    edited(
        "another name",
        &|header| {
            let tensor = header.as_object_mut().unwrap().remove(TENSOR).unwrap();
            header["model.patch_embed.projection.wait"] = tensor;
        },
        &["missing", TENSOR, "projection.wait"],
    );
    edited("no tensor", &|header| *header = json!({}), &["damaged"]);
    edited("a list", &|header| *header = json!([1]), &["not a safetensors file"]);
    let mut broken = Broken::new();
    broken.data.chunks_mut(4).for_each(|value| value.copy_from_slice(&f32::NAN.to_le_bytes()));
    check("weights that are not numbers", &broken.weights(), &["output_distribution", "NaN or infinite"]);
    let mut broken = Broken::new();
    let end = broken.header["model.transformer.layers.1.mlp.2.weight"]["data_offsets"][1].as_u64().unwrap() as usize;
    broken.data[end - 4..end].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    check("one infinite weight", &broken.weights(), &["layers.1.mlp.2.weight", "NaN or infinite"]);
}

#[test]
fn models_that_are_not_there() {
    let place = Place::new();
    place.write("file", "x");
    for folder in ["empty", "no-config", "no-weights", "pickle"] {
        fs::create_dir(place.path(folder)).unwrap();
        if folder != "no-config" && folder != "empty" {
            place.write(&format!("{folder}/config.json"), Broken::new().config.to_string());
        }
    }
    place.write("no-config/model.safetensors", Broken::new().weights());
    place.write("pickle/pytorch_model.bin", "x");
    let mut faults = Faults::default();
    for (model, words) in [
        ("./nowhere", &["./nowhere", "no folder"][..]),
        ("nowhere", &["\"nowhere\" is no model", "nano"]),
        ("some/model", &["some/model", "offline", "nano"]),
        ("some/model@v1", &["some/model@v1"]),
        ("../up/and/away", &["no folder"]),
        ("a/../b", &["no folder"]),
        ("", &["no folder"]),
        ("file", &["is a file", "folder"]),
        ("empty", &["config.json", "downloaded checkpoint"]),
        ("no-config", &["no config.json"]),
        ("no-weights", &["no model.safetensors"]),
        ("pickle", &["pytorch_model.bin", "convert it"]),
    ] {
        for call in [
            place.forecast(&["good.csv", "--model", model, "--offline"]),
            place.call(&["inspect", "--offline", model]),
            place.call(&["bench", "--offline", "--model", model]),
        ] {
            faults.check(&place, model, call, words);
        }
    }
}
