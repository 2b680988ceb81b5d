//! Downloads from a Hub on this machine that behaves well, badly, or breaks off.
#![cfg(feature = "hub")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use nowcast::checkpoint::{HubOptions, ModelSource, resolve, resolve_with_progress};
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// One answer: status line, headers, and a body that may be cut.
#[derive(Clone, Default)]
struct Answer {
    status: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes to send before the connection breaks.
    cut: Option<usize>,
}

impl Answer {
    fn new(status: &'static str) -> Self {
        Self { status, ..Self::default() }
    }

    /// A small file: named by a git hash, sent at once.
    fn small(body: &[u8]) -> Self {
        Self { body: body.into(), ..Self::new("200 OK") }
            .with("X-Repo-Commit", COMMIT)
            .with("ETag", "\"6d34772f5ca361021038b404fb913ec8dc0b1a5a\"")
    }

    /// A large file: named by its SHA-256.
    fn large(body: &[u8]) -> Self {
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { body: body.into(), ..Self::new("200 OK") }
            .with("X-Repo-Commit", COMMIT)
            .with("X-Linked-Etag", &format!("\"{digest}\""))
            .with("X-Linked-Size", &body.len().to_string())
    }

    fn absent() -> Self {
        Self::new("404 Not Found").with("X-Error-Code", "EntryNotFound")
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// A Hub that answers by path and writes down what it was asked, with the token that came along.
#[derive(Clone)]
struct Hub {
    endpoint: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request: its path, and the token that came along.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    path: String,
    token: Option<String>,
}

impl Hub {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let hub = Self { endpoint, answers: Arc::default(), asked: Arc::default() };
        let served = hub.clone();
        // Ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let Some(request) = lines.next() else { continue };
                let path = request.split(' ').nth(1).unwrap().to_string();
                let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let token = headers.iter().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("authorization: bearer ").map(String::from)
                });
                served.asked.lock().unwrap().push(Asked { path: path.clone(), token });
                let answer = served.answers.lock().unwrap().get(&path).cloned().unwrap_or_else(Answer::absent);
                let mut text = format!(
                    "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n",
                    answer.status,
                    answer.body.len()
                );
                for (name, value) in &answer.headers {
                    text += &format!("{name}: {value}\r\n");
                }
                text += "\r\n";
                let body = &answer.body[..answer.cut.unwrap_or(answer.body.len())];
                // The client may have hung up.
                let _ = stream.write_all(&[text.as_bytes(), body].concat());
            }
        });
        hub
    }

    /// A Hub with the golden model at `revision`.
    fn with_model(revision: &str) -> Self {
        let hub = Self::start();
        hub.answer(revision, "config.json", Answer::small(&golden("config.json")));
        for revision in [revision, COMMIT] {
            hub.answer(revision, "model.safetensors", Answer::large(&golden("model.safetensors")));
        }
        hub
    }

    fn answer(&self, revision: &str, file: &str, answer: Answer) {
        self.answer_path(&format!("/owner/model/resolve/{revision}/{file}"), answer);
    }

    fn answer_path(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.into(), answer);
    }

    fn options(&self, cache: &Path) -> HubOptions {
        HubOptions {
            revision: None,
            offline: false,
            token: None,
            endpoint: self.endpoint.clone(),
            cache: Some(cache.into()),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.path.clone()).collect()
    }
}

fn golden(file: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/toto-univariate").join(file)).unwrap()
}

fn line(hub: &Hub, cache: &Path) -> String {
    let line = resolve("owner/model", &hub.options(cache)).expect_err("must fail").to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(line.starts_with("owner/model"), "{line}");
    line
}

/// Every file and link below a folder, without the folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

