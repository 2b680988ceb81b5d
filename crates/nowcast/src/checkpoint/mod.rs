//! Checkpoints: weights in safetensors files, validated whole before anything is allocated, read in place.
//!
//! [`resolve`] finds a model by the name a user gives it; [`Checkpoint`] opens a folder, a file or bytes;
//! [`Manifest`] says whether it holds what a model needs; [`TensorView`] reads one tensor.

pub(crate) mod fields;
mod header;
mod hub;
mod locate;
mod manifest;
mod shards;
mod storage;
mod tensor;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub use hub::{HubOptions, Progress};
pub(crate) use locate::kronos_nano;
pub use locate::{ModelSource, resolve, resolve_with_progress};
pub use manifest::Manifest;
pub use tensor::{Dtype, TensorView};

use crate::{Error, Result};
use header::{Entry, Header};
use shards::Index;
use storage::Storage;

/// Name of the weights in a folder as `save_pretrained` writes it, and of the index when they are sharded.
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The weights of one model: every tensor by name, none of them loaded until it is read.
///
/// Files are memory-mapped. Do not shorten or rewrite a file while a checkpoint holds it (on unix that ends the
/// process with SIGBUS); rename a new file over it instead.
#[derive(Debug)]
pub struct Checkpoint {
    /// What messages call it.
    origin: String,
    files: Vec<Weights>,
    /// Index into `files` for each tensor.
    tensors: BTreeMap<String, usize>,
    /// What was wrong with the first row, by the name of its tensor, that could not be read.
    unreadable: Mutex<Option<Error>>,
}

/// One safetensors file.
#[derive(Debug)]
struct Weights {
    storage: Storage,
    header: Header,
}

impl Weights {
    fn map(path: &Path) -> Result<Self> {
        Self::new(&path.display().to_string(), Storage::map(path)?)
    }

    fn new(origin: &str, storage: Storage) -> Result<Self> {
        let header = header::parse(storage.bytes()).map_err(|problem| fault(&format!("{origin} {problem}")))?;
        Ok(Self { storage, header })
    }
}

