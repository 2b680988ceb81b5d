//! The cache as the Python library lays it out: `models--owner--name/{refs,snapshots,blobs}`.
//!
//! See <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::path::{Path, PathBuf};

use super::{HubModel, is_commit};
use crate::checkpoint::{has_weights, locate::CONFIG};

/// The place of one model at one revision in the cache; it need not exist.
#[derive(Debug)]
pub(super) struct CachedModel {
    folder: PathBuf,
    revision: String,
}

impl CachedModel {
    pub(super) fn new(cache: &Path, model: &HubModel) -> Self {
        let folder = cache.join(format!("models--{}--{}", model.owner, model.name));
        Self { folder, revision: model.revision.clone() }
    }

    /// `models--owner--name`.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The snapshot of the revision, if it is there whole.
    pub(super) fn snapshot(&self) -> Option<PathBuf> {
        let folder = self.snapshot_of(&self.commit()?);
        (folder.join(CONFIG).is_file() && has_weights(&folder)).then_some(folder)
    }

    /// Folder of the files of a commit.
    pub(super) fn snapshot_of(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// File that says which commit the revision is.
    pub(super) fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(&self.revision)
    }

    /// The commit of the revision, as far as the cache knows.
    fn commit(&self) -> Option<String> {
        if is_commit(&self.revision) {
            return Some(self.revision.clone());
        }
        let commit = std::fs::read_to_string(self.reference()).ok()?;
        let commit = commit.trim();
        is_commit(commit).then(|| commit.to_string())
    }
}
