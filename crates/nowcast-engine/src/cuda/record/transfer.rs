//! Small copies between the host's memory and the device's, in one launch.

use crate::cuda::argument::{Field, argument};
use crate::cuda::kernel::Kernel;
use crate::cuda::machine::KernelLaunch;

argument! {
    /// `Transfer` in transfer.cu.
    TransferArgument { pieces: Pieces }
}

/// Pieces of one launch; `MOST_TRANSFERS` in transfer.cu.
pub(in crate::cuda) const MOST_PIECES: usize = 16;
/// Blocks that share a piece; they walk on where it is longer.
const MOST_BLOCKS: usize = 16;
const THREADS: usize = 256;

/// One copy of whole words of 32 bits; addresses of either memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda) struct Piece {
    pub(in crate::cuda) from: u64,
    pub(in crate::cuda) to: u64,
    pub(in crate::cuda) bytes: usize,
}

/// An array of [`MOST_PIECES`], of which the first ones count.
#[derive(Debug, Clone)]
pub(super) struct Pieces(Vec<Piece>);

impl Field for Pieces {
    const ALIGNMENT: usize = 8;

    fn append(&self, bytes: &mut Vec<u8>) {
        for piece in &self.0 {
            piece.from.append(bytes);
            piece.to.append(bytes);
            (piece.bytes as u64 / 4).append(bytes);
        }
        bytes.resize(bytes.len() + (MOST_PIECES - self.0.len()) * 24, 0);
    }
}

/// The launch that copies up to [`MOST_PIECES`] pieces.
pub(in crate::cuda) fn transfer(pieces: &[Piece]) -> KernelLaunch {
    let words = pieces.iter().map(|piece| piece.bytes / 4).max().unwrap_or(0);
    KernelLaunch {
        kernel: Kernel::Transfer,
        grid: [words.div_ceil(THREADS).clamp(1, MOST_BLOCKS) as u32, pieces.len() as u32, 1],
        threads: THREADS as u32,
        shared_bytes: 0,
        argument: TransferArgument { pieces: Pieces(pieces.to_vec()) }.into(),
        operation: "copying",
    }
}
