//! The argument of a kernel: one structure, laid out as C++ does.

use super::machine::Map;
use crate::extent::Rows;

/// A structure's bytes, in words of eight for its alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) words: Vec<u64>,
    /// Bytes of the structure.
    pub(super) length: usize,
}

/// A field of a structure.
pub(super) trait Field {
    const ALIGNMENT: usize;
    fn append(&self, bytes: &mut Vec<u8>);
}

macro_rules! plain_field {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const ALIGNMENT: usize = align_of::<$type>();
            fn append(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_ne_bytes());
            }
        }
    )*};
}

plain_field!(i32, u32, f32, f64, u64);

/// [`Rows`] as kernels know them: fixed factor, whether batch and samples count, prepended tokens or -1.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelRows(pub(super) [i32; 4]);

impl Field for KernelRows {
    const ALIGNMENT: usize = 4;
    fn append(&self, bytes: &mut Vec<u8>) {
        self.0.iter().for_each(|value| value.append(bytes));
    }
}

impl KernelRows {
    /// `None` where a number is larger than kernels count.
    pub(super) fn new(rows: Rows) -> Option<Self> {
        let (fixed, batch, samples, context) = rows.parts();
        let context = match context {
            Some(extra) => i32::try_from(extra).ok()?,
            None => -1,
        };
        Some(Self([i32::try_from(fixed).ok()?, batch.into(), samples.into(), context]))
    }
}

impl<const N: usize> Field for [u64; N] {
    const ALIGNMENT: usize = 8;
    fn append(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|word| word.append(bytes));
    }
}

/// Whose structure, and so the whole that it stands in, is aligned to 64 bytes.
impl Field for Map {
    const ALIGNMENT: usize = 64;
    fn append(&self, bytes: &mut Vec<u8>) {
        self.0.append(bytes);
    }
}

/// A structure in another.
impl Field for Argument {
    const ALIGNMENT: usize = 8;
    fn append(&self, bytes: &mut Vec<u8>) {
        self.words.iter().for_each(|word| word.append(bytes));
    }
}

/// Collects fields; each starts at a multiple of its alignment, and the whole ends at one of the largest.
pub(super) struct Fields {
    bytes: Vec<u8>,
    alignment: usize,
}

impl Default for Fields {
    fn default() -> Self {
        // Every structure has an address.
        Self { bytes: Vec::new(), alignment: align_of::<u64>() }
    }
}

impl Fields {
    pub(super) fn push<T: Field>(mut self, field: T) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(T::ALIGNMENT), 0);
        self.alignment = self.alignment.max(T::ALIGNMENT);
        field.append(&mut self.bytes);
        self
    }

    pub(super) fn finish(mut self) -> Argument {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.alignment), 0);
        let words = self.bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(chunk.try_into().expect("eight bytes")));
        Argument { words: words.collect(), length: self.bytes.len() }
    }
}

/// Declares the twin of a kernel's structure: same fields, same order.
macro_rules! argument {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(super) struct $name { $(pub(super) $field: $type),* }

        impl From<$name> for $crate::cuda::argument::Argument {
            fn from(call: $name) -> Self {
                $crate::cuda::argument::Fields::default()$(.push(call.$field))*.finish()
            }
        }
    };
}

pub(super) use argument;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_a_c_compiler_puts_them() {
        let argument = Fields::default().push(7u64).push(1i32).push(2.0f64).push(3i32).finish();
        assert_eq!(argument.length, 32);
        assert_eq!(argument.words[0], 7);
        assert_eq!(argument.words[1] as u32, 1);
        assert_eq!(f64::from_bits(argument.words[2]), 2.0);
        assert_eq!(argument.words[3] as u32, 3);
        let argument = Fields::default().push(Map([0; 16])).push(1u64).finish();
        assert_eq!(argument.length, 192);
    }
}
