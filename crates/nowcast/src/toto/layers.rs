//! The layers: attention over time or between variates, and the MLP.

use nowcast_engine::kv_cache::LayerCache;
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::Tensor;

use super::config::LayerKind;
use super::forward::{Forward, Pass};
use super::weights::LayerWeights;

impl Forward<'_> {
    /// `x + attention(norm1 x)`, then `x + mlp(norm2 x)`.
    pub(super) fn layer(&mut self, index: usize, layer: &LayerWeights, x: Tensor, pass: Pass) -> Tensor {
        let attended = match layer.kind {
            LayerKind::Time => self.time_attention(index, layer, x, pass),
            LayerKind::Space => self.space_attention(layer, x, pass),
        };
        let x = self.plan.linear_add(layer.attention_output, attended, x);
        self.mlp(layer, x)
    }

    fn mlp(&mut self, layer: &LayerWeights, x: Tensor) -> Tensor {
        let mut hidden = self.plan.norm_linear(layer.mlp_input.norm, layer.mlp_input.weight, x);
        if self.model.options.eager {
            hidden = self.plan.swiglu(hidden);
        }
        self.plan.linear_add(layer.mlp_output, hidden, x)
    }

    /// Causal attention over the patches of one variate.
    fn time_attention(&mut self, index: usize, layer: &LayerWeights, x: Tensor, pass: Pass) -> Tensor {
        let width = x.width;
        let qkv = self.plan.norm_linear(layer.qkv.norm, layer.qkv.weight, x);
        let cache = self.append(index, qkv, width, pass);
        self.rotate_query(qkv, pass.table);
        let output = self.plan.tensor(x.rows, width);
        self.plan.push(match pass.step {
            None => Operation::AttendContext(operation::AttendContext { query: qkv, query_column: 0, cache, output }),
            Some(step) => Operation::AttendPaths(operation::AttendPaths {
                query: qkv,
                query_column: 0,
                cache,
                output,
                tokens: 1,
                seen: step + 1,
                hidden: 0,
            }),
        });
        output
    }

    /// As [`Self::layer`], but only the last token of each series goes on.
    pub(super) fn last_time_layer(&mut self, index: usize, layer: &LayerWeights, x: Tensor, pass: Pass) -> Tensor {
        let attended = self.time_attention(index, layer, x, pass);
        let [attended, x] = [attended, x].map(|tensor| self.plan.last_row(tensor, self.series));
        let x = self.plan.linear_add(layer.attention_output, attended, x);
        self.mlp(layer, x)
    }

    /// Attention between the variates of one group at the same time step.
    fn space_attention(&mut self, layer: &LayerWeights, x: Tensor, pass: Pass) -> Tensor {
        let width = x.width;
        if self.shape.variates == 1 && !self.model.options.eager {
            // One variate attends to itself alone: the softmax is 1 whatever the scores.
            return self.plan.norm_linear_columns(layer.qkv.norm, layer.qkv.weight, x, 2 * width..3 * width);
        }
        let qkv = self.plan.norm_linear(layer.qkv.norm, layer.qkv.weight, x);
        let output = self.plan.tensor(x.rows, width);
        self.plan.push(Operation::AttendGroup(operation::AttendGroup {
            qkv,
            groups: self.groups,
            output,
            variates: self.shape.variates,
            inner: pass.inner,
            heads: self.model.config.heads,
        }));
        output
    }

    fn append(&mut self, index: usize, input: Tensor, key_column: usize, pass: Pass) -> LayerCache {
        let cache = self.caches[index].expect("a time-wise layer has a cache");
        self.plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: Some(Rotation { rotary: self.model.rotary(), table: pass.table }),
            input,
            key_column,
            value_column: key_column + self.model.config.embed_dim,
            cache,
            part: pass.step.map_or(CachePart::Context, |first| CachePart::Suffix { first, tokens: 1 }),
        }));
        cache
    }

    fn rotate_query(&mut self, tensor: Tensor, table: Tensor) {
        let rotary = self.model.rotary();
        let heads = self.model.config.heads;
        self.plan.push(Operation::RotateQuery(operation::RotateQuery { rotary, tensor, column: 0, heads, table }));
    }
}
