//! One tensor of a checkpoint, read in place and converted on the fly.

use half::f16;
use half::slice::HalfFloatSliceExt;
pub use safetensors::Dtype;

use super::fault;
use crate::Result;

/// One tensor, borrowed from its checkpoint: row-major, little-endian, perhaps unaligned.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Dimensions, slowest first; a scalar has none.
    pub shape: &'a [usize],
    /// Type of the stored elements.
    pub dtype: Dtype,
    /// Stored bytes, `elements() * dtype.bitsize() / 8` of them.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Length of the last dimension; 1 for a scalar.
    pub fn row_length(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions but the last.
    pub fn rows(&self) -> usize {
        self.shape.split_last().map_or(1, |(_, leading)| leading.iter().product())
    }

    /// Converts one row (along the last dimension) to `f32`; f16 and bf16 convert exactly, f64 rounds.
    ///
    /// # Errors
    /// The tensor does not hold floats.
    ///
    /// # Panics
    /// `row` is not below `rows()`, or `out` is not `row_length()` long.
    pub fn row(&self, row: usize, out: &mut [f32]) -> Result<()> {
        let length = self.row_length();
        assert!(row < self.rows(), "row {row} of {} in {}", self.rows(), self.name);
        assert_eq!(out.len(), length, "length of a row of {}", self.name);
        let bytes = length * self.float_bytes()?;
        self.convert_to_f32(&self.bytes[row * bytes..(row + 1) * bytes], out)
    }

    /// All elements as `f32`; f16 and bf16 convert exactly, f64 rounds.
    ///
    /// # Errors
    /// The tensor does not hold floats.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.float_bytes()?;
        let mut values = vec![0.0; self.elements()];
        self.convert_to_f32(self.bytes, &mut values)?;
        Ok(values)
    }

    /// All elements as `f64`, exactly.
    ///
    /// # Errors
    /// The tensor does not hold floats.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        match self.dtype {
            Dtype::F64 => Ok(elements(self.bytes).map(f64::from_le_bytes).collect()),
            _ => Ok(self.to_f32()?.into_iter().map(f64::from).collect()),
        }
    }

    /// One row of weights: as [`Self::row`], and every value finite.
    ///
    /// # Errors
    /// As for [`Self::row`], or a value is NaN or infinite.
    ///
    /// # Panics
    /// As [`Self::row`].
    pub fn weight_row(&self, row: usize, out: &mut [f32]) -> Result<()> {
        self.row(row, out)?;
        // Without a branch for each value, which would cost as much as the conversion.
        self.refuse(out.iter().fold(false, |found, value| found | !value.is_finite()))
    }

    /// Weights: as [`Self::to_f32`], and every value finite.
    ///
    /// # Errors
    /// As for [`Self::to_f32`], or a value is NaN or infinite.
    pub fn weights(&self) -> Result<Vec<f32>> {
        let values = self.to_f32()?;
        self.refuse(values.iter().any(|value| !value.is_finite()))?;
        Ok(values)
    }

    /// Weights: as [`Self::to_f64`], and every value finite.
    ///
    /// # Errors
    /// As for [`Self::to_f64`], or a value is NaN or infinite.
    pub fn weights_f64(&self) -> Result<Vec<f64>> {
        let values = self.to_f64()?;
        self.refuse(values.iter().any(|value| !value.is_finite()))?;
        Ok(values)
    }

    fn refuse(&self, unfit: bool) -> Result<()> {
        match unfit {
            true => Err(fault(&format!(
                "tensor {:?} holds a weight that is NaN or infinite: the file is damaged, or its training failed",
                self.name
            ))),
            false => Ok(()),
        }
    }

    /// All elements of an int64 tensor (masks, ids, token ids).
    ///
    /// # Errors
    /// The tensor does not hold int64.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        match self.dtype {
            Dtype::I64 => Ok(elements(self.bytes).map(i64::from_le_bytes).collect()),
            other => Err(fault(&format!("tensor {:?} holds {other} where I64 is needed", self.name))),
        }
    }

    /// Whether the elements can be read as floats.
    pub fn is_float(&self) -> bool {
        self.float_bytes().is_ok()
    }

    /// Bytes of one element, if it is a float of a type that weights come in.
    fn float_bytes(&self) -> Result<usize> {
        match self.dtype {
            Dtype::F16 | Dtype::BF16 => Ok(2),
            Dtype::F32 => Ok(4),
            Dtype::F64 => Ok(8),
            other => Err(fault(&format!(
                "tensor {:?} holds {other} where floats (F32, F16, BF16, F64) are needed",
                self.name
            ))),
        }
    }

    fn convert_to_f32(&self, bytes: &[u8], out: &mut [f32]) -> Result<()> {
        debug_assert_eq!(bytes.len(), out.len() * self.float_bytes()?);
        match self.dtype {
            Dtype::F32 => fill(out, elements(bytes).map(f32::from_le_bytes)),
            Dtype::BF16 => {
                fill(out, elements(bytes).map(|pair| f32::from_bits(u32::from(u16::from_le_bytes(pair)) << 16)))
            }
            Dtype::F16 => convert_f16(bytes, out),
            // The cast from f64 rounds to nearest.
            _ => fill(out, elements(bytes).map(|eight| f64::from_le_bytes(eight) as f32)),
        }
        Ok(())
    }
}

/// Elements of `N` bytes, whatever their alignment.
fn elements<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().copied()
}

fn fill(out: &mut [f32], values: impl Iterator<Item = f32>) {
    for (slot, value) in out.iter_mut().zip(values) {
        *slot = value;
    }
}

/// Goes through an aligned block, which lets `half` use the conversion instructions of the processor.
fn convert_f16(bytes: &[u8], out: &mut [f32]) {
    const BLOCK: usize = 256;
    let mut block = [f16::ZERO; BLOCK];
    for (bytes, out) in bytes.chunks(2 * BLOCK).zip(out.chunks_mut(BLOCK)) {
        let block = &mut block[..out.len()];
        for (slot, pair) in block.iter_mut().zip(elements(bytes)) {
            *slot = f16::from_le_bytes(pair);
        }
        block.convert_to_f32_slice(out);
    }
}
