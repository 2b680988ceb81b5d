//! The two `config.json` of Kronos: arguments of the published constructors, read into shapes that can be trusted.

use std::ops::RangeInclusive;

use crate::Result;
use crate::checkpoint::fields::{Fields, fault};

/// Fields of a candle: open, high, low, close, volume, amount.
pub(crate) const CANDLE_FIELDS: usize = 6;
/// The reference builds its cross-attention with this many heads whatever the model has.
pub(crate) const DEPENDENCY_HEADS: usize = 4;
/// Tokens of context of the published models, but for mini.
const CONTEXT: usize = 512;
/// Tokens of context of Kronos-mini.
const MINI_CONTEXT: usize = 2048;

/// Bounds of every size: far above any published model, far below what would overflow a product of a few of them.
const WIDTHS: RangeInclusive<usize> = 2..=16_384;
const HIDDEN_WIDTHS: RangeInclusive<usize> = 1..=65_536;
const HEADS: RangeInclusive<usize> = 1..=1_024;
const LAYERS: RangeInclusive<usize> = 1..=1_000;
const BITS: RangeInclusive<usize> = 1..=16;
/// Values of one table of codes; the published tokenizers need 262,144.
const MOST_CODE_VALUES: usize = 1 << 26;
/// Wider heads have no place in the engine's attention.
const MOST_HEAD_DIM: usize = nowcast_engine::cpu::MOST_HEAD_DIM;

/// A stack of transformer blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transformer {
    /// Width of the residual stream.
    pub width: usize,
    /// Attention heads; their width is even.
    pub heads: usize,
    /// Width of the gated hidden layer.
    pub hidden: usize,
}

/// Bits of the two tokens of a candle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBits {
    /// Bits of the coarse token.
    pub s1: usize,
    /// Bits of the fine token.
    pub s2: usize,
}

/// The architecture of a tokenizer: binary spherical quantisation between two transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenizerConfig {
    /// Encoder and decoder.
    pub transformer: Transformer,
    /// Blocks of the encoder (the file counts one more).
    pub encoder_blocks: usize,
    /// Blocks of the decoder (the file counts one more).
    pub decoder_blocks: usize,
    /// Bits of its tokens.
    pub bits: TokenBits,
}

/// The architecture of a predictor: a decoder over tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictorConfig {
    /// The transformer.
    pub transformer: Transformer,
    /// Its blocks.
    pub blocks: usize,
    /// Bits of its tokens.
    pub bits: TokenBits,
}

impl TokenBits {
    fn read(fields: &Fields) -> Result<Self> {
        Ok(Self { s1: fields.size("s1_bits", BITS)?, s2: fields.size("s2_bits", BITS)? })
    }

    /// Bits of both tokens.
    pub fn total(self) -> usize {
        self.s1 + self.s2
    }

    /// Number of coarse and of fine tokens.
    pub fn vocabularies(self) -> [usize; 2] {
        [1 << self.s1, 1 << self.s2]
    }
}

impl Transformer {
    fn read(fields: &Fields) -> Result<Self> {
        let (width, heads) = (fields.size("d_model", WIDTHS)?, fields.size("n_heads", HEADS)?);
        if !width.is_multiple_of(heads) || !(width / heads).is_multiple_of(2) || width / heads > MOST_HEAD_DIM {
            return Err(fault(format!(
                "n_heads is {heads}, allowed: a divisor of d_model, {width}, that leaves heads of even width up to {MOST_HEAD_DIM}"
            )));
        }
        Ok(Self { width, heads, hidden: fields.size("ff_dim", HIDDEN_WIDTHS)? })
    }

    /// Width of one head.
    pub fn head_dim(&self) -> usize {
        self.width / self.heads
    }

    /// Weights of one block.
    fn block_parameters(&self) -> u64 {
        let (width, hidden) = (self.width as u64, self.hidden as u64);
        4 * (width + 1) * width + 3 * width * hidden + 2 * width
    }
}

impl TokenizerConfig {
    /// Reads the text of a tokenizer's `config.json`.
    ///
    /// # Errors
    /// One line that names the field, its value and what is allowed.
    pub fn from_json(text: &str) -> Result<Self> {
        let fields = Fields::read(text, "a Kronos tokenizer")?;
        let inputs = fields.size("d_in", 1..=1_024)?;
        if inputs != CANDLE_FIELDS {
            return Err(fault(format!(
                "d_in is {inputs}, allowed: {CANDLE_FIELDS}, for open, high, low, close, volume and amount"
            )));
        }
        let blocks = |name| Ok::<_, crate::Error>(fields.size(name, LAYERS)? - 1);
        let (transformer, bits) = (Transformer::read(&fields)?, TokenBits::read(&fields)?);
        let codes = bits.vocabularies().into_iter().max().unwrap_or(0) * transformer.width;
        if codes > MOST_CODE_VALUES {
            return Err(fault(format!(
                "has s1_bits {}, s2_bits {} and d_model {}: their tables would need {codes} values, allowed: {MOST_CODE_VALUES}",
                bits.s1, bits.s2, transformer.width
            )));
        }
        let (encoder_blocks, decoder_blocks) = (blocks("n_enc_layers")?, blocks("n_dec_layers")?);
        Ok(Self { transformer, encoder_blocks, decoder_blocks, bits })
    }

