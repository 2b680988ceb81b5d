//! Operations that move or combine rows.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::error::Result;
use crate::operation::{Add, LastRow, Norm, Operation, OverwriteExogenous, PrependLabel, Round, SortSamples, SwiGlu};

argument! {
    /// `PrependLabel` in rows.cu.
    PrependLabelArgument {
        input: u64, output: u64, target: u64, exogenous: u64, live: u64, series: KernelRows, rows: KernelRows,
        width: i32, variates: i32, exogenous_variates: i32, reserved: i32,
    }
}

argument! {
    /// `LastRows` in rows.cu.
    LastRowsArgument {
        inputs: [u64; MOST_LAST_ROWS], outputs: [u64; MOST_LAST_ROWS], widths: [u64; MOST_LAST_ROWS], live: u64,
        series: KernelRows, rows: KernelRows,
    }
}

/// Tensors of one launch; `MOST_LAST_ROWS` in rows.cu.
const MOST_LAST_ROWS: usize = 4;

argument! {
    /// `OverwriteExogenous` in rows.cu.
    OverwriteExogenousArgument {
        paths: u64, future: u64, live: u64, rows: KernelRows, horizon: i32, known: i32, column: i32, columns: i32,
        variates: i32, exogenous: i32,
    }
}

argument! {
    /// `Add` in rows.cu.
    AddArgument { left: u64, right: u64, output: u64, live: u64, rows: KernelRows, width: i32, reserved: i32 }
}

argument! {
    /// `Round` in rows.cu.
    RoundArgument { input: u64, output: u64, live: u64, rows: KernelRows, width: i32, reserved: i32 }
}

argument! {
    /// `SortSamples` in sort_samples.cu.
    SortSamplesArgument { paths: u64, sorted: u64, live: u64, series: KernelRows, horizon: i32, reserved: i32 }
}

argument! {
    /// `Norm` in rows.cu.
    NormArgument { input: u64, scale: u64, output: u64, live: u64, rows: KernelRows, width: i32, epsilon: f32 }
}

argument! {
    /// `SwiGlu` in rows.cu.
    SwiGluArgument { input: u64, output: u64, live: u64, rows: KernelRows, hidden: i32, reserved: i32 }
}

/// Threads of a block that sorts; as at its entry point.
const MOST_SORTING_THREADS: usize = 512;

impl Recorder<'_> {
    pub(super) fn prepend_label(&mut self, op: &PrependLabel) -> Result<()> {
        let label = |vector: crate::weights::VectorId| self.weights.vectors[vector.index];
        let argument = PrependLabelArgument {
            input: self.at(op.input),
            output: self.at(op.output),
            target: label(op.target),
            exogenous: label(op.exogenous),
            live: self.live,
            series: rows(op.series)?,
            rows: rows(op.input.rows)?,
            width: int(op.input.width)?,
            variates: int(op.variates)?,
            exogenous_variates: int(op.exogenous_variates)?,
            reserved: 0,
        };
        let shape = Shape::flat(self.most(op.output.rows)? * op.input.width, 256);
        self.launch("PrependLabel", Kernel::PrependLabel, shape, argument)
    }

    /// Takes last rows, of `first` and of all that follow directly and have as many rows; how many these are.
    pub(super) fn last_rows(&mut self, first: &LastRow, following: &[Operation]) -> Result<usize> {
        let also = following.iter().map_while(|operation| match operation {
            Operation::LastRow(op) if op.series == first.series && op.input.rows == first.input.rows => Some(op),
            _ => None,
        });
        let all: Vec<&LastRow> = std::iter::once(first).chain(also).take(MOST_LAST_ROWS).collect();
        let words = |op: &LastRow| op.output.width * op.output.element.bytes() / 4;
        let mut argument = LastRowsArgument {
            inputs: Default::default(),
            outputs: Default::default(),
            widths: Default::default(),
            live: self.live,
            series: rows(first.series)?,
            rows: rows(first.input.rows)?,
        };
        for (place, op) in all.iter().enumerate() {
            argument.inputs[place] = self.at(op.input);
            argument.outputs[place] = self.at(op.output);
            argument.widths[place] = words(op) as u64;
        }
        let widest = all.iter().map(|op| words(op)).max().unwrap_or(0);
        let flat = Shape::flat(self.most(first.series)? * widest, 256);
        let shape = Shape { grid: [flat.grid[0], all.len(), 1], ..flat };
        self.launch("LastRow", Kernel::LastRows, shape, argument)?;
        Ok(all.len())
    }

    pub(super) fn overwrite_exogenous(&mut self, op: &OverwriteExogenous) -> Result<()> {
        let argument = OverwriteExogenousArgument {
            paths: self.at(op.paths),
            future: self.at(op.future),
            live: self.live,
            rows: rows(op.paths.rows)?,
            horizon: int(op.paths.width)?,
            known: int(op.future.width)?,
            column: int(op.columns.start)?,
            columns: int(op.columns.len())?,
            variates: int(op.variates)?,
            exogenous: int(op.exogenous)?,
        };
        let shape = Shape::flat(self.most(op.paths.rows)? * op.columns.len(), 256);
        self.launch("OverwriteExogenous", Kernel::OverwriteExogenous, shape, argument)
    }

    pub(super) fn add(&mut self, op: &Add) -> Result<()> {
        let argument = AddArgument {
            left: self.at(op.left),
            right: self.at(op.right),
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.output.rows)?,
            width: int(op.output.width)?,
            reserved: 0,
        };
        let shape = self.each_value(op.output)?;
        self.launch("Add", Kernel::AddRows, shape, argument)
    }

    pub(super) fn round(&mut self, op: &Round) -> Result<()> {
        let argument = RoundArgument {
            input: self.at(op.input),
            output: self.at_host(op.output),
            live: self.live,
            rows: rows(op.output.rows)?,
            width: int(op.output.width)?,
            reserved: 0,
        };
        let shape = self.each_value(op.output)?;
        self.launch("Round", Kernel::RoundRows, shape, argument)
    }

    pub(super) fn sort_samples(&mut self, op: &SortSamples) -> Result<()> {
        let argument = SortSamplesArgument {
            paths: self.at(op.paths),
            sorted: self.at(op.sorted),
            live: self.live,
            series: rows(op.series)?,
            horizon: int(op.paths.width)?,
            reserved: 0,
        };
        let keys = self.plan.capacity().samples.next_power_of_two();
        let shape = Shape {
            grid: [self.most(op.series)? * op.paths.width, 1, 1],
            threads: (keys / 2).clamp(32, MOST_SORTING_THREADS),
            shared_bytes: keys * size_of::<u32>(),
        };
        self.launch("SortSamples", Kernel::SortSamples, shape, argument)
    }

    pub(super) fn norm(&mut self, op: &Norm) -> Result<()> {
        let argument = NormArgument {
            input: self.at(op.input),
            scale: self.weights.vectors[op.scale.index],
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.input.rows)?,
            width: int(op.input.width)?,
            epsilon: op.epsilon,
        };
        let shape = Shape { grid: [self.most(op.input.rows)?, 1, 1], threads: 128, shared_bytes: 0 };
        self.launch("Norm", Kernel::NormRows, shape, argument)
    }

    pub(super) fn swiglu(&mut self, op: &SwiGlu) -> Result<()> {
        let argument = SwiGluArgument {
            input: self.at(op.input),
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.input.rows)?,
            hidden: int(op.output.width)?,
            reserved: 0,
        };
        let shape = Shape::flat(self.most(op.input.rows)? * op.output.width, 256);
        self.launch("SwiGlu", Kernel::SwiGlu, shape, argument)
    }
}
