//! Which family a model belongs to, and how a Kronos model finds its tokenizer.

use std::path::{Path, PathBuf};

use nowcast::checkpoint::{HubOptions, ModelSource};
use nowcast::family::{Located, ModelFamily, locate};
use nowcast::kronos::KronosSource;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens").join(name).canonicalize().unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// A cache of the Hub that holds a repository.
fn cache(folder: &Path, repository: &str, from: &Path) -> PathBuf {
    let model = folder.join(format!("models--{}", repository.replace('/', "--")));
    let snapshot = model.join("snapshots").join(COMMIT);
    copy(from, &snapshot);
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), COMMIT).unwrap();
    snapshot
}

fn offline(cache: &Path) -> HubOptions {
    HubOptions {
        revision: None,
        offline: true,
        token: None,
        endpoint: "http://127.0.0.1:9".into(),
        cache: Some(cache.into()),
    }
}

fn find(model: &str, tokenizer: Option<&str>, cache: &Path) -> Result<Located, String> {
    let located = locate(model, tokenizer, &offline(cache), &mut |_| ());
    located.map_err(|error| {
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    })
}

fn kronos(tokenizer: &Path, predictor: &Path) -> Located {
    let folder = |path: &Path| ModelSource::Folder(path.to_owned());
    Located::Kronos(KronosSource { tokenizer: folder(tokenizer), predictor: folder(predictor) })
}

#[test]
fn published_models_bring_their_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let model = cache(folder.path(), "NeoQuasar/Kronos-base", &golden("kronos-predict/model"));
    let tokenizer = cache(folder.path(), "NeoQuasar/Kronos-Tokenizer-base", &golden("kronos-predict/tokenizer"));
    assert_eq!(find("NeoQuasar/Kronos-base", None, folder.path()).unwrap(), kronos(&tokenizer, &model));

    // Mini reads the tokens of another one; what tells it is its shape.
    let mini = cache(folder.path(), "NeoQuasar/Kronos-mini", &golden("kronos-predict/model"));
    let config = r#"{"s1_bits": 10, "s2_bits": 10, "n_layers": 4, "d_model": 256, "n_heads": 4, "ff_dim": 512}"#;
    std::fs::write(mini.join("config.json"), config).unwrap();
    let missing = find("NeoQuasar/Kronos-mini", None, folder.path()).unwrap_err();
    assert!(missing.contains("NeoQuasar/Kronos-Tokenizer-2k"), "{missing}");
    let long = cache(folder.path(), "NeoQuasar/Kronos-Tokenizer-2k", &golden("kronos-predict/tokenizer"));
    assert_eq!(find("NeoQuasar/Kronos-mini", None, folder.path()).unwrap(), kronos(&long, &mini));

    let own = golden("kronos-batch/tokenizer");
    let named = find("NeoQuasar/Kronos-base", own.to_str(), folder.path()).unwrap();
    assert_eq!(named, kronos(&own, &model));
}

#[test]
fn folders_hold_both_halves_or_stand_side_by_side() {
    let none = Path::new("/nonexistent");
    let case = golden("kronos-predict");
    let (model, tokenizer) = (case.join("model"), case.join("tokenizer"));
    assert_eq!(find(case.to_str().unwrap(), None, none).unwrap(), kronos(&tokenizer, &model));
    let Located::Kronos(source) = find(model.to_str().unwrap(), None, none).unwrap() else { panic!("a Kronos model") };
    assert_eq!(source.configs().unwrap().0.bits, source.configs().unwrap().1.bits);

    let alone = tempfile::tempdir().unwrap();
    copy(&model, alone.path());
    let path = alone.path().to_str().unwrap();
    assert!(find(path, None, none).unwrap_err().contains("--tokenizer"));
    assert_eq!(find(path, tokenizer.to_str(), none).unwrap(), kronos(&tokenizer, alone.path()));
}

#[test]
fn halves_in_each_other_s_place_are_named() {
    let none = Path::new("/nonexistent");
    let path = |name: &str| golden(name).to_str().unwrap().to_owned();
    let toto = path("toto-univariate");
    assert_eq!(find(&toto, None, none).unwrap().family(), ModelFamily::Toto);
    assert_eq!(find("kronos-nano", None, none).unwrap().family(), ModelFamily::Kronos);
    let tokenizer = path("kronos-predict/tokenizer");
    assert!(find(&tokenizer, None, none).unwrap_err().contains("is a Kronos tokenizer"));
    assert!(find(&toto, Some(&tokenizer), none).unwrap_err().contains("leave --tokenizer out"));
    let model = path("kronos-predict/model");
    assert!(find(&model, Some(&model), none).unwrap_err().contains("is no Kronos tokenizer"));
}
