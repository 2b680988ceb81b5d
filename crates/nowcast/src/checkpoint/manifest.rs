//! What a model needs of a checkpoint, and one line about what does not fit.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Checkpoint, TensorView};
use crate::{Error, Result};

/// The list of tensors a model needs, each under one of several names.
///
/// Names that are not asked for are ignored, as the references do.
#[derive(Debug, Default)]
pub struct Manifest {
    expected: Vec<Expected>,
}

#[derive(Debug)]
struct Expected {
    names: Vec<String>,
    shape: Vec<usize>,
}

/// How many items of a list a message shows.
const SHOWN: usize = 5;

impl Manifest {
    /// Nothing needed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a tensor of floats with exactly this shape.
    pub fn require(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.require_any([name.into()], shape);
    }

    /// Asks for a tensor of floats that goes by one of several names, such as `mlp.0.weight` or, from a fused
    /// implementation, `mlp.0.w12.weight`.
    pub fn require_any(&mut self, names: impl IntoIterator<Item = impl Into<String>>, shape: &[usize]) {
        let names = names.into_iter().map(Into::into).collect();
        self.expected.push(Expected { names, shape: shape.to_vec() });
    }

    /// Checks a checkpoint and returns the tensors in the order in which they were asked for.
    ///
    /// # Errors
    /// Tensors that are missing, misshapen, not floats, or present under two names at once, in one line.
    pub fn check<'a>(&self, checkpoint: &'a Checkpoint) -> Result<Vec<TensorView<'a>>> {
        let mut found = Vec::with_capacity(self.expected.len());
        let mut used = BTreeSet::new();
        let (mut missing, mut misshapen, mut unusable) = (Vec::new(), Vec::new(), Vec::new());
        for expected in &self.expected {
            let mut matches = expected.names.iter().filter_map(|name| checkpoint.tensor(name));
            let Some(tensor) = matches.next() else {
                missing.push(format!("{} {:?}", expected.names.join(" or "), expected.shape));
                continue;
            };
            used.insert(tensor.name);
            if let Some(twin) = matches.next() {
                used.insert(twin.name);
                unusable.push(format!("{} and {} are both there and mean the same", tensor.name, twin.name));
            } else if !tensor.is_float() {
                unusable.push(format!("{} holds {} instead of floats", tensor.name, tensor.dtype));
            } else if tensor.shape != expected.shape {
                misshapen.push(format!("{} is {:?} instead of {:?}", tensor.name, tensor.shape, expected.shape));
            }
            found.push(tensor);
        }
        let mut message = String::new();
        for (label, items) in [("missing", &missing), ("wrong shape", &misshapen), ("unusable", &unusable)] {
            append(&mut message, label, items);
        }
        if message.is_empty() {
            return Ok(found);
        }
        if !missing.is_empty() {
            let unasked: Vec<_> = checkpoint.names().filter(|name| !used.contains(name)).map(String::from).collect();
            append(&mut message, "present but not asked for", &unasked);
        }
        Err(Error::Checkpoint(format!("{} does not fit its config.json: {message}", checkpoint.origin())))
    }
}

/// Appends `label: a, b … and N more`.
fn append(message: &mut String, label: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let separator = if message.is_empty() { "" } else { "; " };
    let shown = items[..items.len().min(SHOWN)].join(", ");
    // Writing to a string cannot fail.
    let _ = write!(message, "{separator}{label}: {shown}");
    if items.len() > SHOWN {
        let _ = write!(message, " … and {} more", items.len() - SHOWN);
    }
}
