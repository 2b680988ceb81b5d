//! From token ids and times to vectors.

use nowcast_engine::extent::Rows;
use nowcast_engine::operation::{self, EmbedTerm, Operation};
use nowcast_engine::plan::Tensor;
use nowcast_engine::weights::TableId;

use super::forward::Forward;
use super::weights::{DependencyQuery, TokenEmbedding};

/// Where pairs of token ids stand: `tokens` of each group, from one on.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenRows {
    /// `[groups, length, 2]` i32
    index: Tensor,
    groups: Rows,
    first: usize,
    tokens: Rows,
}

impl TokenRows {
    /// Tokens of the context, `[series, context, 2]`.
    pub(super) fn of_context(index: Tensor, first: usize, tokens: Rows) -> Self {
        Self { index, groups: Rows::batch(), first, tokens }
    }

    /// Tokens of the paths, `[series, samples, horizon · 2]`.
    pub(super) fn of_paths(generated: Tensor, first: usize, tokens: usize) -> Self {
        let groups = generated.rows;
        let index = generated.reshaped(groups.times(generated.width / 2), 2);
        Self { index, groups, first, tokens: Rows::fixed(tokens) }
    }

    /// One row for each token of each group.
    fn rows(&self) -> Rows {
        let tokens = self.tokens.times_batch();
        if self.groups == Rows::batch() { tokens } else { tokens.times_samples() }
    }

    fn term(&self, table: TableId, column: usize, output_column: usize) -> EmbedTerm {
        let first = Rows::fixed(self.first);
        EmbedTerm { table, index: self.index, groups: self.groups, first, column, output_column }
    }
}

impl Forward<'_> {
    fn embed(&mut self, terms: Vec<EmbedTerm>, rows: &TokenRows, width: usize) -> Tensor {
        let output = self.plan.tensor(rows.rows(), width);
        self.plan.push(Operation::Embed(operation::Embed { terms, tokens: rows.tokens, output }));
        output
    }

    /// Input of the tokenizer's decoder: what `post_quant_embed` makes of the signs.
    pub(super) fn embed_codes(&mut self, rows: TokenRows) -> Tensor {
        let [s1, s2] = self.model.tokenizer.codes;
        self.embed(vec![rows.term(s1, 0, 0), rows.term(s2, 1, 0)], &rows, s1.width)
    }

    /// Input of the predictor: fused token embeddings plus the times of the candles, which stand from a row on.
    pub(super) fn embed_tokens(&mut self, rows: TokenRows, stamps: Option<Rows>) -> Tensor {
        let model = self.model;
        let width = model.predictor.stack.transformer.width;
        let index = self.stamps;
        let time = |first: Rows| {
            let term = move |(column, table)| {
                let groups = Rows::batch();
                EmbedTerm { table, index, groups, first, column, output_column: 0 }
            };
            model.predictor.times.into_iter().enumerate().map(term)
        };
        let times = stamps.into_iter().flat_map(time);
        match model.predictor.tokens {
            TokenEmbedding::Folded([s1, s2]) => {
                let terms = [rows.term(s1, 0, 0), rows.term(s2, 1, 0)].into_iter().chain(times).collect();
                self.embed(terms, &rows, width)
            }
            TokenEmbedding::Unfolded { tables: [s1, s2], fusion } => {
                let pair = self.embed(vec![rows.term(s1, 0, 0), rows.term(s2, 1, width)], &rows, 2 * width);
                let times = self.embed(times.collect(), &rows, width);
                self.plan.linear_add(fusion, pair, times)
            }
        }
    }

    /// The queries of coarse tokens.
    pub(super) fn dependency_query(&mut self, rows: TokenRows) -> Tensor {
        match self.model.predictor.dependency.query {
            DependencyQuery::Folded(table) => self.embed(vec![rows.term(table, 0, 0)], &rows, table.width),
            DependencyQuery::Unfolded { table, query } => {
                let embedding = self.embed(vec![rows.term(table, 0, 0)], &rows, table.width);
                self.plan.linear(query, embedding)
            }
        }
    }
}
