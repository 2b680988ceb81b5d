//! From what a user calls a model (`nano`, a folder, a Hub name) to the files behind it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::hub::{HubModel, HubOptions, Progress};
use super::{Checkpoint, fault, has_weights, nothing_to_open};
use crate::{Error, Result};

/// File with the arguments of a model's constructor, beside its weights.
pub(super) const CONFIG: &str = "config.json";
/// Bytes of a `config.json` we agree to read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// The model that ships with the program.
const NANO: &str = "nano";

/// Where a model's `config.json` and weights are.
#[derive(Clone, PartialEq)]
pub enum ModelSource {
    /// In a folder, the user's own or of the Hub cache.
    Folder(PathBuf),
    /// In the program itself.
    BuiltIn {
        /// What the user calls it.
        name: &'static str,
        /// Text of its `config.json`.
        config: &'static str,
        /// Its `model.safetensors`.
        weights: &'static [u8],
    },
}

/// Finds a model: `nano`, a folder, or a Hugging Face name `owner/name`, perhaps with `@revision`.
///
/// What exists on disk wins over a Hub name, and `nano` over a folder of that name (write `./nano`). Models of the Hub
/// come from the cache of the Python library if they are there, and are downloaded into it otherwise. A cached model is
/// used without asking the Hub, so a branch that has moved there is not noticed: name its new commit, or remove the
/// branch from `refs` in the cache.
///
/// # Errors
/// One line that says what was looked for, where, and what to do.
pub fn resolve(model: &str, options: &HubOptions) -> Result<ModelSource> {
    resolve_with_progress(model, options, &mut |_| ())
}

/// As [`resolve`], reporting the progress of downloads.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with_progress(
    model: &str,
    options: &HubOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<ModelSource> {
    if model == NANO {
        return built_in();
    }
    let path = Path::new(model);
    if path.exists() {
        return folder(path);
    }
    if looks_like_a_path(model) {
        return Err(Error::Setting(format!(
            "there is no folder {model:?}: give a folder, owner/name of the Hub, or {NANO}"
        )));
    }
    let model = HubModel::parse(model, options.revision.as_deref())?;
    super::hub::find(&model, options, progress).map(ModelSource::Folder)
}

impl fmt::Debug for ModelSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelSource::Folder(folder) => formatter.debug_tuple("Folder").field(folder).finish(),
            ModelSource::BuiltIn { name, weights, .. } => write!(formatter, "BuiltIn({name}, {} bytes)", weights.len()),
        }
    }
}

impl ModelSource {
    /// Text of the model's `config.json`.
    ///
    /// # Errors
    /// The file cannot be read, is not text, or has more than 1 MiB.
    pub fn config(&self) -> Result<String> {
        match self {
            ModelSource::BuiltIn { config, .. } => Ok((*config).to_string()),
            ModelSource::Folder(folder) => {
                let path = folder.join(CONFIG);
                let size = std::fs::metadata(&path).map_err(|error| Error::file(&path, error))?.len();
                if size > MAX_CONFIG_BYTES {
                    return Err(fault(&format!("{} has {size} bytes (allowed: {MAX_CONFIG_BYTES})", path.display())));
                }
                std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))
            }
        }
    }

    /// Opens the model's weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        match self {
            ModelSource::BuiltIn { name, weights, .. } => Checkpoint::from_bytes(name, *weights),
            ModelSource::Folder(folder) => Checkpoint::open(folder),
        }
    }
}

#[cfg(feature = "nano")]
fn built_in() -> Result<ModelSource> {
    Ok(ModelSource::BuiltIn {
        name: NANO,
        config: include_str!("../../models/nano/config.json"),
        weights: include_bytes!("../../models/nano/model.safetensors"),
    })
}

/// Model and tokenizer of `kronos-nano`.
#[cfg(feature = "nano")]
pub(crate) fn kronos_nano() -> Result<[ModelSource; 2]> {
    Ok([
        ModelSource::BuiltIn {
            name: "kronos-nano",
            config: include_str!("../../models/kronos-nano/model/config.json"),
            weights: include_bytes!("../../models/kronos-nano/model/model.safetensors"),
        },
        ModelSource::BuiltIn {
            name: "kronos-nano's tokenizer",
            config: include_str!("../../models/kronos-nano/tokenizer/config.json"),
            weights: include_bytes!("../../models/kronos-nano/tokenizer/model.safetensors"),
        },
    ])
}

#[cfg(not(feature = "nano"))]
pub(crate) fn kronos_nano() -> Result<[ModelSource; 2]> {
    built_in().map(|source| [source.clone(), source])
}

#[cfg(not(feature = "nano"))]
fn built_in() -> Result<ModelSource> {
    Err(Error::Setting(format!(
        "this build does not carry {NANO}: build it with the feature {NANO:?}, or give a folder"
    )))
}

/// A folder the user gave, with everything a model needs.
fn folder(path: &Path) -> Result<ModelSource> {
    let shown = path.display();
    if path.is_file() {
        return Err(Error::Setting(format!("{shown} is a file: give the folder that holds {CONFIG} and the weights")));
    }
    if !path.join(CONFIG).is_file() {
        return Err(fault(&format!("{shown} has no {CONFIG}: give the folder of a downloaded checkpoint")));
    }
    if !has_weights(path) {
        return Err(fault(&nothing_to_open(path)));
    }
    Ok(ModelSource::Folder(path.to_path_buf()))
}

/// Whether nobody would write a Hub name this way.
fn looks_like_a_path(model: &str) -> bool {
    let first = model.as_bytes().first();
    first.is_none_or(|first| b"./~\\".contains(first))
        || model.ends_with('/')
        || model.contains('\\')
        || model.split('@').next().is_some_and(|name| name.matches('/').count() > 1)
}
