//! `model.safetensors.index.json`: which file of a folder holds which tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

/// Bytes of an index, and files it may name.
const MAX_INDEX_BYTES: u64 = 100_000_000;
const MAX_SHARDS: usize = 1_000;

/// File name of each tensor.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) weight_map: BTreeMap<String, String>,
}

impl Index {
    /// Parses and checks an index. The error is the tail of a sentence about the file.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        if json.len() as u64 > MAX_INDEX_BYTES {
            return Err(format!("has {} bytes (allowed: {MAX_INDEX_BYTES})", json.len()));
        }
        let raw: RawIndex =
            serde_json::from_slice(json).map_err(|error| format!("is not an index of shards: {error}"))?;
        let index = Index { weight_map: raw.weight_map.0 };
        if index.weight_map.is_empty() {
            return Err("names no tensor".into());
        }
        for (tensor, file) in &index.weight_map {
            if !is_plain_file_name(file) {
                return Err(format!(
                    "sends tensor {tensor:?} to {file:?}: only plain names of .safetensors files in the same folder are followed"
                ));
            }
        }
        let count = index.files().len();
        if count > MAX_SHARDS {
            return Err(format!("names {count} files (allowed: {MAX_SHARDS})"));
        }
        Ok(index)
    }

    /// Reads the index of a folder.
    pub(super) fn read(path: &Path) -> crate::Result<Self> {
        let size = std::fs::metadata(path).map_err(|error| crate::Error::file(path, error))?.len();
        let parsed = if size > MAX_INDEX_BYTES {
            Err(format!("has {size} bytes (allowed: {MAX_INDEX_BYTES})"))
        } else {
            let json = std::fs::read(path).map_err(|error| crate::Error::file(path, error))?;
            Index::parse(&json)
        };
        parsed.map_err(|fault| crate::Error::Checkpoint(format!("{} {fault}", path.display())))
    }

    /// The files, each once, in order of name.
    pub(super) fn files(&self) -> Vec<&str> {
        let mut files: Vec<_> = self.weight_map.values().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// Whether a name stays in its folder on every system: no separator, no drive, no parent.
fn is_plain_file_name(name: &str) -> bool {
    name.len() <= 255
        && name.ends_with(".safetensors")
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[derive(serde::Deserialize)]
struct RawIndex {
    weight_map: WeightMap,
}

struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Files;
        impl<'de> Visitor<'de> for Files {
            type Value = WeightMap;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object of file names by tensor")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut files = BTreeMap::new();
                while let Some((tensor, file)) = map.next_entry::<String, String>()? {
                    if files.contains_key(&tensor) {
                        return Err(A::Error::custom(format!("tensor {tensor:?} appears twice")));
                    }
                    files.insert(tensor, file);
                }
                Ok(WeightMap(files))
            }
        }
        deserializer.deserialize_map(Files)
    }
}
