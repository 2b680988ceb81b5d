//! Tokens.

use crate::extent::Rows;
use crate::plan::Tensor;
use crate::weights::TableId;

/// See [`Embed`](super::Operation::Embed). Output row `(outer, token)` is the sum of one row of each table.
#[derive(Debug, Clone)]
pub struct Embed {
    /// What is summed; terms may fill different columns.
    pub terms: Vec<EmbedTerm>,
    /// Tokens of each outer item (series or path).
    pub tokens: Rows,
    /// `[outer, tokens, width]`.
    pub output: Tensor,
}

/// One table of an [`Embed`] and where its row numbers stand.
///
/// Output row `(outer, token)` takes row `index[group, first + token][column]` of the table, where `group` is the
/// outer item or, where there are fewer groups, the one that shares it.
#[derive(Debug, Clone)]
pub struct EmbedTerm {
    /// The rows to choose from.
    pub table: TableId,
    /// Row numbers, `[groups, length, columns]` in i32; [`NO_TOKEN`](crate::token_sampling::NO_TOKEN) is a row that is
    /// not a number.
    pub index: Tensor,
    /// Number of groups.
    pub groups: Rows,
    /// First row of every group.
    pub first: Rows,
    /// Column of the row numbers.
    pub column: usize,
    /// First output column to fill.
    pub output_column: usize,
}

/// See [`QuantiseBits`](super::Operation::QuantiseBits). Bit `j` is `input[j] > 0`; the lowest bit comes first. A value
/// that is not a number makes [`NO_TOKEN`](crate::token_sampling::NO_TOKEN).
#[derive(Debug, Clone)]
pub struct QuantiseBits {
    /// `[rows, bits]`.
    pub input: Tensor,
    /// Bits of the first token; the second takes the rest.
    pub first_bits: usize,
    /// `[rows, 2]` in i32.
    pub output: Tensor,
}

/// See [`SampleToken`](super::Operation::SampleToken); the rule is [`crate::device::Launch::token_sampling`].
#[derive(Debug, Clone)]
pub struct SampleToken {
    /// One row per series or per path, `[rows, vocabulary]`.
    pub logits: Tensor,
    /// Filtered, unnormalised probabilities, as large as `logits`, in f64.
    pub weights: Tensor,
    /// Whether rows are per series, shared by its samples.
    pub shared: bool,
    /// Random stream of each series, `[series]` in i32.
    pub streams: Tensor,
    /// `[paths, width]` in i32.
    pub tokens: Tensor,
    /// Column to write.
    pub column: usize,
    /// Decode step, counted from 0; part of the random key.
    pub step: usize,
    /// Which of the tokens of a step; part of the random key.
    pub position: usize,
}
