//! Kronos' tensors by their published names, on their way to the device.

use nowcast_engine::dtype::Dtype;
use nowcast_engine::plan::Norm;
use nowcast_engine::weights::{Activation, LinearId, TableId, WeightList};

use super::LoadOptions;
use super::config::{CANDLE_FIELDS, DEPENDENCY_HEADS, PredictorConfig, TokenizerConfig, Transformer};
use crate::Result;
use crate::checkpoint::{Checkpoint, Manifest, TensorView};
use crate::weights::folding::{Right, multiply_on};
use crate::weights::{Loader, Matrix, NormLinear, Stored};

/// Added to the mean square by the reference's `RMSNorm`.
const NORM_EPSILON: f32 = 1e-5;

/// Tables of the time embedding with their entries, in the order of the time features: minute, hour, weekday (Monday
/// is 0), day of the month (from 1), month (from 1).
pub(super) const TIME_TABLES: [(&str, usize); 5] =
    [("minute", 60), ("hour", 24), ("weekday", 7), ("day", 32), ("month", 13)];

/// One transformer block.
#[derive(Debug)]
pub(super) struct Block {
    /// Outputs: queries (divided by the root of head_dim), keys, values; each `[heads, head_dim]`.
    pub(super) qkv: NormLinear,
    pub(super) attention_output: LinearId,
    pub(super) mlp_input: NormLinear,
    pub(super) mlp_output: LinearId,
}

/// Blocks of one width.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) transformer: Transformer,
    pub(super) blocks: Vec<Block>,
}

/// From candles to bits, and from tokens back to candles.
#[derive(Debug)]
pub(super) struct TokenizerWeights {
    pub(super) embed: LinearId,
    pub(super) encoder: Stack,
    pub(super) quant_embed: LinearId,
    /// What `post_quant_embed` makes of each coarse and of each fine token; their sum is the decoder's input.
    pub(super) codes: [TableId; 2],
    pub(super) decoder: Stack,
    pub(super) head: LinearId,
}

/// From tokens to the residual stream.
#[derive(Debug)]
pub(super) enum TokenEmbedding {
    /// `fusion_proj` applied to each half ahead of time: the sum of one row of each.
    Folded([TableId; 2]),
    /// Rows times the root of the width, side by side, then `fusion_proj`.
    Unfolded { tables: [TableId; 2], fusion: LinearId },
}

/// The query that a coarse token asks the context: `q_proj` of its embedding, divided by the root of head_dim.
#[derive(Debug)]
pub(super) enum DependencyQuery {
    Folded(TableId),
    Unfolded { table: TableId, query: LinearId },
}

/// Attention from the coarse token to the context.
#[derive(Debug)]
pub(super) struct DependencyLayer {
    pub(super) query: DependencyQuery,
    /// Outputs: keys, values.
    pub(super) keys_values: LinearId,
    pub(super) output: LinearId,
    /// Norm and head of the fine token.
    pub(super) s2_head: NormLinear,
}

/// From tokens and times to logits.
#[derive(Debug)]
pub(super) struct PredictorWeights {
    pub(super) tokens: TokenEmbedding,
    pub(super) times: [TableId; 5],
    pub(super) stack: Stack,
    pub(super) norm: Norm,
    pub(super) s1_head: LinearId,
    pub(super) dependency: DependencyLayer,
}

fn linear(manifest: &mut Manifest, name: &str, rows: usize, inputs: usize) {
    manifest.require(format!("{name}.weight"), &[rows, inputs]);
    manifest.require(format!("{name}.bias"), &[rows]);
}

fn blocks(manifest: &mut Manifest, stack: &str, count: usize, transformer: Transformer) {
    let Transformer { width, hidden, .. } = transformer;
    for index in 0..count {
        let name = |part: &str| format!("{stack}.{index}.{part}");
        manifest.require(name("norm1.weight"), &[width]);
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            linear(manifest, &name(&format!("self_attn.{part}")), width, width);
        }
        manifest.require(name("norm2.weight"), &[width]);
        manifest.require(name("ffn.w1.weight"), &[hidden, width]);
        manifest.require(name("ffn.w3.weight"), &[hidden, width]);
        manifest.require(name("ffn.w2.weight"), &[width, hidden]);
    }
}

/// Takes the tensors of [`blocks`] in the order in which the manifest lists them.
fn stack<'a>(
    loader: &mut Loader<'a, '_>,
    next: &mut impl FnMut() -> TensorView<'a>,
    count: usize,
    transformer: Transformer,
) -> Result<Stack> {
    let softmax_scale = 1.0 / (transformer.head_dim() as f64).sqrt();
    let blocks = (0..count).map(|_| {
        let norm1 = next().weights()?;
        let mut projection = || Ok::<_, crate::Error>((next(), next().weights()?));
        let projections = [projection()?, projection()?, projection()?];
        let (output, output_bias) = projection()?;
        let norm2 = next().weights()?;
        let (gate, value, down) = (next(), next(), next());
        let (tensors, biases) = projections.into_iter().unzip();
        let width = transformer.width;
        let scaled = Box::new(move |row: usize| {
            let part = row / width;
            Stored { tensor: part, row: row % width, factor: if part == 0 { softmax_scale } else { 1.0 } }
        });
        let qkv = Matrix { row: scaled, ..Matrix::stacked(tensors, biases) };
        let gated = Matrix { activation: Activation::SwiGlu, ..Matrix::stacked(vec![gate, value], Vec::new()) };
        Ok(Block {
            qkv: loader.norm_linear(NORM_EPSILON, norm1, qkv),
            attention_output: loader.plain(output, output_bias),
            mlp_input: loader.norm_linear(NORM_EPSILON, norm2, gated),
            mlp_output: loader.matrix(Matrix::stacked(vec![down], Vec::new())),
        })
    });
    Ok(Stack { transformer, blocks: blocks.collect::<Result<_>>()? })
}

