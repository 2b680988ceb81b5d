//! Kronos in f64 and plain loops, every window from scratch: what a forecast is compared with.
//!
//! Written from the formulas alone, without the engine: no cache, no shared context, no folded weights.

use crate::checkpoint::Checkpoint;
use crate::kronos::config::{DEPENDENCY_HEADS, PredictorConfig, TokenizerConfig, Transformer};
use crate::{Error, Result};

/// Rows of equal width.
pub(crate) type Matrix = Vec<Vec<f64>>;

/// Both halves of a model, as they are stored.
pub(crate) struct Twin<'a> {
    pub(crate) tokenizer: (TokenizerConfig, &'a Checkpoint),
    pub(crate) predictor: (PredictorConfig, &'a Checkpoint),
}

impl Twin<'_> {
    /// The encoder's output in front of the signs, `[candles, bits]`.
    pub(crate) fn encode(&self, candles: &Matrix) -> Result<Matrix> {
        let (config, checkpoint) = &self.tokenizer;
        let x = linear(checkpoint, "embed", candles)?;
        let x = blocks(checkpoint, "encoder", config.encoder_blocks, config.transformer, x)?;
        linear(checkpoint, "quant_embed", &x)
    }

    /// Normalised candles of pairs of tokens.
    pub(crate) fn decode(&self, tokens: &[[i64; 2]]) -> Result<Matrix> {
        let (config, checkpoint) = &self.tokenizer;
        let scale = 1.0 / (config.bits.total() as f64).sqrt();
        let sign = |token: i64, bit: usize| if token >> bit & 1 == 1 { scale } else { -scale };
        let signs = tokens.iter().map(|[s1, s2]| {
            (0..config.bits.s1).map(|bit| sign(*s1, bit)).chain((0..config.bits.s2).map(|bit| sign(*s2, bit))).collect()
        });
        let x = linear(checkpoint, "post_quant_embed", &signs.collect())?;
        let x = blocks(checkpoint, "decoder", config.decoder_blocks, config.transformer, x)?;
        linear(checkpoint, "head", &x)
    }

    /// Hidden states behind the last norm, one for each token of a window.
    pub(crate) fn context(&self, tokens: &[[i64; 2]], stamps: &[[i64; 5]]) -> Result<Matrix> {
        let (config, checkpoint) = &self.predictor;
        let width = config.transformer.width;
        let root = (width as f64).sqrt();
        let tables = [matrix(checkpoint, "embedding.emb_s1.weight")?, matrix(checkpoint, "embedding.emb_s2.weight")?];
        let pairs = tokens
            .iter()
            .map(|[s1, s2]| [&tables[0][*s1 as usize][..], &tables[1][*s2 as usize]].concat())
            .map(|row| row.iter().map(|value| value * root).collect());
        let mut x = linear(checkpoint, "embedding.fusion_proj", &pairs.collect())?;
        for (feature, name) in ["minute", "hour", "weekday", "day", "month"].into_iter().enumerate() {
            let name = format!("time_emb.{name}_embed");
            let table = match checkpoint.tensor(&format!("{name}.weight")) {
                Some(_) => matrix(checkpoint, &format!("{name}.weight"))?,
                None => matrix(checkpoint, &format!("{name}.emb.weight"))?,
            };
            for (row, stamp) in x.iter_mut().zip(stamps) {
                add(row, &table[stamp[feature] as usize]);
            }
        }
        let x = blocks(checkpoint, "transformer", config.blocks, config.transformer, x)?;
        norm(checkpoint, "norm", &x)
    }

    /// Logits of the coarse token behind a hidden state.
    pub(crate) fn s1_logits(&self, hidden: &[f64]) -> Result<Vec<f64>> {
        Ok(linear(self.predictor.1, "head.proj_s1", &vec![hidden.to_vec()])?.remove(0))
    }

    /// Logits of the fine token after a coarse one, for the last position of a window.
    pub(crate) fn s2_logits(&self, context: &Matrix, s1: i64) -> Result<Vec<f64>> {
        let checkpoint = self.predictor.1;
        let name = |part: &str| format!("dep_layer.cross_attn.{part}");
        let sibling = vec![matrix(checkpoint, "embedding.emb_s1.weight")?[s1 as usize].clone()];
        let query = linear(checkpoint, &name("q_proj"), &sibling)?;
        let keys = linear(checkpoint, &name("k_proj"), context)?;
        let values = linear(checkpoint, &name("v_proj"), context)?;
        let answer = attend(&query, &keys, &values, DEPENDENCY_HEADS, false);
        let mut x = linear(checkpoint, &name("out_proj"), &answer)?;
        add(&mut x[0], &context[context.len() - 1]);
        Ok(linear(checkpoint, "head.proj_s2", &norm(checkpoint, "dep_layer.norm", &x)?)?.remove(0))
    }
}

