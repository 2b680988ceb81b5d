//! The transformer blocks that tokenizer and predictor have in common, and the attention between a candle's tokens.

use nowcast_engine::extent::Rows;
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::Tensor;
use nowcast_engine::rotary::{Pairing, Rotary};

use super::config::DEPENDENCY_HEADS;
use super::forward::Forward;
use super::weights::Stack;

/// Tokens of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Span {
    /// The start of the window, the same for all paths of a series.
    Shared,
    /// Each path's own tokens.
    Own {
        /// First of them.
        first: usize,
        /// How many.
        tokens: usize,
        /// Oldest tokens in the cache that they do not see.
        hidden: usize,
    },
}

/// One pass through a stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    rotation: Rotation,
    span: Span,
}

impl Forward<'_> {
    /// One cache for each block, with room for `steps` own tokens of every path.
    pub(super) fn caches(&mut self, stack: &Stack, context: Rows, steps: usize) -> Vec<LayerCache> {
        let transformer = stack.transformer;
        let (heads, head_dim) = (transformer.heads, transformer.head_dim());
        let shape = CacheShape { series: Rows::batch(), heads, head_dim, context, steps };
        stack.blocks.iter().map(|_| LayerCache::new(&mut self.plan, shape)).collect()
    }

    /// Keys and values that coarse tokens ask.
    pub(super) fn dependency_cache(&mut self, context: Rows, steps: usize) -> LayerCache {
        let head_dim = self.model.predictor.stack.transformer.width / DEPENDENCY_HEADS;
        let shape = CacheShape { series: Rows::batch(), heads: DEPENDENCY_HEADS, head_dim, context, steps };
        LayerCache::new(&mut self.plan, shape)
    }

    /// A pass over the first tokens of the window.
    pub(super) fn shared_pass(&mut self, stack: &Stack, tokens: Rows) -> Pass {
        let rotation = self.rotation(stack, Rows::fixed(0), tokens);
        Pass { rotation, span: Span::Shared }
    }

    /// A pass over own tokens, the first at a position.
    pub(super) fn own_pass(&mut self, stack: &Stack, position: Rows, span: Span) -> Pass {
        let Span::Own { tokens, .. } = span else { unreachable!("these are own tokens") };
        Pass { rotation: self.rotation(stack, position, Rows::fixed(tokens)), span }
    }

    fn rotation(&mut self, stack: &Stack, first: Rows, tokens: Rows) -> Rotation {
        let head_dim = stack.transformer.head_dim();
        let rotary = Rotary { head_dim, pairing: Pairing::HalfSplit, xpos_scale_base: None };
        let table = self.plan.tensor(tokens, 4 * head_dim);
        let anchor_tokens = tokens;
        self.plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
        Rotation { rotary, table }
    }

    /// `x + attention(norm1 x)`, then `x + mlp(norm2 x)`.
    pub(super) fn block(&mut self, stack: &Stack, index: usize, x: Tensor, cache: &LayerCache, pass: Pass) -> Tensor {
        let block = &stack.blocks[index];
        let width = x.width;
        let qkv = self.plan.norm_linear(block.qkv.norm, block.qkv.weight, x);
        self.append(qkv, width, cache, pass);
        self.plan.push(Operation::RotateQuery(operation::RotateQuery {
            rotary: pass.rotation.rotary,
            tensor: qkv,
            column: 0,
            heads: stack.transformer.heads,
            table: pass.rotation.table,
        }));
        let output = self.plan.tensor(x.rows, width);
        let (query, query_column, cache) = (qkv, 0, *cache);
        self.plan.push(match pass.span {
            Span::Shared => Operation::AttendContext(operation::AttendContext { query, query_column, cache, output }),
            Span::Own { first, tokens, hidden } => {
                let seen = first + 1;
                let attend = operation::AttendPaths { query, query_column, cache, output, tokens, seen, hidden };
                Operation::AttendPaths(attend)
            }
        });
        let x = self.plan.linear_add(block.attention_output, output, x);
        let mut hidden = self.plan.norm_linear(block.mlp_input.norm, block.mlp_input.weight, x);
        if self.model.options.eager {
            hidden = self.plan.swiglu(hidden);
        }
        self.plan.linear_add(block.mlp_output, hidden, x)
    }

    /// Only keys and values of a block, where nobody asks what the block makes of these tokens.
    pub(super) fn keys_and_values(&mut self, stack: &Stack, index: usize, x: Tensor, cache: &LayerCache, pass: Pass) {
        let qkv = stack.blocks[index].qkv;
        let columns = x.width..3 * x.width;
        let keys_values = self.plan.norm_linear_columns(qkv.norm, qkv.weight, x, columns);
        self.append(keys_values, 0, cache, pass);
    }

    fn append(&mut self, input: Tensor, key_column: usize, cache: &LayerCache, pass: Pass) {
        let width = cache.shape.heads * cache.shape.head_dim;
        let part = match pass.span {
            Span::Shared => CachePart::Context,
            Span::Own { first, tokens, .. } => CachePart::Suffix { first, tokens },
        };
        self.plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: Some(pass.rotation),
            input,
            key_column,
            value_column: key_column + width,
            cache: *cache,
            part,
        }));
    }

    /// The norm behind the last block.
    pub(super) fn norm(&mut self, x: Tensor) -> Tensor {
        let norm = self.model.predictor.norm;
        let output = self.plan.tensor(x.rows, x.width);
        let scale = norm.scale.expect("the last norm is no part of a product");
        self.plan.push(Operation::Norm(operation::Norm { input: x, output, scale, epsilon: norm.epsilon }));
        output
    }

    /// Keys and values for coarse tokens. Generation asks with one query, and the reference takes the length of its
    /// rotary table from the query: everything stands at position 0, so nothing is rotated.
    pub(super) fn append_dependency(&mut self, hidden: Tensor, caches: &[LayerCache], part: CachePart) {
        let predictor = &self.model.predictor;
        let cache = caches[predictor.stack.blocks.len()];
        let input = self.plan.linear(predictor.dependency.keys_values, hidden);
        self.plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: None,
            input,
            key_column: 0,
            value_column: hidden.width,
            cache,
            part,
        }));
    }

    /// Logits of the fine token from what the coarse one was answered.
    pub(super) fn fine_logits(&mut self, answer: Tensor, hidden: Tensor) -> Tensor {
        let dependency = &self.model.predictor.dependency;
        let x = self.plan.linear_add(dependency.output, answer, hidden);
        self.plan.norm_linear(dependency.s2_head.norm, dependency.s2_head.weight, x)
    }
}