impl Checkpoint {
    /// Opens a folder with `model.safetensors`, or with `model.safetensors.index.json` and its shards, or one
    /// safetensors file.
    ///
    /// # Errors
    /// Nothing to open, or a file that is not what it claims to be; the line says which and why.
    pub fn open(path: &Path) -> Result<Self> {
        let origin = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| Error::file(path, error))?;
        if !metadata.is_dir() {
            return Self::from_files(origin, vec![Weights::map(path)?], None);
        }
        if path.join(WEIGHTS).exists() {
            return Self::from_files(origin, vec![Weights::map(&path.join(WEIGHTS))?], None);
        }
        if path.join(INDEX).is_file() {
            let index = Index::read(&path.join(INDEX))?;
            let files = index.files().into_iter().map(|file| Weights::map(&path.join(file))).collect::<Result<_>>()?;
            return Self::from_files(origin, files, Some(&index));
        }
        Err(fault(&nothing_to_open(path)))
    }

    /// Opens a safetensors file that is already in memory, such as one built into the program.
    ///
    /// # Errors
    /// As for [`Checkpoint::open`]; messages call the checkpoint `origin`.
    pub fn from_bytes(origin: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        let file = Weights::new(origin, Storage::Memory(bytes.into()))?;
        Self::from_files(origin.into(), vec![file], None)
    }

    fn from_files(origin: String, files: Vec<Weights>, index: Option<&Index>) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            for name in file.header.entries.keys() {
                if tensors.insert(name.clone(), number).is_some() {
                    return Err(fault(&format!("{origin}: tensor {name:?} is in two shards")));
                }
            }
        }
        if let Some(index) = index {
            let order = index.files();
            for (name, file) in &index.weight_map {
                if tensors.get(name).is_none_or(|&number| order[number] != file) {
                    return Err(fault(&format!(
                        "{origin}: {INDEX} promises tensor {name:?} in {file}, but it is not there: download both again"
                    )));
                }
            }
        }
        Ok(Self { origin, files, tensors, unreadable: Mutex::new(None) })
    }

    /// What messages call this checkpoint: its path, or its name if it is built in.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// One tensor, if the checkpoint has it.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let (name, file, entry) = self.entry(name)?;
        let bytes = &file.storage.bytes()[entry.bytes.clone()];
        Some(TensorView { name, shape: &entry.shape, dtype: entry.dtype, bytes })
    }

    /// Lets go of the memory behind a tensor that has been packed, so that the peak stays near the packed size.
    /// The tensor can still be read: its pages come back from the file.
    pub fn release(&self, name: &str) {
        if let Some((_, file, entry)) = self.entry(name) {
            file.storage.release(entry.bytes.clone());
        }
    }

    /// Reads a row while a device packs it, which has no way to fail; [`Self::check_rows`] tells later.
    pub(crate) fn read_row(&self, tensor: &TensorView<'_>, row: usize, out: &mut [f32]) {
        if let Err(error) = tensor.weight_row(row, out) {
            let mut first = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
            // Threads meet rows in any order; the message is the same each time.
            if first.as_ref().is_none_or(|first| error.to_string() < first.to_string()) {
                *first = Some(error);
            }
        }
    }

    /// Whether every row that was read for a device could be.
    ///
    /// # Errors
    /// What was wrong with one that could not.
    pub(crate) fn check_rows(&self) -> Result<()> {
        let first = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or(Ok(()), |error| Err(fault(&format!("{}: {error}", self.origin))))
    }

    /// A number that tells checkpoints apart: FNV-1a over names, types, shapes, offsets (the headers), file sizes
    /// and the first 64 bytes of every tensor. Cheap, stable across machines, no protection against forgery.
    pub fn fingerprint(&self) -> u64 {
        const SAMPLE: usize = 64;
        let mut hash = Fnv::new();
        for file in &self.files {
            let bytes = file.storage.bytes();
            hash.write(&(bytes.len() as u64).to_le_bytes());
            hash.write(&bytes[..file.header.length]);
            for entry in file.header.entries.values() {
                let sample = entry.bytes.len().min(SAMPLE);
                hash.write(&bytes[entry.bytes.start..entry.bytes.start + sample]);
            }
        }
        hash.0
    }

    fn entry(&self, name: &str) -> Option<(&str, &Weights, &Entry)> {
        let (_, &number) = self.tensors.get_key_value(name)?;
        let file = &self.files[number];
        let (name, entry) = file.header.entries.get_key_value(name)?;
        Some((name, file, entry))
    }
}

/// An error about a checkpoint. What it quotes comes from files we do not trust, so it is kept to one line of bearable
/// length.
pub(crate) fn fault(message: &str) -> Error {
    const SHOWN: usize = 600;
    let mut line: String = message.chars().take(SHOWN).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if line.len() < message.len() {
        line.push('…');
    }
    Error::Checkpoint(line)
}

/// Whether a folder holds weights: one file, or an index and every shard it names.
fn has_weights(folder: &Path) -> bool {
    let index = folder.join(INDEX);
    let sharded =
        || Index::read(&index).is_ok_and(|index| index.files().iter().all(|file| folder.join(file).is_file()));
    folder.join(WEIGHTS).is_file() || (index.is_file() && sharded())
}

/// Why a folder holds no weights we read, and what to do.
fn nothing_to_open(folder: &Path) -> String {
    let mut pickles = Vec::new();
    let mut others = Vec::new();
    for name in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()) {
        let name = name.to_string_lossy().into_owned();
        let extension = name.rsplit('.').next().unwrap_or_default();
        match extension {
            "bin" | "pt" | "pth" | "ckpt" => pickles.push(name),
            "safetensors" => others.push(name),
            _ => {}
        }
    }
    pickles.sort();
    others.sort();
    let folder = folder.display();
    if let Some(name) = others.first() {
        format!("{folder} has no {WEIGHTS}: rename {name:?} or give its path")
    } else if let Some(name) = pickles.first() {
        format!(
            "{folder} has no {WEIGHTS}, only the PyTorch pickle {name:?}: convert it with safetensors.torch.save_file"
        )
    } else {
        format!("{folder} has no {WEIGHTS} and no {INDEX}: give the folder of a downloaded checkpoint")
    }
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
