//! Toto's tensors by their published names, on their way to the device.

use nowcast_engine::weights::{Activation, LinearId, LinearSource, VectorId, WeightList};

use super::LoadOptions;
use super::config::{Head, LayerKind, TotoConfig};
use super::folding::{Heads, fold_head};
use crate::Result;
use crate::checkpoint::{Checkpoint, Manifest, TensorView};
use crate::weights::{Loader, Matrix, NormLinear, Stored, plain_rows};

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

impl TotoWeights {
    /// Checks the checkpoint whole, then lists its weights; `threads` take products of them.
    pub(super) fn new<'a>(
        config: &TotoConfig,
        checkpoint: &'a Checkpoint,
        options: LoadOptions,
        threads: usize,
        list: &mut WeightList<'a>,
    ) -> Result<Self> {
        let tensors = manifest(config, options).check(checkpoint)?;
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("the manifest lists every tensor that is taken here");
        let mut loader = Loader { checkpoint, list, eager: options.eager, dtype: options.dtype, threads };

        // The head first: its folded copy is gone before the other matrices take their room.
        let (unembed, unembed_bias) = (next(), next());
        let heads = stacked_heads(config, &mut next)?;
        let head = head(&mut loader, config, heads, unembed, unembed_bias)?;
        // What the model sees of the world, and a thousandth of its weights.
        let patch_embed = loader.in_f32().plain(next(), next().weights()?);
        let mut layers = Vec::with_capacity(config.layers.len());
        for &kind in &config.layers {
            let (norm1, norm2) = (next().weights()?, next().weights()?);
            let (qkv, qkv_bias) = (next(), next().weights()?);
            let (output, output_bias) = (next(), next().weights()?);
            let (hidden, hidden_bias) = (next(), next().weights()?);
            let (down, down_bias) = (next(), next().weights()?);
            layers.push(LayerWeights {
                kind,
                qkv: loader.norm_linear(NORM_EPSILON, norm1, qkv_matrix(config, qkv, qkv_bias)),
                attention_output: loader.plain(output, output_bias),
                mlp_input: {
                    let matrix = Matrix::stacked(vec![hidden], vec![hidden_bias]);
                    loader.norm_linear(NORM_EPSILON, norm2, Matrix { activation: Activation::SwiGlu, ..matrix })
                },
                mlp_output: loader.plain(down, down_bias),
            });
        }
        let labels = match options.variate_labels {
            true => Some([label(loader.list, &next())?, label(loader.list, &next())?]),
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
        heads.weight.extend(next().weights_f64()?);
        heads.bias.extend(next().weights_f64()?);
    }
    Ok(heads)
}

/// Stored with the head as the fastest index, one row for `(part, component, head)`: regrouped head by head, so
/// that a head's components lie side by side. Queries take the softmax scale with them.
fn qkv_matrix<'a>(config: &TotoConfig, tensor: TensorView<'a>, bias: Vec<f32>) -> Matrix<'a> {
    let (width, heads, head_dim) = (config.embed_dim, config.heads, config.head_dim);
    let softmax_scale = 1.0 / (head_dim as f64).sqrt();
    let row = Box::new(move |row: usize| {
        let (part, head, component) = (row / width, row % width / head_dim, row % head_dim);
        let factor = if part == 0 { softmax_scale } else { 1.0 };
        Stored { tensor: 0, row: part * width + component * heads + head, factor }
    });
    Matrix { row, ..Matrix::stacked(vec![tensor], vec![bias]) }
}

fn head<'a>(
    loader: &mut Loader<'a, '_>,
    config: &TotoConfig,
    heads: Heads,
    unembed: TensorView<'a>,
    bias: TensorView<'a>,
) -> Result<HeadWeights> {
    let (inputs, dtype) = (config.embed_dim, loader.dtype);
    let in_memory = |weight: Vec<f32>, bias: Vec<f32>| LinearSource {
        rows: bias.len(),
        inputs,
        bias: Some(bias),
        activation: Activation::None,
        dtype,
        open: Box::new(move || plain_rows(weight, inputs)),
        packed: Box::new(|| ()),
    };
    if loader.eager {
        let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect();
        let heads = loader.list.linear(in_memory(narrow(&heads.weight), narrow(&heads.bias)));
        return Ok(HeadWeights::Unfolded { unembed: loader.plain(unembed, bias.weights()?), heads });
    }
    // Folded here, not while packing, because the bias must be known: a few dozen megabytes at most.
    let folded = fold_head(&heads, &unembed, &bias.weights_f64()?, config.patch_size, loader.threads)?;
    loader.checkpoint.release(unembed.name);
    Ok(HeadWeights::Folded(loader.list.linear(in_memory(folded.weight, folded.bias))))
}

/// A label divided by its length, as the fusion token is.
fn label(list: &mut WeightList<'_>, tensor: &TensorView<'_>) -> Result<VectorId> {
    let values = tensor.weights_f64()?;
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-12);
    Ok(list.vector(values.iter().map(|value| (value / length) as f32).collect()))
}
