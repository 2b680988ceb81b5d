//! Copies between the host's memory and the device's that kernels make.

use crate::cuda::argument::{Field, KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::cuda::machine::KernelLaunch;

argument! {
    /// `Transfer` in transfer.cu.
    TransferArgument { pieces: Pieces }
}

argument! {
    /// `Answer` in transfer.cu.
    AnswerArgument { from: u64, to: u64, not_finite: u64, live: u64, rows: KernelRows, width: i32 }
}

/// Pieces of one launch; `MOST_TRANSFERS` in transfer.cu.
pub(in crate::cuda) const MOST_PIECES: usize = 16;
/// Blocks that share a piece; they walk on where it is longer.
const MOST_BLOCKS: usize = 16;
const THREADS: usize = 256;
/// Blocks that send an answer: more than the bus needs.
const ANSWER_BLOCKS: usize = 128;

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

/// A large tensor that goes to a place of the host's memory which another address names.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda) struct Sent {
    pub(in crate::cuda) from: u64,
    /// Where its place is named.
    pub(in crate::cuda) to: u64,
    /// What becomes 1 if a live value is not finite.
    pub(in crate::cuda) not_finite: u64,
    /// The live extents.
    pub(in crate::cuda) live: u64,
    pub(in crate::cuda) rows: KernelRows,
    pub(in crate::cuda) width: i32,
}

/// The launch that sends a large tensor.
pub(in crate::cuda) fn send_answer(sent: &Sent) -> KernelLaunch {
    let Sent { from, to, not_finite, live, rows, width } = *sent;
    KernelLaunch {
        kernel: Kernel::SendAnswer,
        grid: [ANSWER_BLOCKS as u32, 1, 1],
        threads: THREADS as u32,
        shared_bytes: 0,
        argument: AnswerArgument { from, to, not_finite, live, rows, width }.into(),
        operation: "copying an answer",
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
