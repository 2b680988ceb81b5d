//! Token models: tables, signs, filtered logits.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{Field, KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::error::{Error, Result};
use crate::operation::{Embed, QuantiseBits, RepeatRows, SampleToken};

argument! {
    /// `RepeatRows` in tokens.cu.
    RepeatRowsArgument { input: u64, output: u64, live: u64, rows: KernelRows, width: i32, reserved: i32 }
}

argument! {
    /// `Embed` in tokens.cu.
    EmbedArgument {
        output: u64, live: u64, rows: KernelRows, tokens: KernelRows, width: i32, terms: i32, continues: i32,
        reserved: i32, term: Terms,
    }
}

argument! {
    /// `QuantiseBits` in tokens.cu.
    QuantiseBitsArgument { input: u64, output: u64, live: u64, rows: KernelRows, bits: i32, first_bits: i32 }
}

argument! {
    /// `SampleToken` in sampling.cu.
    SampleTokenArgument {
        logits: u64, weights: u64, streams: u64, tokens: u64, live: u64, rows: KernelRows, paths: KernelRows,
        vocabulary: i32, width: i32, column: i32, step: i32, position: i32, shared: i32,
    }
}

/// Threads of a block there, and tokens of a thread at most: of one for few tokens, and for many; `THREADS`, `FEW_TOKENS` and
/// `MANY_TOKENS`.
const SAMPLING_THREADS: usize = 256;
const FEW_TOKENS: usize = 4;
const MANY_TOKENS: usize = 48;

/// Threads of a block of `embed` in tokens.cu.
const EMBED_THREADS: usize = 256;
/// Terms of one launch; `MOST_TERMS` there.
const MOST_TERMS: usize = 8;

/// `EmbedTerm` in tokens.cu.
#[derive(Debug, Clone)]
struct Term {
    table: u64,
    index: u64,
    index_rows: KernelRows,
    groups: KernelRows,
    first: KernelRows,
    columns: i32,
    column: i32,
    width: i32,
    output_column: i32,
}

/// An array of [`MOST_TERMS`], of which the first ones count.
#[derive(Debug, Clone)]
pub(super) struct Terms(Vec<Term>);

impl Field for Terms {
    const ALIGNMENT: usize = 8;

    fn append(&self, bytes: &mut Vec<u8>) {
        const TERM_BYTES: usize = 2 * 8 + 3 * 16 + 4 * 4;
        for term in &self.0 {
            term.table.append(bytes);
            term.index.append(bytes);
            [term.index_rows, term.groups, term.first].iter().for_each(|rows| rows.append(bytes));
            [term.columns, term.column, term.width, term.output_column].iter().for_each(|value| value.append(bytes));
        }
        bytes.resize(bytes.len() + (MOST_TERMS - self.0.len()) * TERM_BYTES, 0);
    }
}

impl Recorder<'_> {
    pub(super) fn repeat_rows(&mut self, op: &RepeatRows) -> Result<()> {
        let argument = RepeatRowsArgument {
            input: self.at(op.input),
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.output.rows)?,
            width: int(op.output.width)?,
            reserved: 0,
        };
        let shape = self.each_value(op.output)?;
        self.launch("RepeatRows", Kernel::RepeatRows, shape, argument)
    }

    pub(super) fn embed(&mut self, op: &Embed) -> Result<()> {
        let terms = op.terms.iter().map(|term| {
            Ok(Term {
                table: self.weights.vectors[term.table.vector.index],
                index: self.at(term.index),
                index_rows: rows(term.index.rows)?,
                groups: rows(term.groups)?,
                first: rows(term.first)?,
                columns: int(term.index.width)?,
                column: int(term.column)?,
                width: int(term.table.width)?,
                output_column: int(term.output_column)?,
            })
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        for (index, terms) in terms.chunks(MOST_TERMS).enumerate() {
            let argument = EmbedArgument {
                output: self.at(op.output),
                live: self.live,
                rows: rows(op.output.rows)?,
                tokens: rows(op.tokens)?,
                width: int(op.output.width)?,
                terms: int(terms.len())?,
                continues: (index > 0).into(),
                reserved: 0,
                term: Terms(terms.to_vec()),
            };
            let grid = [self.most(op.output.rows)?, op.output.width.div_ceil(EMBED_THREADS), 1];
            let shape = Shape { grid, threads: EMBED_THREADS, shared_bytes: 0 };
            self.launch("Embed", Kernel::Embed, shape, argument)?;
        }
        Ok(())
    }

    pub(super) fn quantise_bits(&mut self, op: &QuantiseBits) -> Result<()> {
        let argument = QuantiseBitsArgument {
            input: self.at(op.input),
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.input.rows)?,
            bits: int(op.input.width)?,
            first_bits: int(op.first_bits)?,
        };
        let shape = Shape::flat(self.most(op.input.rows)?, 256);
        self.launch("QuantiseBits", Kernel::QuantiseBits, shape, argument)
    }

    pub(super) fn sample_token(&mut self, op: &SampleToken) -> Result<()> {
        let vocabulary = op.logits.width;
        let argument = SampleTokenArgument {
            logits: self.at(op.logits),
            weights: self.at(op.weights),
            streams: self.at(op.streams),
            tokens: self.at(op.tokens),
            live: self.live,
            rows: rows(op.logits.rows)?,
            paths: rows(op.tokens.rows)?,
            vocabulary: int(vocabulary)?,
            width: int(op.tokens.width)?,
            column: int(op.column)?,
            step: int(op.step)?,
            position: int(op.position)?,
            shared: op.shared.into(),
        };
        let (each, most) = (vocabulary.div_ceil(SAMPLING_THREADS), SAMPLING_THREADS * MANY_TOKENS);
        if each > MANY_TOKENS {
            return Err(Error::Device(format!(
                "GPUs sample {most} tokens, not a vocabulary of {vocabulary}: use the CPU"
            )));
        }
        let (weigh_kernel, draw_kernel) = match each <= FEW_TOKENS {
            true => (Kernel::WeighTokens, Kernel::DrawToken),
            false => (Kernel::WeighManyTokens, Kernel::DrawOfManyTokens),
        };
        // Weights, the sums up to each of them, and the logits as numbers of 32 bits.
        let shape = |rows: usize| Shape {
            grid: [rows, 1, 1],
            threads: SAMPLING_THREADS,
            shared_bytes: vocabulary * (2 * size_of::<f64>() + size_of::<u32>()),
        };
        let mut weigh = shape(self.most(op.logits.rows)?);
        // They begin where the product before leaves room, and would crowd there.
        let machine = &self.weights.machine;
        let spread = machine.spread_shared_bytes(weigh.grid[0].div_ceil(machine.multiprocessors()).max(1));
        weigh.shared_bytes = weigh.shared_bytes.max(spread.min(machine.most_shared_bytes()));
        self.launch("SampleToken", weigh_kernel, weigh, argument.clone())?;
        if !op.shared {
            return Ok(());
        }
        let draw = shape(self.most(op.tokens.rows)?);
        self.launch("SampleToken", draw_kernel, draw, argument)
    }
}
