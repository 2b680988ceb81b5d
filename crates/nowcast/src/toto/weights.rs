//! Toto's tensors by their published names, on their way to the device.

use nowcast_engine::plan::Norm;
use nowcast_engine::weights::{Activation, LinearId, LinearSource, ReadRow, VectorId, WeightList};

use super::LoadOptions;
use super::config::{Head, LayerKind, TotoConfig};
use super::folding::{Heads, fold_head};
use crate::Result;
use crate::checkpoint::{Checkpoint, Manifest, TensorView};

/// Added to the mean square by the reference's `RMSNorm`.
const NORM_EPSILON: f32 = 1e-8;

/// Ids of all weights on the device.
#[derive(Debug)]
pub(crate) struct TotoWeights {
    pub(super) patch_embed: LinearId,
    pub(super) layers: Vec<LayerWeights>,
    pub(super) head: HeadWeights,
    /// Labels of target and exogenous variates.
    pub(super) labels: Option<[VectorId; 2]>,
}

/// A norm and the product that follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormLinear {
    pub(super) norm: Norm,
    pub(super) weight: LinearId,
}

/// One transformer layer.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub(super) kind: LayerKind,
    /// Outputs: queries (divided by the root of head_dim), keys, values; each `[heads, head_dim]`.
    pub(super) qkv: NormLinear,
    pub(super) attention_output: LinearId,
    pub(super) mlp_input: NormLinear,
    pub(super) mlp_output: LinearId,
}

/// From the residual stream to the distribution's raw parameters, `[patch, outputs]` per row.
#[derive(Debug, Clone, Copy)]
pub(super) enum HeadWeights {
    Folded(LinearId),
    Unfolded { unembed: LinearId, heads: LinearId },
}

/// Where the tensors of a checkpoint become sources of device weights.
struct Loader<'a, 'list> {
    checkpoint: &'a Checkpoint,
    list: &'list mut WeightList<'a>,
    eager: bool,
}

impl TotoWeights {
    /// Checks the checkpoint whole, then lists its weights.
    pub(super) fn new<'a>(
        config: &TotoConfig,
        checkpoint: &'a Checkpoint,
        options: LoadOptions,
        list: &mut WeightList<'a>,
    ) -> Result<Self> {
        let tensors = manifest(config, options).check(checkpoint)?;
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("the manifest lists every tensor that is taken here");
        let mut loader = Loader { checkpoint, list, eager: options.eager };

        // The head first: its folded copy is gone before the other matrices take their room.
        let (unembed, unembed_bias) = (next(), next());
        let heads = stacked_heads(config, &mut next)?;
        let head = loader.head(config, heads, unembed, unembed_bias)?;
        let patch_embed = loader.plain(next(), next().to_f32()?);
        let mut layers = Vec::with_capacity(config.layers.len());
        for &kind in &config.layers {
            let (norm1, norm2) = (next().to_f32()?, next().to_f32()?);
            let (qkv, qkv_bias) = (next(), next().to_f32()?);
            let (output, output_bias) = (next(), next().to_f32()?);
            let (hidden, hidden_bias) = (next(), next().to_f32()?);
            let (down, down_bias) = (next(), next().to_f32()?);
            layers.push(LayerWeights {
                kind,
                qkv: loader.qkv(config, norm1, qkv, &qkv_bias),
                attention_output: loader.plain(output, output_bias),
                mlp_input: loader.swiglu(norm2, hidden, hidden_bias),
                mlp_output: loader.plain(down, down_bias),
            });
        }
        let labels = match options.variate_labels {
            true => Some([loader.label(&next())?, loader.label(&next())?]),
            false => None,
        };
        Ok(Self { patch_embed, layers, head, labels })
    }
}

/// Every tensor, in the order in which `TotoWeights::new` takes them.
fn manifest(config: &TotoConfig, options: LoadOptions) -> Manifest {
    let width = config.embed_dim;
    let mut manifest = Manifest::new();
    let linear = |manifest: &mut Manifest, names: &[String], rows: usize, inputs: usize| {
        manifest.require_any(names.iter().map(|name| format!("{name}.weight")), &[rows, inputs]);
        manifest.require_any(names.iter().map(|name| format!("{name}.bias")), &[rows]);
    };
    linear(&mut manifest, &["model.unembed".into()], width * config.patch_size, width);
    for name in head_names(config.head) {
        linear(&mut manifest, &[format!("model.output_distribution.{name}")], config.head.components(), width);
    }
    linear(&mut manifest, &["model.patch_embed.projection".into()], width, config.patch_size);
    for index in 0..config.layers.len() {
        let name = |part: &str| format!("model.transformer.layers.{index}.{part}");
        manifest.require(name("norm1.scale"), &[width]);
        manifest.require(name("norm2.scale"), &[width]);
        linear(&mut manifest, &[name("attention.wQKV")], 3 * width, width);
        linear(&mut manifest, &[name("attention.wO")], width, width);
        linear(&mut manifest, &[name("mlp.0"), name("mlp.0.w12")], 2 * config.mlp_hidden, width);
        linear(&mut manifest, &[name("mlp.2"), name("mlp.0.w3")], width, config.mlp_hidden);
    }
    if options.variate_labels {
        manifest.require("model.target_variate_label", &[width]);
        manifest.require("model.exogenous_variate_label", &[width]);
    }
    manifest
}

fn head_names(head: Head) -> &'static [&'static str] {
    match head {
        Head::StudentT => &["df", "loc_proj", "scale_proj"],
        Head::Mixture { .. } => &["df", "loc_proj", "scale_proj", "mixture_weights"],
    }
}