impl TokenizerWeights {
    /// Checks the checkpoint whole, then lists its weights.
    pub(super) fn new<'a>(
        config: &TokenizerConfig,
        checkpoint: &'a Checkpoint,
        eager: bool,
        list: &mut WeightList<'a>,
    ) -> Result<Self> {
        let TokenizerConfig { transformer, encoder_blocks, decoder_blocks, bits } = *config;
        let width = transformer.width;
        let mut manifest = Manifest::new();
        linear(&mut manifest, "embed", width, CANDLE_FIELDS);
        blocks(&mut manifest, "encoder", encoder_blocks, transformer);
        linear(&mut manifest, "quant_embed", bits.total(), width);
        linear(&mut manifest, "post_quant_embed", width, bits.total());
        blocks(&mut manifest, "decoder", decoder_blocks, transformer);
        linear(&mut manifest, "head", CANDLE_FIELDS, width);
        let mut tensors = manifest.check(checkpoint)?.into_iter();
        let mut next = || tensors.next().expect("the manifest lists every tensor that is taken here");
        let mut loader = Loader { checkpoint, list, eager, dtype: Dtype::F32, threads: 1 };
        Ok(Self {
            embed: loader.plain(next(), next().weights()?),
            encoder: stack(&mut loader, &mut next, encoder_blocks, transformer)?,
            quant_embed: loader.plain(next(), next().weights()?),
            codes: codes(&next().weights_f64()?, &next().weights_f64()?, [bits.s1, bits.s2], loader.list),
            decoder: stack(&mut loader, &mut next, decoder_blocks, transformer)?,
            head: loader.plain(next(), next().weights()?),
        })
    }
}

/// `post_quant_embed` of every code: a bit is ±1/√bits, the lowest first. The bias goes with the coarse token.
fn codes(weight: &[f64], bias: &[f64], bits: [usize; 2], list: &mut WeightList<'_>) -> [TableId; 2] {
    let total = bits[0] + bits[1];
    let width = bias.len();
    let scale = 1.0 / (total as f64).sqrt();
    [(0, bits[0]), (bits[0], bits[1])].map(|(first, count)| {
        let rows = (0..1usize << count).flat_map(|token| {
            (0..width).map(move |output| {
                let signed = |bit: usize| if token >> bit & 1 == 1 { scale } else { -scale };
                let weights = &weight[output * total + first..][..count];
                let sum: f64 = weights.iter().enumerate().map(|(bit, weight)| weight * signed(bit)).sum();
                (sum + if first == 0 { bias[output] } else { 0.0 }) as f32
            })
        });
        list.table(width, rows.collect())
    })
}

impl PredictorWeights {
    /// Checks the checkpoint whole, then lists its weights; `threads` take products of them.
    pub(super) fn new<'a>(
        config: &PredictorConfig,
        checkpoint: &'a Checkpoint,
        options: LoadOptions,
        threads: usize,
        list: &mut WeightList<'a>,
    ) -> Result<Self> {
        let width = config.transformer.width;
        let vocabularies = config.bits.vocabularies();
        let mut tensors = manifest(config).check(checkpoint)?.into_iter();
        let mut next = || tensors.next().expect("the manifest lists every tensor that is taken here");
        let mut loader = Loader { checkpoint, list, eager: options.eager, dtype: options.dtype, threads };

        let embeddings = [next(), next()];
        let (fusion, fusion_bias) = (next(), next());
        let tokens = token_embedding(&mut loader, &embeddings, fusion, &fusion_bias)?;
        let mut times = Vec::with_capacity(TIME_TABLES.len());
        for _ in TIME_TABLES {
            times.push(loader.list.table(width, next().weights()?));
        }
        let stack = stack(&mut loader, &mut next, config.blocks, config.transformer)?;
        let norm = Norm { epsilon: NORM_EPSILON, scale: Some(loader.list.vector(next().weights()?)) };
        let s1_head = loader.plain(next(), next().weights()?);
        let query = dependency_query(&mut loader, &embeddings[0], next(), &next())?;
        let mut projection = || Ok::<_, crate::Error>((next(), next().weights()?));
        let (keys_values, biases) = [projection()?, projection()?].into_iter().unzip();
        let (output, output_bias) = projection()?;
        let s2_norm = next().weights()?;
        let s2_head = Matrix::stacked(vec![next()], vec![next().weights()?]);
        debug_assert_eq!(embeddings.map(|tensor| tensor.rows()), vocabularies);
        Ok(Self {
            tokens,
            times: times.try_into().expect("one table for each time feature"),
            stack,
            norm,
            s1_head,
            dependency: DependencyLayer {
                query,
                keys_values: loader.matrix(Matrix::stacked(keys_values, biases)),
                output: loader.plain(output, output_bias),
                s2_head: loader.norm_linear(NORM_EPSILON, s2_norm, s2_head),
            },
        })
    }
}

