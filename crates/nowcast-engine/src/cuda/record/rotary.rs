//! Rotary positions and the cache.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::error::{Error, Result};
use crate::extent::Rows;
use crate::operation::{AppendCache, CachePart, RotaryTable, RotateQuery, Rotation};
use crate::rotary::{Pairing, Rotary};

argument! {
    /// `RotaryTable` in rotary.cu.
    RotaryTableArgument {
        constants: u64, table: u64, live: u64, rows: KernelRows, first: KernelRows, seen: KernelRows,
        head_dim: i32, interleaved: i32, has_decay: i32, scale_base: f32,
    }
}

argument! {
    /// `RotateQuery` in rotary.cu.
    RotateQueryArgument {
        tensor: u64, table: u64, live: u64, rows: KernelRows, positions: KernelRows,
        width: i32, column: i32, heads: i32, head_dim: i32, interleaved: i32, packs_own: i32,
    }
}

argument! {
    /// `AppendCache` in rotary.cu.
    AppendCacheArgument {
        input: u64, table: u64, keys: u64, values: u64, live: u64, rows: KernelRows, tokens: KernelRows,
        width: i32, key_column: i32, value_column: i32, heads: i32, head_dim: i32, interleaved: i32,
        capacity: i32, first: i32, query_column: i32, packs_own: i32,
    }
}

/// Warps of a block that appends own tokens, and tokens of a context that one turns into columns; both in rotary.cu.
const OWN_WARPS: usize = 4;
const TURNED: usize = 16;

pub(super) fn interleaved(rotary: &Rotary) -> i32 {
    (rotary.pairing == Pairing::Interleaved).into()
}

impl Recorder<'_> {
    pub(super) fn rotary_table(&mut self, op: &RotaryTable) -> Result<()> {
        let before = self.rotaries.iter().take_while(|rotary| **rotary != op.rotary);
        let offset: usize = before.map(|rotary| rotary.constants().count() * size_of::<f64>()).sum();
        let head_dim = op.rotary.head_dim;
        let argument = RotaryTableArgument {
            constants: self.constants + offset as u64,
            table: self.at(op.table),
            live: self.live,
            rows: rows(op.table.rows)?,
            first: rows(op.first)?,
            seen: rows(op.anchor_tokens)?,
            head_dim: int(head_dim)?,
            interleaved: interleaved(&op.rotary),
            has_decay: op.rotary.xpos_scale_base.is_some().into(),
            scale_base: op.rotary.xpos_scale_base.unwrap_or(1.0),
        };
        let shape = Shape::flat(self.most(op.table.rows)? * head_dim, 256);
        self.launch("RotaryTable", Kernel::RotaryTable, shape, argument)
    }

    pub(super) fn rotate_query(&mut self, op: &RotateQuery) -> Result<()> {
        let head_dim = op.rotary.head_dim;
        let argument = RotateQueryArgument {
            tensor: self.at(op.tensor),
            table: self.at(op.table),
            live: self.live,
            rows: rows(op.tensor.rows)?,
            positions: rows(op.table.rows)?,
            width: int(op.tensor.width)?,
            column: int(op.column)?,
            heads: int(op.heads)?,
            head_dim: int(head_dim)?,
            interleaved: interleaved(&op.rotary),
            packs_own: self.packed_own.has_rows(&self.uses, op.tensor).into(),
        };
        let shape = Shape::flat(self.most(op.tensor.rows)? * op.heads * head_dim / 2, 256);
        self.launch("RotateQuery", Kernel::RotateQuery, shape, argument)
    }

    /// Whether queries can be rotated where their keys are: the same rows by the same table.
    pub(super) fn rotates_with(append: &AppendCache, queries: &RotateQuery) -> bool {
        let tokens = match append.part {
            CachePart::Context => append.cache.shape.context,
            CachePart::Suffix { tokens, .. } => Rows::fixed(tokens),
        };
        let same = |rotation: &Rotation| {
            rotation.table == queries.table && rotation.rotary == queries.rotary && queries.table.rows == tokens
        };
        append.rotation.as_ref().is_some_and(same)
            && queries.tensor == append.input
            && queries.heads == append.cache.shape.heads
    }

    pub(super) fn append_cache(&mut self, op: &AppendCache, queries: Option<&RotateQuery>) -> Result<()> {
        let shape = op.cache.shape;
        let (keys, values, capacity, first, tokens) = match op.part {
            CachePart::Context => {
                (op.cache.context_keys, op.cache.context_values, op.cache.capacity(), 0, shape.context)
            }
            CachePart::Suffix { first, tokens } => {
                let Some((keys, values)) = op.cache.suffix else {
                    return Err(Error::Device("AppendCache: the cache has no room for tokens of its own".into()));
                };
                (keys, values, shape.steps, first, Rows::fixed(tokens))
            }
        };
        let argument = AppendCacheArgument {
            input: self.at(op.input),
            table: op.rotation.map_or(0, |rotation| self.at(rotation.table)),
            keys: self.at(keys),
            values: self.at(values),
            live: self.live,
            rows: rows(op.input.rows)?,
            tokens: rows(tokens)?,
            width: int(op.input.width)?,
            key_column: int(op.key_column)?,
            value_column: int(op.value_column)?,
            heads: int(shape.heads)?,
            head_dim: int(shape.head_dim)?,
            interleaved: op.rotation.map_or(1, |rotation| interleaved(&rotation.rotary)),
            capacity: int(capacity)?,
            first: int(first)?,
            query_column: queries.map_or(Ok(-1), |queries| int(queries.column))?,
            packs_own: (op.part != CachePart::Context && self.packed_own.has(&op.cache)).into(),
        };
        let (kernel, shape) = match op.part {
            CachePart::Context => {
                let grid = [self.most(tokens)?.div_ceil(TURNED), shape.heads, self.most(shape.series)?];
                let shared_bytes = shape.head_dim * (TURNED + 1) * size_of::<f32>();
                (Kernel::AppendContext, Shape { grid, threads: 32 * TURNED, shared_bytes })
            }
            CachePart::Suffix { .. } => {
                let warps = self.most(op.input.rows)? * shape.heads;
                let grid = [warps.div_ceil(OWN_WARPS), (shape.head_dim / 2).div_ceil(32), 1];
                (Kernel::AppendOwn, Shape { grid, threads: 32 * OWN_WARPS, shared_bytes: 0 })
            }
        };
        self.launch("AppendCache", kernel, shape, argument)
    }
}