    /// Number of weights that forecasting uses.
    pub fn parameters(&self) -> u64 {
        let (width, bits) = (self.transformer.width as u64, self.bits.total() as u64);
        let fields = CANDLE_FIELDS as u64;
        (fields + 1) * width
            + (self.encoder_blocks + self.decoder_blocks) as u64 * self.transformer.block_parameters()
            + (width + 1) * bits
            + (bits + 1) * width
            + (width + 1) * fields
    }
}

impl PredictorConfig {
    /// Reads the text of a model's `config.json`.
    ///
    /// # Errors
    /// One line that names the field, its value and what is allowed.
    pub fn from_json(text: &str) -> Result<Self> {
        let fields = Fields::read(text, "a Kronos model")?;
        let transformer = Transformer::read(&fields)?;
        let dependency = transformer.width / DEPENDENCY_HEADS;
        if !transformer.width.is_multiple_of(2 * DEPENDENCY_HEADS) || dependency > MOST_HEAD_DIM {
            return Err(fault(format!(
                "d_model is {}, allowed: a multiple of {} up to {}, for the {DEPENDENCY_HEADS} heads between the tokens",
                transformer.width,
                2 * DEPENDENCY_HEADS,
                DEPENDENCY_HEADS * MOST_HEAD_DIM
            )));
        }
        Ok(Self { transformer, blocks: fields.size("n_layers", LAYERS)?, bits: TokenBits::read(&fields)? })
    }

    /// Number of weights.
    pub fn parameters(&self) -> u64 {
        let width = self.transformer.width as u64;
        let square = (width + 1) * width;
        let [s1, s2] = self.bits.vocabularies().map(|vocabulary| vocabulary as u64);
        let times: usize = super::weights::TIME_TABLES.iter().map(|(_, entries)| entries).sum();
        (s1 + s2) * width
            + (2 * width + 1) * width
            + times as u64 * width
            + self.blocks as u64 * self.transformer.block_parameters()
            + width
            + 4 * square
            + width
            + (width + 1) * (s1 + s2)
    }

    /// Tokens that the published model of this shape was made for: 2,048 for mini, 512 for the others.
    pub fn default_max_context(&self) -> usize {
        let mini = Transformer { width: 256, heads: 4, hidden: 512 };
        if self.transformer == mini && self.blocks == 4 { MINI_CONTEXT } else { CONTEXT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor(layers: usize, width: usize, heads: usize, hidden: usize) -> PredictorConfig {
        let text = format!(
            r#"{{"s1_bits": 10, "s2_bits": 10, "n_layers": {layers}, "d_model": {width}, "n_heads": {heads},
                "ff_dim": {hidden}, "learn_te": true}}"#
        );
        PredictorConfig::from_json(&text).unwrap()
    }

    #[test]
    fn the_published_sizes_have_the_published_numbers_of_parameters() {
        let sizes =
            [(4, 256, 4, 512, 4.1), (8, 512, 8, 1024, 24.7), (12, 832, 16, 2048, 102.3), (18, 1664, 32, 3072, 499.2)];
        for (layers, width, heads, hidden, millions) in sizes {
            let config = predictor(layers, width, heads, hidden);
            assert!((config.parameters() as f64 / 1e6 - millions).abs() < 0.06, "{}", config.parameters());
        }
    }

    #[test]
    fn mini_looks_back_further() {
        assert_eq!(predictor(4, 256, 4, 512).default_max_context(), 2048);
        assert_eq!(predictor(8, 512, 8, 1024).default_max_context(), 512);
    }

    #[test]
    fn shapes_that_cannot_run_are_named() {
        let text = |field: &str, value: &str| {
            let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(
                r#"{"s1_bits": 10, "s2_bits": 10, "n_layers": 2, "d_model": 64, "n_heads": 4, "ff_dim": 32}"#,
            )
            .unwrap();
            fields.insert(field.into(), serde_json::from_str(value).unwrap());
            serde_json::to_string(&fields).unwrap()
        };
        for (field, value) in [
            ("n_heads", "3"),
            ("n_heads", "64"),
            ("d_model", "12"),
            ("d_model", "1e9"),
            ("s1_bits", "17"),
            ("s2_bits", "0"),
            ("n_layers", "-1"),
            ("ff_dim", "null"),
        ] {
            let error = PredictorConfig::from_json(&text(field, value)).unwrap_err().to_string();
            assert!(error.contains(field) || error.contains("n_heads"), "{error}");
            assert!(error.contains("allowed"), "{error}");
        }
        assert!(TokenizerConfig::from_json(&text("d_in", "5")).unwrap_err().to_string().contains("open, high"));
        assert!(PredictorConfig::from_json("[]").is_err());
    }
}
