//! Weights on their way from a checkpoint to a device.

use std::fmt;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// A matrix on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearId {
    pub(crate) index: usize,
    /// Columns of the input.
    pub inputs: usize,
    /// Columns of the output (half the rows of a gated matrix).
    pub outputs: usize,
}

/// A vector on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorId {
    pub(crate) index: usize,
    /// Number of values.
    pub length: usize,
}

/// A vector on the device that holds the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId {
    pub(crate) vector: VectorId,
    /// Values of one row.
    pub width: usize,
}

/// What a product does with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// The matrix has `2 hidden` rows, gates first: the output is `silu(gate) * value`.
    SwiGlu,
}

/// Yields one row of a matrix: `(row, destination of length inputs)`.
pub type ReadRow<'a> = Box<dyn Fn(usize, &mut [f32]) + Send + Sync + 'a>;

/// A matrix `[outputs, inputs]` that is read row by row while the device packs it.
pub struct LinearSource<'a> {
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub inputs: usize,
    /// One value for each row.
    pub bias: Option<Vec<f32>>,
    /// Fused activation.
    pub activation: Activation,
    /// In what numbers the device keeps it.
    pub dtype: Dtype,
    /// Prepares the reader just before packing, so that folded products live only that long.
    pub open: Box<dyn FnOnce() -> ReadRow<'a> + Send + 'a>,
    /// Called once the matrix is packed: the source may be released.
    pub packed: Box<dyn FnOnce() + Send + 'a>,
}

impl fmt::Debug for LinearSource<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LinearSource[{}, {}]", self.rows, self.inputs)
    }
}

/// The weights of one model in the order of their ids.
#[derive(Debug, Default)]
pub struct WeightList<'a> {
    /// Matrices.
    pub linears: Vec<LinearSource<'a>>,
    /// Vectors.
    pub vectors: Vec<Vec<f32>>,
}

impl<'a> WeightList<'a> {
    /// Refuses matrices whose dtype a device does not support.
    ///
    /// # Errors
    /// There is such a matrix.
    pub fn check(&self, device: &dyn Device) -> Result<()> {
        match self.linears.iter().map(|linear| linear.dtype).find(|&dtype| !device.supports(dtype)) {
            Some(dtype) => Err(Error::Device(format!("{} does not multiply in {dtype}", device.describe()))),
            None => Ok(()),
        }
    }

    /// Adds a matrix.
    pub fn linear(&mut self, source: LinearSource<'a>) -> LinearId {
        let outputs = match source.activation {
            Activation::None => source.rows,
            Activation::SwiGlu => source.rows / 2,
        };
        let id = LinearId { index: self.linears.len(), inputs: source.inputs, outputs };
        self.linears.push(source);
        id
    }

    /// Adds a vector.
    pub fn vector(&mut self, values: Vec<f32>) -> VectorId {
        let id = VectorId { index: self.vectors.len(), length: values.len() };
        self.vectors.push(values);
        id
    }

    /// Adds a table whose rows are `width` values wide.
    pub fn table(&mut self, width: usize, values: Vec<f32>) -> TableId {
        assert!(width > 0 && values.len().is_multiple_of(width), "a table is made of whole rows");
        TableId { vector: self.vector(values), width }
    }
}