/// Every tensor of the model, in the order in which [`PredictorWeights::new`] takes them.
fn manifest(config: &PredictorConfig) -> Manifest {
    let width = config.transformer.width;
    let [s1, s2] = config.bits.vocabularies();
    let mut manifest = Manifest::new();
    manifest.require("embedding.emb_s1.weight", &[s1, width]);
    manifest.require("embedding.emb_s2.weight", &[s2, width]);
    linear(&mut manifest, "embedding.fusion_proj", width, 2 * width);
    for (name, entries) in TIME_TABLES {
        // A fixed embedding is stored one level deeper.
        let names = ["weight", "emb.weight"].map(|end| format!("time_emb.{name}_embed.{end}"));
        manifest.require_any(names, &[entries, width]);
    }
    blocks(&mut manifest, "transformer", config.blocks, config.transformer);
    manifest.require("norm.weight", &[width]);
    linear(&mut manifest, "head.proj_s1", s1, width);
    for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
        linear(&mut manifest, &format!("dep_layer.cross_attn.{part}"), width, width);
    }
    manifest.require("dep_layer.norm.weight", &[width]);
    linear(&mut manifest, "head.proj_s2", s2, width);
    manifest
}

/// `fusion_proj([E1[s1], E2[s2]] · √width)`: linear after a choice of rows, so the rows can be projected first.
fn token_embedding<'a>(
    loader: &mut Loader<'a, '_>,
    embeddings: &[TensorView<'a>; 2],
    fusion: TensorView<'a>,
    bias: &TensorView<'a>,
) -> Result<TokenEmbedding> {
    let width = fusion.rows();
    let scale = (width as f64).sqrt();
    let mut scaled = Vec::with_capacity(2);
    for embedding in embeddings {
        let values = embedding.weights_f64()?;
        scaled.push(values.into_iter().map(|value| value * scale).collect::<Vec<f64>>());
    }
    if loader.eager {
        let tables = [0, 1].map(|half: usize| loader.list.table(width, narrow(&scaled[half])));
        return Ok(TokenEmbedding::Unfolded { tables, fusion: loader.plain(fusion, bias.weights()?) });
    }
    let (weight, bias) = (fusion.weights_f64()?, bias.weights_f64()?);
    loader.checkpoint.release(fusion.name);
    let mut tables = Vec::with_capacity(2);
    for (half, rows) in scaled.iter().enumerate() {
        let part: Vec<f64> = weight.chunks(2 * width).flat_map(|row| &row[half * width..][..width]).copied().collect();
        // The bias goes with the coarse token.
        let bias = (half == 0).then_some(&bias[..]);
        tables.push(loader.list.table(width, projected(rows, &part, bias, 1.0, loader.threads)));
    }
    Ok(TokenEmbedding::Folded(tables.try_into().expect("two halves")))
}

/// The embedding enters here without the root of the width.
fn dependency_query<'a>(
    loader: &mut Loader<'a, '_>,
    embedding: &TensorView<'a>,
    projection: TensorView<'a>,
    bias: &TensorView<'a>,
) -> Result<DependencyQuery> {
    let width = projection.rows();
    let softmax_scale = 1.0 / ((width / DEPENDENCY_HEADS) as f64).sqrt();
    if loader.eager {
        let row = Box::new(move |row| Stored { tensor: 0, row, factor: softmax_scale });
        let query = Matrix { row, ..Matrix::stacked(vec![projection], vec![bias.weights()?]) };
        let table = loader.list.table(width, embedding.weights()?);
        return Ok(DependencyQuery::Unfolded { table, query: loader.matrix(query) });
    }
    let rows = projected(
        &embedding.weights_f64()?,
        &projection.weights_f64()?,
        Some(&bias.weights_f64()?),
        softmax_scale,
        loader.threads,
    );
    loader.checkpoint.release(projection.name);
    Ok(DependencyQuery::Folded(loader.list.table(width, rows)))
}

/// `(rows · weightᵀ + bias) · factor`, rounded once.
fn projected(rows: &[f64], weight: &[f64], bias: Option<&[f64]>, factor: f64, threads: usize) -> Vec<f32> {
    let width = weight.len().isqrt();
    let mut product = vec![0.0; rows.len()];
    multiply_on(threads, rows, Right::Transposed(weight), &mut product, width);
    let bias = |index: usize| bias.map_or(0.0, |bias| bias[index % width]);
    product.iter().enumerate().map(|(index, value)| ((value + bias(index)) * factor) as f32).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}