#[test]
fn a_model_is_downloaded_once_and_then_found_offline() {
    let (hub, cache) = (Hub::with_model("main"), tempfile::tempdir().unwrap());
    let mut seen = Vec::new();
    let source = resolve_with_progress("owner/model", &hub.options(cache.path()), &mut |progress| {
        seen.push((progress.file.to_string(), progress.done, progress.total));
    })
    .unwrap();
    let snapshot = cache.path().join("models--owner--model/snapshots").join(COMMIT);
    assert_eq!(source, ModelSource::Folder(snapshot.clone()));
    assert_eq!(std::fs::read(snapshot.join("model.safetensors")).unwrap(), golden("model.safetensors"));
    assert_eq!(source.config().unwrap().into_bytes(), golden("config.json"));
    source.checkpoint().unwrap();
    assert_eq!(std::fs::read_to_string(cache.path().join("models--owner--model/refs/main")).unwrap(), COMMIT);
    #[cfg(unix)]
    {
        let digest: String =
            Sha256::digest(golden("model.safetensors")).iter().map(|byte| format!("{byte:02x}")).collect();
        let link = std::fs::read_link(snapshot.join("model.safetensors")).unwrap();
        assert_eq!(link, Path::new("../../blobs").join(digest), "the layout of the Python library");
    }
    let size = golden("model.safetensors").len() as u64;
    assert_eq!(seen.last().unwrap(), &("model.safetensors".to_string(), size, Some(size)));
    // The second file comes from the commit of the first.
    let asked = hub.asked();
    assert_eq!(
        asked,
        [
            "/owner/model/resolve/main/config.json".to_string(),
            format!("/owner/model/resolve/{COMMIT}/model.safetensors")
        ]
    );
    assert_eq!(resolve("owner/model", &hub.options(cache.path())).unwrap(), source);
    assert_eq!(hub.asked().len(), 2, "the second time the cache answers");
    let offline = HubOptions { offline: true, ..hub.options(cache.path()) };
    assert_eq!(resolve("owner/model", &offline).unwrap(), source);
}

#[test]
fn revisions_are_asked_for_by_name_and_remembered() {
    let (hub, cache) = (Hub::with_model("pr%2F7"), tempfile::tempdir().unwrap());
    let source = resolve("owner/model@pr/7", &hub.options(cache.path())).unwrap();
    assert_eq!(std::fs::read_to_string(cache.path().join("models--owner--model/refs/pr/7")).unwrap(), COMMIT);
    let offline = HubOptions { offline: true, revision: Some("pr/7".into()), ..hub.options(cache.path()) };
    assert_eq!(resolve("owner/model", &offline).unwrap(), source);
}

#[test]
fn shards_are_downloaded_with_their_index() {
    let (hub, cache) = (Hub::start(), tempfile::tempdir().unwrap());
    hub.answer("main", "config.json", Answer::small(&golden("config.json")));
    let index = br#"{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}"#;
    hub.answer(COMMIT, "model.safetensors.index.json", Answer::small(index).with("ETag", "\"aa\""));
    hub.answer(COMMIT, "one.safetensors", Answer::large(b"first"));
    let missing = line(&hub, cache.path());
    assert!(missing.contains("the model has no two.safetensors"), "{missing}");
    hub.answer(COMMIT, "two.safetensors", Answer::large(b"second"));
    let ModelSource::Folder(folder) = resolve("owner/model", &hub.options(cache.path())).unwrap() else { panic!() };
    assert_eq!(std::fs::read(folder.join("two.safetensors")).unwrap(), b"second");
}

#[test]
fn an_index_of_the_hub_cannot_name_files_elsewhere() {
    let (hub, cache) = (Hub::start(), tempfile::tempdir().unwrap());
    hub.answer("main", "config.json", Answer::small(b"{}"));
    let index = br#"{"weight_map":{"a":"../../../../escaped.safetensors"}}"#;
    hub.answer(COMMIT, "model.safetensors.index.json", Answer::small(index).with("ETag", "\"aa\""));
    let line = resolve("owner/model", &hub.options(cache.path())).unwrap_err().to_string();
    assert!(line.contains("only plain names"), "{line}");
}

