//! `config.json` of Toto 1.0: the arguments of the published constructor, read into a shape that can be trusted.

use std::ops::RangeInclusive;

pub use nowcast_engine::head::Head;
pub use nowcast_engine::scaler::Scaler;
use serde_json::Value;

use crate::Result;
use crate::checkpoint::fields::{Fields, fault, size};

/// Bounds of every size: far above any published model, far below what would overflow a product of a few of them.
const PATCH_SIZES: RangeInclusive<usize> = 1..=4_096;
const WIDTHS: RangeInclusive<usize> = 2..=65_536;
const LAYERS: RangeInclusive<usize> = 1..=1_000;
const HEADS: RangeInclusive<usize> = 1..=1_024;
const HIDDEN_WIDTHS: RangeInclusive<usize> = 1..=262_144;
const COMPONENTS: RangeInclusive<usize> = 1..=1_000;
const EXPONENTS: RangeInclusive<f64> = 0.0..=300.0;
const MAX_PARAMETERS: u64 = 100_000_000_000;

/// The architecture of one Toto model.
#[derive(Debug, Clone, PartialEq)]
pub struct TotoConfig {
    /// Time steps in a patch; patches do not overlap.
    pub patch_size: usize,
    /// Width of the residual stream.
    pub embed_dim: usize,
    /// What each layer attends over, first layer first.
    pub layers: Vec<LayerKind>,
    /// Attention heads in every layer.
    pub heads: usize,
    /// Width of one head, `embed_dim / heads`; even.
    pub head_dim: usize,
    /// Width of the gated hidden layer (the first matrix makes twice as many).
    pub mlp_hidden: usize,
    /// How the input is scaled.
    pub scaler: Scaler,
    /// What distribution the model predicts.
    pub head: Head,
}

/// What a layer attends over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Over the patches of one variate, causally, with rotary positions.
    Time,
    /// Over the variates at one patch, without positions.
    Space,
}

impl TotoConfig {
    /// Reads the text of a `config.json`. Fields that are not listed here are ignored, as in the reference.
    ///
    /// # Errors
    /// One line that names the field, its value and what is allowed.
    pub fn from_json(text: &str) -> Result<Self> {
        let fields = Fields::read(text, "a Toto 1.0 model")?;
        let patch_size = fields.size("patch_size", PATCH_SIZES)?;
        let stride = fields.size("stride", PATCH_SIZES)?;
        if stride != patch_size {
            return Err(fault(format!("stride is {stride}, allowed: the patch_size, {patch_size}")));
        }
        let embed_dim = fields.size("embed_dim", WIDTHS)?;
        let heads = fields.size("num_heads", HEADS)?;
        if !embed_dim.is_multiple_of(heads) {
            return Err(fault(format!("num_heads is {heads}, allowed: a divisor of embed_dim, {embed_dim}")));
        }
        let head_dim = embed_dim / heads;
        if head_dim % 2 != 0 {
            return Err(fault(format!(
                "embed_dim / num_heads is {embed_dim} / {heads} = {head_dim}, allowed: an even number, for rotary positions"
            )));
        }
        let config = Self {
            patch_size,
            embed_dim,
            layers: layers(&fields)?,
            heads,
            head_dim,
            mlp_hidden: fields.size("mlp_hidden_dim", HIDDEN_WIDTHS)?,
            scaler: scaler(&fields)?,
            head: head(&fields)?,
        };
        let parameters = config.parameters();
        if parameters > MAX_PARAMETERS {
            return Err(fault(format!("describes {parameters} parameters, allowed: at most {MAX_PARAMETERS}")));
        }
        Ok(config)
    }

    /// Number of weights, without variate labels.
    pub fn parameters(&self) -> u64 {
        // Within bounds no term exceeds 2^45 and their sum stays below 2^53.
        let linear = |from: u64, to: u64| (from + 1) * to;
        let (patch, width, hidden) = (self.patch_size as u64, self.embed_dim as u64, self.mlp_hidden as u64);
        let layer = linear(width, 3 * width)
            + linear(width, width)
            + linear(width, 2 * hidden)
            + linear(hidden, width)
            + 2 * width;
        let heads = match self.head {
            Head::StudentT => 3 * linear(width, 1),
            Head::Mixture { components } => 4 * linear(width, components as u64),
        };
        linear(patch, width) + self.layers.len() as u64 * layer + linear(width, width * patch) + heads
    }
}

/// Blocks of `spacewise_every_n_layers`, each with one space-wise layer, first or last.
fn layers(fields: &Fields) -> Result<Vec<LayerKind>> {
    let count = fields.size("num_layers", LAYERS)?;
    let first = fields.flag("spacewise_first", true)?;
    let every = fields.require("spacewise_every_n_layers")?;
    if every.as_i64() == Some(-1) {
        return Ok(vec![LayerKind::Time; count]);
    }
    let block = every.as_u64().and_then(|block| usize::try_from(block).ok()).filter(|&block| block > 0);
    let Some(block) = block.filter(|&block| count.is_multiple_of(block)) else {
        return Err(fault(format!(
            "spacewise_every_n_layers is {every}, allowed: -1 or a divisor of num_layers, {count}"
        )));
    };
    let space = if first { 0 } else { block - 1 };
    Ok((0..count).map(|layer| if layer % block == space { LayerKind::Space } else { LayerKind::Time }).collect())
}

fn scaler(fields: &Fields) -> Result<Scaler> {
    let stabilize = fields.flag("stabilize_with_global", true)?;
    let exponent = match fields.get("scale_factor_exponent") {
        None => 10.0,
        Some(value) => value.as_f64().filter(|exponent| EXPONENTS.contains(exponent)).ok_or_else(|| {
            fault(format!("scale_factor_exponent is {value}, allowed: {} to {}", EXPONENTS.start(), EXPONENTS.end()))
        })?,
    };
    let value = fields.require("scaler_cls")?;
    match value.as_str().map(class_name) {
        Some("CausalPatchStdMeanScaler") => {
            Ok(Scaler::CausalPatch { stabilise_exponent: stabilize.then_some(exponent) })
        }
        Some("CausalStdMeanScaler") => Ok(Scaler::Causal),
        Some("StdMeanScaler") => Ok(Scaler::Global),
        _ => Err(fault(format!(
            "scaler_cls is {value}, allowed: CausalPatchStdMeanScaler, CausalStdMeanScaler, StdMeanScaler"
        ))),
    }
}

/// The reference uses the first class of the list.
fn head(fields: &Fields) -> Result<Head> {
    let value = fields.require("output_distribution_classes")?;
    let first = value.as_array().and_then(|classes| classes.first()).and_then(Value::as_str);
    match first.map(class_name) {
        Some("StudentTOutput") => Ok(Head::StudentT),
        Some("MixtureOfStudentTsOutput") => {
            let components = fields.get("output_distribution_kwargs").and_then(|kwargs| kwargs.get("k_components"));
            let name = "output_distribution_kwargs.k_components";
            let components = components.ok_or_else(|| fault(format!("has no {name}")))?;
            Ok(Head::Mixture { components: size(name, components, COMPONENTS)? })
        }
        _ => Err(fault(format!(
            "output_distribution_classes is {value}, allowed: a list that starts with MixtureOfStudentTsOutput or StudentTOutput"
        ))),
    }
}

/// `<class 'model.scaler.StdMeanScaler'>` or `toto.model.scaler.StdMeanScaler` to `StdMeanScaler`.
fn class_name(path: &str) -> &str {
    let path = path.strip_prefix("<class '").and_then(|path| path.strip_suffix("'>")).unwrap_or(path);
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