fn stacked_heads<'a>(config: &TotoConfig, next: &mut impl FnMut() -> TensorView<'a>) -> Result<Heads> {
    let mut heads = Heads { outputs: 0, weight: Vec::new(), bias: Vec::new() };
    for _ in head_names(config.head) {
        heads.outputs += config.head.components();
        heads.weight.extend(next().to_f64()?);
        heads.bias.extend(next().to_f64()?);
    }
    Ok(heads)
}

impl<'a> Loader<'a, '_> {
    /// A matrix as it is stored.
    fn plain(&mut self, tensor: TensorView<'a>, bias: Vec<f32>) -> LinearId {
        self.matrix(tensor, bias, Activation::None, move || {
            Box::new(move |row, out: &mut [f32]| read(&tensor, row, out))
        })
    }

    fn matrix(
        &mut self,
        tensor: TensorView<'a>,
        bias: Vec<f32>,
        activation: Activation,
        open: impl FnOnce() -> ReadRow<'a> + Send + 'a,
    ) -> LinearId {
        let checkpoint = self.checkpoint;
        self.list.linear(LinearSource {
            rows: tensor.rows(),
            inputs: tensor.row_length(),
            bias: Some(bias),
            activation,
            open: Box::new(open),
            packed: Box::new(move || checkpoint.release(tensor.name)),
        })
    }

    /// The norm's scale becomes part of the matrix behind it, except in eager mode.
    fn norm(&mut self, scale: Vec<f32>) -> (Norm, Option<Vec<f32>>) {
        if self.eager {
            let scale = self.list.vector(scale);
            return (Norm { epsilon: NORM_EPSILON, scale: Some(scale) }, None);
        }
        (Norm { epsilon: NORM_EPSILON, scale: None }, Some(scale))
    }

    /// Stored with the head as the fastest index, one row for `(part, component, head)`: regrouped head by head, so
    /// that a head's components lie side by side. Queries take the softmax scale with them.
    fn qkv(&mut self, config: &TotoConfig, scale: Vec<f32>, tensor: TensorView<'a>, bias: &[f32]) -> NormLinear {
        let (norm, fold) = self.norm(scale);
        let (width, heads, head_dim) = (config.embed_dim, config.heads, config.head_dim);
        let softmax_scale = 1.0 / (head_dim as f64).sqrt();
        let source = move |row: usize| {
            let (part, head, component) = (row / width, row % width / head_dim, row % head_dim);
            (part * width + component * heads + head, if part == 0 { softmax_scale } else { 1.0 })
        };
        let bias = (0..bias.len())
            .map(|row| {
                let (stored, factor) = source(row);
                (f64::from(bias[stored]) * factor) as f32
            })
            .collect();
        let open = move || -> ReadRow<'a> {
            Box::new(move |row, out| {
                let (stored, factor) = source(row);
                read(&tensor, stored, out);
                multiply(out, fold.as_deref(), factor);
            })
        };
        NormLinear { norm, weight: self.matrix(tensor, bias, Activation::None, open) }
    }

    fn swiglu(&mut self, scale: Vec<f32>, tensor: TensorView<'a>, bias: Vec<f32>) -> NormLinear {
        let activation = if self.eager { Activation::None } else { Activation::SwiGlu };
        let (norm, fold) = self.norm(scale);
        let open = move || -> ReadRow<'a> {
            Box::new(move |row, out| {
                read(&tensor, row, out);
                multiply(out, fold.as_deref(), 1.0);
            })
        };
        NormLinear { norm, weight: self.matrix(tensor, bias, activation, open) }
    }

    fn head(
        &mut self,
        config: &TotoConfig,
        heads: Heads,
        unembed: TensorView<'a>,
        bias: TensorView<'a>,
    ) -> Result<HeadWeights> {
        if self.eager {
            let width = config.embed_dim;
            let weight: Vec<f32> = heads.weight.iter().map(|&value| value as f32).collect();
            let heads = self.list.linear(LinearSource {
                rows: heads.outputs,
                inputs: width,
                bias: Some(heads.bias.iter().map(|&value| value as f32).collect()),
                activation: Activation::None,
                open: Box::new(move || rows_of(weight, width)),
                packed: Box::new(|| ()),
            });
            return Ok(HeadWeights::Unfolded { unembed: self.plain(unembed, bias.to_f32()?), heads });
        }
        // Folded here, not while packing, because the bias must be known: a few dozen megabytes at most.
        let folded = fold_head(&heads, &unembed, &bias.to_f64()?, config.patch_size)?;
        self.checkpoint.release(unembed.name);
        let inputs = config.embed_dim;
        let weight = folded.weight;
        Ok(HeadWeights::Folded(self.list.linear(LinearSource {
            rows: folded.bias.len(),
            inputs,
            bias: Some(folded.bias),
            activation: Activation::None,
            open: Box::new(move || rows_of(weight, inputs)),
            packed: Box::new(|| ()),
        })))
    }

    /// A label divided by its length, as the fusion token is.
    fn label(&mut self, tensor: &TensorView<'a>) -> Result<VectorId> {
        let values = tensor.to_f64()?;
        let length = values.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-12);
        Ok(self.list.vector(values.iter().map(|value| (value / length) as f32).collect()))
    }
}

fn rows_of<'a>(weight: Vec<f32>, inputs: usize) -> ReadRow<'a> {
    Box::new(move |row, out| out.copy_from_slice(&weight[row * inputs..(row + 1) * inputs]))
}

fn read(tensor: &TensorView<'_>, row: usize, out: &mut [f32]) {
    tensor.row(row, out).expect("the manifest has checked that the tensor holds floats");
}

fn multiply(row: &mut [f32], scale: Option<&[f32]>, factor: f64) {
    for (index, value) in row.iter_mut().enumerate() {
        let scale = scale.map_or(1.0, |scale| f64::from(scale[index]));
        *value = (f64::from(*value) * scale * factor) as f32;
    }
}