#[test]
fn the_token_goes_to_the_hub_and_nowhere_else() {
    let (hub, storage, cache) = (Hub::with_model("main"), Hub::start(), tempfile::tempdir().unwrap());
    let weights = Answer { status: "302 Found", body: Vec::new(), ..Answer::large(&golden("model.safetensors")) };
    hub.answer(COMMIT, "model.safetensors", weights.with("Location", &format!("{}/signed?x=1", storage.endpoint)));
    storage.answer_path("/signed?x=1", Answer { body: golden("model.safetensors"), ..Answer::new("200 OK") });
    // Small files are redirected on the Hub itself.
    let config = Answer { status: "307 Temporary Redirect", body: Vec::new(), ..Answer::small(b"") };
    hub.answer("main", "config.json", config.with("Location", "/api/resolve-cache/config.json"));
    hub.answer_path("/api/resolve-cache/config.json", Answer { body: golden("config.json"), ..Answer::new("200 OK") });
    let options = HubOptions { token: Some("hf_secret".into()), ..hub.options(cache.path()) };
    resolve("owner/model", &options).unwrap().checkpoint().unwrap();
    assert_eq!(hub.asked().len(), 3);
    assert!(hub.asked.lock().unwrap().iter().all(|asked| asked.token.as_deref() == Some("hf_secret")));
    assert_eq!(*storage.asked.lock().unwrap(), [Asked { path: "/signed?x=1".into(), token: None }]);
}

#[test]
fn a_download_that_breaks_off_leaves_nothing_behind_and_can_be_repeated() {
    let (hub, cache) = (Hub::with_model("main"), tempfile::tempdir().unwrap());
    let whole = golden("model.safetensors");
    let flipped = [&whole[..whole.len() - 1], &[whole[whole.len() - 1] ^ 1]].concat();
    let broken = [
        ("cut", Answer { cut: Some(1000), ..Answer::large(&whole) }, "the connection broke"),
        ("short", Answer { body: whole[..5000].into(), ..Answer::large(&whole) }, "ended after 5000 of 625000 bytes"),
        (
            "long",
            Answer { body: [&whole[..], b"x"].concat(), ..Answer::large(&whole) },
            "is longer than the 625000 bytes announced",
        ),
        ("altered", Answer { body: flipped, ..Answer::large(&whole) }, "has SHA-256"),
    ];
    for (case, answer, expected) in broken {
        hub.answer(COMMIT, "model.safetensors", answer);
        let line = line(&hub, cache.path());
        assert!(line.contains(expected) && line.ends_with("try again"), "{case}: {line}");
        let left = files(cache.path());
        assert!(left.iter().all(|path| !path.to_string_lossy().contains("partial")), "{case}: {left:?}");
        assert!(
            !left.iter().any(|path| path.ends_with("model.safetensors") || path.ends_with("refs/main")),
            "{case}: {left:?}"
        );
        let offline = HubOptions { offline: true, ..hub.options(cache.path()) };
        assert!(resolve("owner/model", &offline).is_err(), "{case}: the cache must not count as whole");
    }
    hub.answer(COMMIT, "model.safetensors", Answer::large(&whole));
    resolve("owner/model", &hub.options(cache.path())).unwrap().checkpoint().unwrap();
}

