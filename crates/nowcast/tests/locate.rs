//! Models by name: folders, the Hub's cache as the Python library fills it, and the settings of that library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nowcast::checkpoint::{HubOptions, ModelSource, resolve};
use nowcast::toto::config::TotoConfig;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/toto-univariate")
}

/// Offline, with the given cache.
fn offline(cache: &Path) -> HubOptions {
    HubOptions {
        revision: None,
        offline: true,
        token: None,
        endpoint: "http://127.0.0.1:9".into(),
        cache: Some(cache.into()),
    }
}

fn line(model: &str, options: &HubOptions) -> String {
    let line = resolve(model, options).expect_err("must be refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Fills a cache as the Python library does: content in `blobs`, links in `snapshots`, commits in `refs`.
fn cached(files: &[&str]) -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    let model = cache.path().join("models--owner--model");
    let snapshot = model.join("snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(model.join("refs/pr")).unwrap();
    std::fs::write(model.join("refs/main"), COMMIT).unwrap();
    std::fs::write(model.join("refs/pr/1"), COMMIT).unwrap();
    for file in files {
        std::fs::copy(golden().join(file), snapshot.join(file)).unwrap();
    }
    cache
}

#[test]
fn a_folder_is_used_as_it_is() {
    let options = offline(Path::new("/nonexistent"));
    let source = resolve(golden().to_str().unwrap(), &options).unwrap();
    assert_eq!(source, ModelSource::Folder(golden()));
    let config = TotoConfig::from_json(&source.config().unwrap()).unwrap();
    assert_eq!((config.patch_size, config.embed_dim, config.layers.len()), (16, 64, 4));
    let checkpoint = source.checkpoint().unwrap();
    let elements: usize = checkpoint.names().map(|name| checkpoint.tensor(name).unwrap().elements()).sum();
    assert_eq!(elements as u64, config.parameters());
}

#[test]
fn a_folder_that_lacks_something_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let options = offline(Path::new("/nonexistent"));
    let path = folder.path().to_str().unwrap();
    assert_eq!(line(path, &options), format!("{path} has no config.json: give the folder of a downloaded checkpoint"));
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    assert!(line(path, &options).contains("has no model.safetensors and no model.safetensors.index.json"));
    std::fs::write(folder.path().join("pytorch_model.bin"), "").unwrap();
    assert!(line(path, &options).contains("only the PyTorch pickle"));
    let file = golden().join("model.safetensors");
    assert!(line(file.to_str().unwrap(), &options).contains("is a file: give the folder that holds config.json"));
    std::fs::copy(&file, folder.path().join("model.safetensors")).unwrap();
    let source = resolve(path, &options).unwrap();
    std::fs::write(folder.path().join("config.json"), vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(source.config().unwrap_err().to_string().contains("has 1048577 bytes (allowed: 1048576)"));
    std::fs::write(folder.path().join("config.json"), [0xff, 0xfe]).unwrap();
    assert!(source.config().unwrap_err().to_string().contains("config.json"));
}

#[test]
fn names_that_are_no_models_are_refused_before_anything_is_touched() {
    let options = offline(Path::new("/nonexistent"));
    for path in ["./absent", "/absent/folder", "~/absent", "absent\\folder", "absent/", "a/b/c", "../a/b", ""] {
        assert!(line(path, &options).starts_with(&format!("there is no folder {path:?}")), "{path}");
    }
    for name in [
        "toto",
        "owner/na me",
        "owner/..",
        "owner/a..b",
        "owner/-name",
        "owner/name--x",
        "owner/né",
        "owner/a%2e",
        "@main",
    ] {
        assert!(line(name, &options).starts_with(&format!("{name:?} is no model: give a folder")), "{name}");
    }
    let long = format!("owner/{}", "n".repeat(97));
    assert!(line(&long, &options).contains("is no model"));
    for revision in ["", "..", "a/../b", "/etc", "a//b", "a b", "a\0b", "refs/.hidden"] {
        assert!(line(&format!("owner/model@{revision}"), &options).contains("is no revision"), "{revision:?}");
    }
    let both = HubOptions { revision: Some("main".into()), ..options };
    assert!(line("owner/model@v2", &both).contains("names one revision and the settings another"));
}

#[test]
#[cfg(not(feature = "nano"))]
fn a_build_without_nano_says_so() {
    let message = line("nano", &offline(Path::new("/nonexistent")));
    assert!(message.starts_with("this build does not carry nano"), "{message}");
}

#[test]
#[cfg(feature = "nano")]
fn nano_is_built_in_and_fits_its_config() {
    let source = resolve("nano", &offline(Path::new("/nonexistent"))).unwrap();
    let config = TotoConfig::from_json(&source.config().unwrap()).unwrap();
    let checkpoint = source.checkpoint().unwrap();
    let elements: usize = checkpoint.names().map(|name| checkpoint.tensor(name).unwrap().elements()).sum();
    assert_eq!(elements as u64, config.parameters());
    assert!(format!("{source:?}").len() < 100, "the weights stay out of logs");
}

#[test]
fn offline_models_come_from_the_cache() {
    let cache = cached(&["config.json", "model.safetensors"]);
    let expected = ModelSource::Folder(cache.path().join("models--owner--model/snapshots").join(COMMIT));
    let options = offline(cache.path());
    for name in ["owner/model", "owner/model@main", "owner/model@pr/1", &format!("owner/model@{COMMIT}")] {
        assert_eq!(resolve(name, &options).unwrap(), expected, "{name}");
    }
    let revised = HubOptions { revision: Some("pr/1".into()), ..options.clone() };
    assert_eq!(resolve("owner/model", &revised).unwrap(), expected);
    let absent = line("owner/other", &options);
    assert!(absent.starts_with("owner/other is not in ") && absent.contains("HF_HUB_OFFLINE is set"), "{absent}");
    let absent = line("owner/model@v2", &options);
    assert!(absent.starts_with("owner/model@v2 is not in "), "{absent}");
}

#[test]
fn a_cached_model_that_is_not_whole_does_not_count() {
    for files in [&["config.json"][..], &["model.safetensors"], &[]] {
        let cache = cached(files);
        assert!(line("owner/model", &offline(cache.path())).contains("is not in"), "{files:?}");
    }
    let cache = cached(&["config.json"]);
    let snapshot = cache.path().join("models--owner--model/snapshots").join(COMMIT);
    let index = r#"{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}"#;
    std::fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    std::fs::write(snapshot.join("one.safetensors"), "").unwrap();
    assert!(line("owner/model", &offline(cache.path())).contains("is not in"));
    std::fs::write(snapshot.join("two.safetensors"), "").unwrap();
    assert!(resolve("owner/model", &offline(cache.path())).is_ok());
}

#[test]
fn a_reference_that_leaves_the_cache_is_not_followed() {
    let cache = cached(&["config.json", "model.safetensors"]);
    std::fs::write(cache.path().join("models--owner--model/refs/main"), "../../../../elsewhere").unwrap();
    assert!(line("owner/model", &offline(cache.path())).contains("is not in"));
}

/// Options from a made-up environment.
fn options(variables: &[(&str, &str)]) -> HubOptions {
    let find = |name: &str| variables.iter().find(|(variable, _)| *variable == name);
    HubOptions::from_variables(|name| find(name).map(|(_, value)| OsString::from(value)))
}

#[test]
fn settings_are_those_of_the_python_library() {
    let cache = |variables: &[(&str, &str)]| options(variables).cache.unwrap();
    let home = ("HOME", "/home/user");
    assert_eq!(cache(&[home]), Path::new("/home/user/.cache/huggingface/hub"));
    assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/caches")]), Path::new("/caches/huggingface/hub"));
    assert_eq!(cache(&[home, ("HF_HOME", "~/hf")]), Path::new("/home/user/hf/hub"));
    assert_eq!(cache(&[home, ("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/cache")]), Path::new("/cache"));
    assert_eq!(cache(&[home, ("HF_HOME", "")]), Path::new("/home/user/.cache/huggingface/hub"), "empty is unset");
    assert_eq!(options(&[]).endpoint, "https://huggingface.co");
    assert_eq!(options(&[("HF_ENDPOINT", "https://mirror/")]).endpoint, "https://mirror");
    for (value, expected) in [("1", true), ("true", true), ("YES", true), ("on", true), ("0", false), ("", false)] {
        assert_eq!(options(&[("HF_HUB_OFFLINE", value)]).offline, expected, "{value:?}");
    }
}

#[test]
fn the_token_comes_from_the_variable_or_the_file_and_stays_out_of_logs() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_str().unwrap();
    assert_eq!(options(&[("HF_HOME", path)]).token, None);
    std::fs::write(home.path().join("token"), " hf_file\n").unwrap();
    assert_eq!(options(&[("HF_HOME", path)]).token.as_deref(), Some("hf_file"));
    assert_eq!(options(&[("HF_HOME", path), ("HF_TOKEN", "hf_variable\n")]).token.as_deref(), Some("hf_variable"));
    assert_eq!(options(&[("HF_HOME", path), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
    std::fs::write(home.path().join("other"), "hf_other").unwrap();
    let other = format!("{path}/other");
    assert_eq!(options(&[("HF_HOME", path), ("HF_TOKEN_PATH", &other)]).token.as_deref(), Some("hf_other"));
    let shown = format!("{:?}", options(&[("HF_TOKEN", "hf_secret")]));
    assert!(!shown.contains("hf_secret") && shown.contains("***"), "{shown}");
}
