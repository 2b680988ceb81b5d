//! Downloads from the Hub into the cache: each file checked against its size and hash, then renamed into place.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::{HeaderMap, Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use super::cache::CachedModel;
use super::{HubModel, HubOptions, Progress, is_commit};
use crate::checkpoint::locate::CONFIG;
use crate::checkpoint::shards::Index;
use crate::checkpoint::{INDEX, WEIGHTS};
use crate::{Error, Result};

const MAX_REDIRECTS: usize = 10;
/// Bytes of a file whose size the Hub does not say.
const MAX_UNSIZED_BYTES: u64 = 16 << 20;

/// Downloads a model and returns its folder.
pub(super) fn fetch(
    model: &HubModel,
    options: &HubOptions,
    cached: &CachedModel,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf> {
    let mut session = Session { agent: agent(), model, options, cached, progress, commit: None };
    session.file(CONFIG)?.ok_or_else(|| session.lacks(CONFIG))?;
    if session.file(WEIGHTS)?.is_none() {
        let index = session.file(INDEX)?.ok_or_else(|| session.lacks(WEIGHTS))?;
        for shard in Index::read(&index)?.files() {
            session.file(shard)?.ok_or_else(|| session.lacks(shard))?;
        }
    }
    session.finish()
}

fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        // Redirects are followed here: their headers carry commit, hash and size, and the token must not travel along.
        .max_redirects(0)
        .user_agent(concat!("nowcast/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(60)))
        .build()
        .into()
}

/// The download of one model; all files come from the commit of the first.
struct Session<'a> {
    agent: Agent,
    model: &'a HubModel,
    options: &'a HubOptions,
    cached: &'a CachedModel,
    progress: &'a mut dyn FnMut(Progress<'_>),
    commit: Option<String>,
}

/// What the Hub says about a file before it sends it.
#[derive(Debug, Default)]
struct Announcement {
    commit: Option<String>,
    /// Name of the blob in the cache.
    etag: Option<String>,
    size: Option<u64>,
    /// Of the content; the Hub names large files by it.
    sha256: Option<String>,
}

impl Announcement {
    /// Takes over what one answer of a chain of redirects says, unless an earlier one did.
    fn read(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let owned = |text: &str| text.trim_start_matches("W/").replace('"', "");
        let linked = text("x-linked-etag").map(owned);
        if self.commit.is_none() {
            self.commit = text("x-repo-commit").filter(|commit| is_commit(commit)).map(String::from);
        }
        if self.size.is_none() {
            self.size = text("x-linked-size").and_then(|size| size.parse().ok());
        }
        if self.sha256.is_none() {
            self.sha256 = linked.clone().filter(|etag| is_sha256(etag));
        }
        if self.etag.is_none() {
            self.etag = linked.or_else(|| text("etag").map(owned));
        }
    }

    /// A name for the blob that stays in its folder.
    fn blob(&self) -> Option<&str> {
        let etag = self.etag.as_deref()?;
        let plain = etag.len() <= 128 && etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (plain && !etag.is_empty()).then_some(etag)
    }
}

