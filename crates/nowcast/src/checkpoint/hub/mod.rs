//! Models of the Hugging Face Hub: their names, the settings of the Python library, its cache, and downloads.
//!
//! Settings follow <https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables>.

mod cache;
#[cfg(feature = "hub")]
mod download;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};
use cache::CachedModel;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
const DEFAULT_REVISION: &str = "main";

/// How to reach the Hub and where its cache is.
#[derive(Clone, PartialEq)]
pub struct HubOptions {
    /// Branch, tag or commit; `main` if none is given here or after the name.
    pub revision: Option<String>,
    /// Use the cache only (`HF_HUB_OFFLINE`).
    pub offline: bool,
    /// Access token for private and gated models (`HF_TOKEN`, or the file that `hf auth login` writes).
    pub token: Option<String>,
    /// Address of the Hub or a mirror (`HF_ENDPOINT`).
    pub endpoint: String,
    /// Folder of the cache (`HF_HUB_CACHE`, or `hub` in `HF_HOME`); none when there is no home folder either.
    pub cache: Option<PathBuf>,
}

impl fmt::Debug for HubOptions {
    /// Keeps the token out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, offline, token, endpoint, cache } = self;
        let token = token.as_ref().map(|_| "***");
        formatter
            .debug_struct("HubOptions")
            .field("revision", revision)
            .field("offline", offline)
            .field("token", &token)
            .field("endpoint", endpoint)
            .field("cache", cache)
            .finish()
    }
}

impl HubOptions {
    /// What the environment of the process says.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Reads the variables of the Python library; an empty one counts as not set, as there.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        let is_true = |name| {
            text(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str()))
        };
        let user = variable("HOME").map(PathBuf::from).or_else(std::env::home_dir);
        let path = |name| variable(name).map(|value| expand_user(PathBuf::from(value), user.as_deref()));
        let home = path("HF_HOME").or_else(|| {
            let caches = path("XDG_CACHE_HOME").or_else(|| user.as_ref().map(|user| user.join(".cache")));
            caches.map(|caches| caches.join("huggingface"))
        });
        let token = text("HF_TOKEN").or_else(|| {
            let file = path("HF_TOKEN_PATH").or_else(|| home.as_ref().map(|home| home.join("token")))?;
            std::fs::read_to_string(file).ok()
        });
        let token = token.map(|token| token.trim().to_string()).filter(|token| !token.is_empty());
        Self {
            revision: None,
            offline: is_true("HF_HUB_OFFLINE"),
            token: token.filter(|_| !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")),
            endpoint: text("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.into()).trim_end_matches('/').into(),
            cache: path("HF_HUB_CACHE").or_else(|| home.map(|home| home.join("hub"))),
        }
    }
}

/// `~/folder` to a folder in the user's home.
fn expand_user(path: PathBuf, user: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path,
    }
}

/// A model of the Hub at a revision, both safe to use in paths and addresses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HubModel {
    owner: String,
    name: String,
    revision: String,
}

impl HubModel {
    /// Parses `owner/name` or `owner/name@revision`.
    pub(super) fn parse(model: &str, revision: Option<&str>) -> Result<Self> {
        let (id, inline) = match model.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (model, None),
        };
        if inline.is_some() && revision.is_some() && inline != revision {
            return Err(Error::Setting(format!("{model:?} names one revision and the settings another: give one")));
        }
        let Some((owner, name)) = id.split_once('/').filter(|(owner, name)| is_part(owner) && is_part(name)) else {
            return Err(Error::Setting(format!(
                "{model:?} is no model: give a folder, a name of the Hub such as Datadog/Toto-Open-Base-1.0, or nano"
            )));
        };
        let revision = inline.or(revision).unwrap_or(DEFAULT_REVISION);
        if revision.len() > 255 || !revision.split('/').all(is_part) {
            return Err(Error::Setting(format!("{revision:?} is no revision: give a branch, a tag or a commit")));
        }
        Ok(Self { owner: owner.into(), name: name.into(), revision: revision.into() })
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.owner, self.name)?;
        if self.revision != DEFAULT_REVISION {
            write!(formatter, "@{}", self.revision)?;
        }
        Ok(())
    }
}

/// Whether a part of a Hub name or revision is one: what the Hub allows, and nothing that leaves a folder.
fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part.len() <= 96
        && !part.starts_with(['.', '-'])
        && !part.ends_with(['.', '-'])
        && !part.contains("..")
        && !part.contains("--")
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether a commit is one: 40 hexadecimal digits.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A download as it goes.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// File of the model.
    pub file: &'a str,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, if the Hub said.
    pub total: Option<u64>,
}

/// The folder of a model in the cache, filled first if needed and allowed.
pub(super) fn find(model: &HubModel, options: &HubOptions, progress: &mut dyn FnMut(Progress<'_>)) -> Result<PathBuf> {
    let Some(cache) = &options.cache else {
        return Err(Error::Setting("there is no home folder for the Hub cache: set HF_HOME".into()));
    };
    let cached = CachedModel::new(cache, model);
    if let Some(folder) = cached.snapshot() {
        return Ok(folder);
    }
    if options.offline {
        return Err(Error::Setting(format!(
            "{model} is not in {} and --offline or HF_HUB_OFFLINE is set: download it while online, or use a folder or nano",
            cache.display()
        )));
    }
    fetch(model, options, &cached, progress)
}

#[cfg(feature = "hub")]
use download::fetch;

#[cfg(not(feature = "hub"))]
fn fetch(model: &HubModel, _: &HubOptions, cached: &CachedModel, _: &mut dyn FnMut(Progress<'_>)) -> Result<PathBuf> {
    Err(Error::Setting(format!(
        "{model} is not in {} and this build cannot download: build it with the feature \"hub\", or give a folder",
        cached.folder().display()
    )))
}
