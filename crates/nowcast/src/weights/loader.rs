//! Device matrices whose rows come from stored tensors, converted while the device packs them.

use nowcast_engine::dtype::Dtype;
use nowcast_engine::plan::Norm;
use nowcast_engine::weights::{Activation, LinearId, LinearSource, ReadRow, WeightList};

use crate::checkpoint::{Checkpoint, TensorView};

/// Where the tensors of a checkpoint become sources of device weights.
pub(crate) struct Loader<'a, 'list> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) list: &'list mut WeightList<'a>,
    /// Keep norms apart from the products behind them.
    pub(crate) eager: bool,
    /// In what numbers the device keeps the matrices.
    pub(crate) dtype: Dtype,
    /// Threads that take products of weights.
    pub(crate) threads: usize,
}

/// A norm and the product that follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormLinear {
    pub(crate) norm: Norm,
    pub(crate) weight: LinearId,
}

/// Where one row of a device matrix is stored, and what it is multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// Which of the tensors.
    pub(crate) tensor: usize,
    /// Row of that tensor.
    pub(crate) row: usize,
    pub(crate) factor: f64,
}

/// A device matrix made of the rows of one or several tensors of equal width.
pub(crate) struct Matrix<'a> {
    pub(crate) tensors: Vec<TensorView<'a>>,
    /// One bias for each tensor, or none at all.
    pub(crate) biases: Vec<Vec<f32>>,
    /// Scale of each column: that of the norm in front.
    pub(crate) columns: Option<Vec<f32>>,
    pub(crate) activation: Activation,
    /// Where each row comes from.
    pub(crate) row: Box<dyn Fn(usize) -> Stored + Send + Sync + 'a>,
}

impl<'a> Matrix<'a> {
    /// Tensors one below the other, as they are stored.
    pub(crate) fn stacked(tensors: Vec<TensorView<'a>>, biases: Vec<Vec<f32>>) -> Self {
        let height = tensors.first().map_or(1, TensorView::rows);
        let row = Box::new(move |row| Stored { tensor: row / height, row: row % height, factor: 1.0 });
        Self { tensors, biases, columns: None, activation: Activation::None, row }
    }
}

impl<'a> Loader<'a, '_> {
    /// For matrices that stay f32 whatever the dtype of the others.
    pub(crate) fn in_f32(&mut self) -> Loader<'a, '_> {
        Loader { list: self.list, dtype: Dtype::F32, ..*self }
    }

    /// A matrix as it is stored.
    pub(crate) fn plain(&mut self, tensor: TensorView<'a>, bias: Vec<f32>) -> LinearId {
        self.matrix(Matrix::stacked(vec![tensor], vec![bias]))
    }

    /// Any matrix.
    pub(crate) fn matrix(&mut self, matrix: Matrix<'a>) -> LinearId {
        let Matrix { tensors, biases, columns, activation, row } = matrix;
        let rows = tensors.iter().map(TensorView::rows).sum();
        let inputs = tensors[0].row_length();
        let bias = (!biases.is_empty()).then(|| {
            let value = |index| {
                let stored: Stored = row(index);
                (f64::from(biases[stored.tensor][stored.row]) * stored.factor) as f32
            };
            (0..rows).map(value).collect()
        });
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        let checkpoint = self.checkpoint;
        let open = move || -> ReadRow<'a> {
            Box::new(move |index, out| {
                let Stored { tensor, row, factor } = row(index);
                checkpoint.read_row(&tensors[tensor], row, out);
                multiply(out, columns.as_deref(), factor);
            })
        };
        self.list.linear(LinearSource {
            rows,
            inputs,
            bias,
            activation,
            dtype: self.dtype,
            open: Box::new(open),
            packed: Box::new(move || names.iter().for_each(|name| checkpoint.release(name))),
        })
    }

    /// A norm and the matrix behind it. The norm's scale becomes part of the matrix, except in eager mode, which also
    /// leaves activations to operations of their own.
    pub(crate) fn norm_linear(&mut self, epsilon: f32, scale: Vec<f32>, matrix: Matrix<'a>) -> NormLinear {
        if self.eager {
            let scale = Some(self.list.vector(scale));
            let weight = self.matrix(Matrix { activation: Activation::None, ..matrix });
            return NormLinear { norm: Norm { epsilon, scale }, weight };
        }
        let weight = self.matrix(Matrix { columns: Some(scale), ..matrix });
        NormLinear { norm: Norm { epsilon, scale: None }, weight }
    }
}

/// Rows of a matrix in memory.
pub(crate) fn plain_rows<'a>(weight: Vec<f32>, inputs: usize) -> ReadRow<'a> {
    Box::new(move |row, out| out.copy_from_slice(&weight[row * inputs..(row + 1) * inputs]))
}

fn multiply(row: &mut [f32], columns: Option<&[f32]>, factor: f64) {
    if columns.is_none() && factor == 1.0 {
        return;
    }
    for (index, value) in row.iter_mut().enumerate() {
        let column = columns.map_or(1.0, |columns| f64::from(columns[index]));
        *value = (f64::from(*value) * column * factor) as f32;
    }
}