fn matrix(checkpoint: &Checkpoint, name: &str) -> Result<Matrix> {
    let tensor = checkpoint
        .tensor(name)
        .ok_or_else(|| Error::Checkpoint(format!("{}: there is no {name}", checkpoint.origin())))?;
    Ok(tensor.to_f64()?.chunks(tensor.row_length()).map(<[f64]>::to_vec).collect())
}

/// `x · Wᵀ + b`, without a bias where none is stored.
fn linear(checkpoint: &Checkpoint, name: &str, x: &Matrix) -> Result<Matrix> {
    let weight = matrix(checkpoint, &format!("{name}.weight"))?;
    let bias = match checkpoint.tensor(&format!("{name}.bias")) {
        Some(tensor) => tensor.to_f64()?,
        None => vec![0.0; weight.len()],
    };
    Ok(x.iter().map(|row| weight.iter().zip(&bias).map(|(w, b)| dot(row, w) + b).collect()).collect())
}

fn norm(checkpoint: &Checkpoint, name: &str, x: &Matrix) -> Result<Matrix> {
    let scale = matrix(checkpoint, &format!("{name}.weight"))?.remove(0);
    let normed = |row: &Vec<f64>| {
        let factor = 1.0 / (dot(row, row) / row.len() as f64 + 1e-5).sqrt();
        row.iter().zip(&scale).map(|(value, scale)| value * factor * scale).collect()
    };
    Ok(x.iter().map(normed).collect())
}

fn blocks(checkpoint: &Checkpoint, name: &str, count: usize, shape: Transformer, mut x: Matrix) -> Result<Matrix> {
    for index in 0..count {
        let name = |part: &str| format!("{name}.{index}.{part}");
        let y = norm(checkpoint, &name("norm1"), &x)?;
        let projected = |part: &str| linear(checkpoint, &name(&format!("self_attn.{part}")), &y);
        let query = rotated(projected("q_proj")?, shape.head_dim());
        let keys = rotated(projected("k_proj")?, shape.head_dim());
        let answer = attend(&query, &keys, &projected("v_proj")?, shape.heads, true);
        let answer = linear(checkpoint, &name("self_attn.out_proj"), &answer)?;
        x.iter_mut().zip(&answer).for_each(|(row, answer)| add(row, answer));
        let y = norm(checkpoint, &name("norm2"), &x)?;
        let (mut gates, values) = (linear(checkpoint, &name("ffn.w1"), &y)?, linear(checkpoint, &name("ffn.w3"), &y)?);
        for (gate, value) in gates.iter_mut().flatten().zip(values.iter().flatten()) {
            *gate *= value / (1.0 + (-*gate).exp());
        }
        let hidden = linear(checkpoint, &name("ffn.w2"), &gates)?;
        x.iter_mut().zip(&hidden).for_each(|(row, hidden)| add(row, hidden));
    }
    Ok(x)
}

/// Rotary positions from 0, components `i` and `i + head_dim / 2` paired. Frequencies are rounded to f32, as stored.
fn rotated(mut x: Matrix, head_dim: usize) -> Matrix {
    let half = head_dim / 2;
    for (position, row) in x.iter_mut().enumerate() {
        for head in row.chunks_mut(head_dim) {
            for pair in 0..half {
                let exponent = (2 * pair) as f32 / head_dim as f32;
                let frequency = f64::from(1.0 / (10_000f64.powf(f64::from(exponent)) as f32));
                let (sine, cosine) = (position as f64 * frequency).sin_cos();
                let (a, b) = (head[pair], head[pair + half]);
                (head[pair], head[pair + half]) = (a * cosine - b * sine, b * cosine + a * sine);
            }
        }
    }
    x
}

fn attend(query: &Matrix, keys: &Matrix, values: &Matrix, heads: usize, causal: bool) -> Matrix {
    let head_dim = keys[0].len() / heads;
    let of_row = |(index, query): (usize, &Vec<f64>)| {
        let seen = if causal { index + 1 } else { keys.len() };
        let of_head = |head: usize| {
            let part = head * head_dim..(head + 1) * head_dim;
            let score = |key: &Vec<f64>| dot(&query[part.clone()], &key[part.clone()]) / (head_dim as f64).sqrt();
            let scores: Vec<f64> = keys[..seen].iter().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut answer = vec![0.0; head_dim];
            for (weight, value) in weights.iter().zip(values) {
                answer.iter_mut().zip(&value[part.clone()]).for_each(|(sum, value)| *sum += weight / total * value);
            }
            answer
        };
        (0..heads).flat_map(of_head).collect()
    };
    query.iter().enumerate().map(of_row).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