impl Session<'_> {
    /// Brings one file into the cache and returns its path; `None` if the model has no such file.
    fn file(&mut self, file: &str) -> Result<Option<PathBuf>> {
        let Some((mut announced, response)) = self.request(file)? else { return Ok(None) };
        let Some(commit) = announced.commit.take() else {
            return Err(self.fault(format!(
                "{} does not answer like the Hub (no commit): check HF_ENDPOINT",
                self.options.endpoint
            )));
        };
        if *self.commit.get_or_insert_with(|| commit.clone()) != commit {
            return Err(self.fault(format!("its commit changed to {commit} during the download: try again")));
        }
        let snapshot = self.cached.snapshot_of(&commit);
        let pointer = snapshot.join(file);
        if pointer.exists() {
            return Ok(Some(pointer));
        }
        let Some(blob) = announced.blob() else {
            return Err(self.fault(format!("{file} comes without a usable ETag: check HF_ENDPOINT")));
        };
        let blobs = self.cached.folder().join("blobs");
        create_folder(&blobs)?;
        create_folder(&snapshot)?;
        let blob_path = blobs.join(blob);
        if !blob_path.exists() {
            self.receive(file, &announced, response, &blob_path)?;
        }
        point(&pointer, &blob_path, blob).map_err(|error| Error::file(&pointer, error))?;
        Ok(Some(pointer))
    }

    /// Asks for a file and follows redirects up to the answer that carries it.
    fn request(&self, file: &str) -> Result<Option<(Announcement, Response<Body>)>> {
        let HubOptions { endpoint, token, .. } = self.options;
        let HubModel { owner, name, revision } = self.model;
        let revision = self.commit.as_ref().unwrap_or(revision).replace('/', "%2F");
        let mut address: Uri =
            format!("{endpoint}/{owner}/{name}/resolve/{revision}/{file}").parse().map_err(|_| {
                Error::Setting(format!("HF_ENDPOINT {endpoint:?} is no address such as {}", super::DEFAULT_ENDPOINT))
            })?;
        let home = address.clone();
        let mut announced = Announcement::default();
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.agent.get(address.clone());
            if let Some(token) = token
                && same_origin(&address, &home)
            {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| self.unreachable(&error))?;
            announced.read(response.headers());
            match response.status() {
                StatusCode::OK => return Ok(Some((announced, response))),
                status if status.is_redirection() => {
                    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                    let target = location.and_then(|location| redirect(&address, location));
                    address = target.ok_or_else(|| self.fault(format!("{file} is redirected to no usable address")))?;
                }
                status => return self.refusal(file, status, response.headers()).map(|()| None),
            }
        }
        Err(self.fault(format!("{file} is redirected more than {MAX_REDIRECTS} times")))
    }

    /// Writes the body to a temporary name, checks it, and renames it to the blob.
    fn receive(&mut self, file: &str, announced: &Announcement, response: Response<Body>, blob: &Path) -> Result<()> {
        let total = announced.size.or_else(|| response.body().content_length());
        let limit = total.unwrap_or(MAX_UNSIZED_BYTES);
        let partial = Partial::create(blob)?;
        let mut hash = Sha256::new();
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut done = 0;
        loop {
            (self.progress)(Progress { file, done, total });
            let count = reader.read(&mut buffer).map_err(|error| {
                self.fault(format!("the connection broke after {done} bytes of {file} ({error}): try again"))
            })?;
            if count == 0 {
                break;
            }
            done += count as u64;
            if done > limit {
                return Err(self.fault(format!("{file} is longer than the {limit} bytes announced: try again")));
            }
            hash.update(&buffer[..count]);
            (&partial.file).write_all(&buffer[..count]).map_err(|error| Error::file(&partial.path, error))?;
        }
        if let Some(total) = total.filter(|&total| total != done) {
            return Err(self.fault(format!("{file} ended after {done} of {total} bytes: try again")));
        }
        let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(expected) = announced.sha256.as_ref().filter(|&expected| *expected != digest) {
            return Err(self.fault(format!("{file} has SHA-256 {digest} where {expected} was announced: try again")));
        }
        partial.keep(blob)
    }

    /// Records which commit the revision is, now that all of its files are there.
    fn finish(self) -> Result<PathBuf> {
        let commit = self.commit.as_deref().unwrap_or_default();
        if self.model.revision != commit {
            let reference = self.cached.reference();
            if let Some(parent) = reference.parent() {
                create_folder(parent)?;
            }
            let partial = Partial::create(&reference)?;
            (&partial.file).write_all(commit.as_bytes()).map_err(|error| Error::file(&partial.path, error))?;
            partial.keep(&reference)?;
        }
        Ok(self.cached.snapshot_of(commit))
    }

    /// What an answer that is neither the file nor a redirect means; `Ok` if the model just has no such file.
    fn refusal(&self, file: &str, status: StatusCode, headers: &HeaderMap) -> Result<()> {
        let code = headers.get("x-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
        let endpoint = &self.options.endpoint;
        Err(match (status.as_u16(), code) {
            (404, "EntryNotFound") => return Ok(()),
            (404, "RevisionNotFound") => {
                self.fault(format!("{endpoint} has no revision {:?} of it", self.model.revision))
            }
            // Mirrors send no code: the first file decides whether there is such a model.
            (404, "") if self.commit.is_some() => return Ok(()),
            (404, _) => self.fault(format!("{endpoint} has no such model, or it lacks {file}: check the name")),
            (401 | 403, _) => self.fault(format!(
                "{endpoint} refuses {file} ({}): check the name; if the model is private or gated, accept its terms and set HF_TOKEN",
                status.as_u16()
            )),
            _ => self.fault(format!("{endpoint} answers {status} for {file}: try again later, or use a folder or nano")),
        })
    }

    fn lacks(&self, file: &str) -> Error {
        self.fault(format!("the model has no {file}: only safetensors checkpoints with a {CONFIG} can be used"))
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        self.fault(format!(
            "cannot reach {} ({error}): check the network and HF_ENDPOINT, or use a folder (--model DIR) or --model nano",
            self.options.endpoint
        ))
    }

    fn fault(&self, message: impl std::fmt::Display) -> Error {
        Error::Checkpoint(format!("{} (no folder here, so a name of the Hub): {message}", self.model))
    }
}

/// Where a redirect leads: another address, or another path at the same host. Never from https down to http.
fn redirect(from: &Uri, location: &str) -> Option<Uri> {
    let absolute = if location.starts_with('/') && !location.starts_with("//") {
        format!("{}://{}{location}", from.scheme_str()?, from.authority()?)
    } else {
        location.to_string()
    };
    let to: Uri = absolute.parse().ok()?;
    let scheme = to.scheme_str()?;
    (to.host().is_some() && (scheme == "https" || scheme == "http" && from.scheme_str() == Some("http"))).then_some(to)
}

fn same_origin(left: &Uri, right: &Uri) -> bool {
    left.scheme() == right.scheme() && left.authority() == right.authority()
}

fn is_sha256(etag: &str) -> bool {
    etag.len() == 64 && etag.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))
}

/// Makes a file of a snapshot point at its blob, by link where the system has links, as the Python library does.
fn point(pointer: &Path, blob: &Path, name: &str) -> std::io::Result<()> {
    if pointer.exists() {
        return Ok(());
    }
    // A link whose blob was deleted.
    if pointer.is_symlink() {
        std::fs::remove_file(pointer)?;
    }
    #[cfg(unix)]
    if std::os::unix::fs::symlink(Path::new("../../blobs").join(name), pointer).is_ok() || pointer.exists() {
        return Ok(());
    }
    #[cfg(not(unix))]
    let _ = name;
    std::fs::rename(blob, pointer)
}

/// A file in the making beside its final place; it vanishes unless it is kept.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn create(target: &Path) -> Result<Self> {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        // Two processes, or two threads, may download the same file: each writes its own, the last rename wins.
        name.push(format!(".{}-{:?}.partial", std::process::id(), std::thread::current().id()));
        let path = target.with_file_name(name);
        let file = File::create(&path).map_err(|error| Error::file(&path, error))?;
        Ok(Self { path, file })
    }

    fn keep(self, target: &Path) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::file(&self.path, error))?;
        std::fs::rename(&self.path, target).map_err(|error| Error::file(target, error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Fails when the file was kept, which is fine.
        let _ = std::fs::remove_file(&self.path);
    }
}
