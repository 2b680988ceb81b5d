//! Weights fetched ahead of their use, spread over the steps of the register tiles that come before.

use super::PANEL;
use crate::cpu::tile::LINE;
use crate::cpu::vector::Vector;

/// How many inputs ahead weights are fetched, at least: in f32 32 KiB, about what memory delivers during one latency and
/// more.
const AHEAD: usize = 256;

/// What every tile fetches of the weights behind those that it reads; found once for a block of rows, because a division
/// for each tile would hold up the one behind it.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Cache lines of a tile.
    lines: usize,
    /// Cache lines at a time.
    burst: usize,
    /// Words ahead.
    ahead: usize,
}

/// The share of one tile.
#[derive(Clone, Copy)]
pub(super) struct Prefetch {
    /// It need not be readable.
    next: *const f32,
    lines: usize,
    burst: usize,
}

impl Share {
    /// The words of so many inputs of a panel shared out among `tiles`, each of which asks `bursts` times.
    #[inline(always)]
    pub(super) fn of(inputs: usize, per_word: usize, tiles: usize, bursts: usize) -> Self {
        let words = inputs.div_ceil(per_word) * PANEL;
        let lines = words.div_ceil(LINE).div_ceil(tiles);
        // Where several tiles read the same words, what comes next begins behind all of them.
        let ahead = if tiles > 1 { AHEAD.max(inputs) } else { AHEAD };
        Self { lines, burst: lines.div_ceil(bursts.max(1)), ahead: ahead.div_ceil(per_word) * PANEL }
    }

    /// What a tile fetches while all tiles read `words`.
    #[inline(always)]
    pub(super) fn of_tile(self, tile: usize, words: &[u32]) -> Prefetch {
        let next = words.as_ptr().wrapping_add(self.ahead + tile * self.lines * LINE).cast();
        Prefetch { next, lines: self.lines, burst: self.burst }
    }
}

impl Prefetch {
    /// Lines of the two halves of a burst: asked for evenly, they come a few hundredths faster than all at once. Where one
    /// is enough the second half costs next to nothing.
    #[inline(always)]
    pub(super) fn halves(&self) -> [usize; 2] {
        [self.burst.div_ceil(2), self.burst / 2]
    }

    /// Asks for the next few lines, until the share is used up and for its last line from then on: a branch that is taken
    /// for the first time in the midst of a tile would cost more.
    #[inline(always)]
    pub(super) fn fetch<V: Vector>(&mut self, lines: usize) {
        for _ in 0..lines {
            V::prefetch(self.next);
            let more = usize::from(self.lines > 1);
            self.lines -= more;
            self.next = self.next.wrapping_add(more * LINE);
        }
    }
}
