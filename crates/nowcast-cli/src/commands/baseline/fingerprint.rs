//! What tells one model or file from another: the SHA-256 of its bytes.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use nowcast::checkpoint::ModelSource;
use nowcast::family::Located;
use nowcast::{Error, Result};
use sha2::{Digest, Sha256};

/// Of a model: config and weights, of Kronos the tokenizer's too.
pub(super) fn of_model(located: &Located) -> Result<String> {
    let mut hash = Sha256::new();
    let sources = match located {
        Located::Toto(source) => vec![source],
        Located::Kronos(source) => vec![&source.tokenizer, &source.predictor],
    };
    for source in sources {
        match source {
            ModelSource::BuiltIn { config, weights, .. } => {
                hash.update(config);
                hash.update(weights);
            }
            ModelSource::Folder(folder) => {
                for file in files_of(folder)? {
                    append(&mut hash, &file)?;
                }
            }
        }
    }
    Ok(in_words(hash))
}

/// Of a file.
pub(super) fn of_file(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    append(&mut hash, path)?;
    Ok(in_words(hash))
}

/// Config, index and weights, in order of their names.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    let of_model = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(of_model).collect();
    files.sort();
    Ok(files)
}

fn append(hash: &mut Sha256, path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let mut reader = BufReader::new(file);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.read(&mut buffer).map_err(|error| Error::file(path, error))? {
            0 => return Ok(()),
            count => hash.update(&buffer[..count]),
        }
    }
}

fn in_words(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_file_has_its_known_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-4, appendix B.1.
        assert_eq!(of_file(&path).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn models_differ_by_config_and_weights() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let hash = || of_model(&Located::Toto(ModelSource::Folder(folder.path().into()))).unwrap();
        write("config.json", "{}");
        write("model.safetensors", "weights");
        let before = hash();
        write("README.md", "no part of the model");
        assert_eq!(hash(), before);
        write("model.safetensors", "weighty");
        assert_ne!(hash(), before);
    }
}