#[test]
fn every_refusal_of_the_hub_ends_in_one_line_with_a_cure() {
    let coded = |status, code| Answer::new(status).with("X-Error-Code", code);
    let redirect = |to: &str| Answer::small(b"").with("Location", to);
    let redirect = |to: &str| Answer { status: "302 Found", ..redirect(to) };
    let cases = [
        (
            "unknown model",
            coded("404 Not Found", "RepoNotFound"),
            "has no such model, or it lacks config.json: check the name",
        ),
        ("unknown model of a mirror", Answer::new("404 Not Found"), "has no such model, or it lacks config.json"),
        ("unknown revision", coded("404 Not Found", "RevisionNotFound"), "has no revision \"main\""),
        ("no config", Answer::absent(), "the model has no config.json"),
        (
            "unauthorized",
            coded("401 Unauthorized", "RepoNotFound"),
            "(401): check the name; if the model is private or gated, accept its terms and set HF_TOKEN",
        ),
        ("gated", coded("403 Forbidden", "GatedRepo"), "(403): check the name"),
        (
            "overloaded",
            Answer::new("503 Service Unavailable"),
            "answers 503 Service Unavailable for config.json: try again later",
        ),
        ("no Hub at all", Answer { body: b"<html>".into(), ..Answer::new("200 OK") }, "does not answer like the Hub"),
        (
            "commit that leaves its folder",
            Answer::small(b"{}").with("X-Repo-Commit", "../../../up"),
            "does not answer like the Hub",
        ),
        (
            "name that leaves its folder",
            Answer::small(b"{}").with("ETag", "\"../../up\""),
            "comes without a usable ETag",
        ),
        ("redirect without end", redirect("/owner/model/resolve/main/config.json"), "redirected more than 10 times"),
        (
            "redirect to nowhere",
            Answer { status: "302 Found", ..Answer::small(b"") },
            "is redirected to no usable address",
        ),
        ("redirect to a file", redirect("file:///etc/passwd"), "is redirected to no usable address"),
        ("redirect without scheme", redirect("//127.0.0.1/x"), "is redirected to no usable address"),
    ];
    for (case, answer, expected) in cases {
        let (hub, cache) = (Hub::start(), tempfile::tempdir().unwrap());
        hub.answer("main", "config.json", answer);
        let line = line(&hub, cache.path());
        assert!(line.contains(expected), "{case}: {line}");
        assert!(files(cache.path()).is_empty(), "{case} left files");
    }
    let (hub, cache) = (Hub::start(), tempfile::tempdir().unwrap());
    hub.answer("main", "config.json", Answer::small(b"{}"));
    assert!(line(&hub, cache.path()).contains("the model has no model.safetensors: only safetensors checkpoints"));
    let changed = "f".repeat(40);
    hub.answer(COMMIT, "model.safetensors", Answer::large(b"x").with("X-Repo-Commit", &changed));
    assert!(line(&hub, cache.path()).contains(&format!("comes from commit {changed} instead of the one asked for")));
    let pinned = HubOptions { revision: Some(changed.clone()), ..hub.options(cache.path()) };
    hub.answer(&changed, "config.json", Answer::small(b"{}"));
    let line = resolve("owner/model", &pinned).unwrap_err().to_string();
    assert!(line.contains(&format!("comes from commit {COMMIT} instead of the one asked for")), "{line}");
}

#[test]
fn without_a_network_the_cures_are_named() {
    let cache = tempfile::tempdir().unwrap();
    // A port that was free a moment ago and is closed again.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = |endpoint: &str| HubOptions {
        revision: None,
        offline: false,
        token: None,
        endpoint: endpoint.into(),
        cache: Some(cache.path().into()),
    };
    let line = resolve("owner/model", &options(&format!("http://{address}"))).unwrap_err().to_string();
    assert!(
        line.contains("cannot reach http://127.0.0.1") && line.contains("--model DIR") && line.contains("nano"),
        "{line}"
    );
    let line = resolve("owner/model", &options("no address")).unwrap_err().to_string();
    assert!(line.contains("HF_ENDPOINT \"no address\" is no address"), "{line}");
    let homeless = HubOptions { cache: None, ..options("http://127.0.0.1") };
    assert!(resolve("owner/model", &homeless).unwrap_err().to_string().contains("set HF_HOME"));
}

#[test]
fn two_downloads_at_once_do_not_disturb_each_other() {
    let (hub, cache) = (Hub::with_model("main"), tempfile::tempdir().unwrap());
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| resolve("owner/model", &hub.options(cache.path())))).collect();
        for run in runs {
            run.join().unwrap().unwrap().checkpoint().unwrap();
        }
    });
    assert_eq!(files(&cache.path().join("models--owner--model/blobs")).len(), 2);
}
