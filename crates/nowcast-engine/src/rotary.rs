//! Rotary position embeddings and xPos, as tables.

/// How components of a head are paired for the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Components `2i` and `2i + 1` (Toto).
    Interleaved,
    /// Components `i` and `i + head_dim / 2` (Kronos).
    HalfSplit,
}

/// A rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotary {
    /// Components of one head; even.
    pub head_dim: usize,
    /// How components are paired.
    pub pairing: Pairing,
    /// Whether queries and keys also carry the xPos decay with this scale base (Toto: 512).
    pub xpos_scale_base: Option<f32>,
}

const BASE: f64 = 10_000.0;

impl Rotary {
    /// Frequency of a pair with the reference's f32 roundings: of the exponent, of the power, of its inverse.
    fn frequency(&self, pair: usize) -> f64 {
        let exponent = (2 * pair) as f32 / self.head_dim as f32;
        f64::from(1.0 / (BASE.powf(f64::from(exponent)) as f32))
    }

    /// xPos base of component `j` with the reference's f32 roundings: concatenated, not interleaved, in Toto 1.0.
    fn decay(&self, component: usize) -> f64 {
        let pair = component % (self.head_dim / 2);
        let width = self.head_dim as f64;
        f64::from(((2 * pair) as f32 + (0.4 * width) as f32) / (1.4 * width) as f32)
    }

    /// What a table is made of: the frequency of every pair, then the xPos base of every component.
    pub(crate) fn constants(&self) -> impl Iterator<Item = f64> {
        let frequencies = (0..self.head_dim / 2).map(|pair| self.frequency(pair));
        frequencies.chain((0..self.head_dim).map(|component| self.decay(component)))
    }

    /// Rows of the table, `4 head_dim` values each, of the positions from `first` on: query cosine, query sine, key
    /// cosine, key sine.
    ///
    /// Sines carry the sign of their component's formula, so that every component is
    /// `x[j] · cosine[j] + x[partner of j] · sine[j]`.
    ///
    /// `anchor` is the xPos origin: half of the largest position of the reference's forward call.
    pub fn fill_rows(&self, first: usize, anchor: usize, rows: &mut [f32]) {
        let width = self.head_dim;
        for pair in 0..width / 2 {
            let frequency = self.frequency(pair);
            let components = match self.pairing {
                Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                Pairing::HalfSplit => [pair, pair + width / 2],
            };
            for (index, row) in rows.chunks_exact_mut(4 * width).enumerate() {
                let position = (first + index) as f64;
                let (sine, cosine) = (position * frequency).sin_cos();
                for (component, sine) in components.into_iter().zip([-sine, sine]) {
                    let factor = match self.xpos_scale_base {
                        Some(base) => self.decay(component).powf((position - anchor as f64) / f64::from(base)),
                        None => 1.0,
                    };
                    row[component] = (cosine * factor) as f32;
                    row[width + component] = (sine * factor) as f32;
                    row[2 * width + component] = (cosine / factor) as f32;
                    row[3 * width + component] = (sine / factor) as f32;
                }
            }
        }
    }

    /// Rotates one head in place by a cosine row and a sine row of the table.
    #[inline(always)]
    pub fn rotate(&self, head: &mut [f32], cosine: &[f32], sine: &[f32]) {
        match self.pairing {
            Pairing::Interleaved => {
                let factors = cosine.chunks_exact(2).zip(sine.chunks_exact(2));
                for (pair, (cosine, sine)) in head.chunks_exact_mut(2).zip(factors) {
                    let (a, b) = (pair[0], pair[1]);
                    pair[0] = a * cosine[0] + b * sine[0];
                    pair[1] = b * cosine[1] + a * sine[1];
                }
            }
            Pairing::HalfSplit => {
                let half = self.head_dim / 2;
                let (first, second) = head.split_at_mut(half);
                for (index, (a, b)) in first.iter_mut().zip(second).enumerate() {
                    let (x, y) = (*a, *b);
                    *a = x * cosine[index] + y * sine[index];
                    *b = y * cosine[half + index] + x * sine[half + index];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_row(rotary: &Rotary, position: usize, anchor: usize) -> Vec<f32> {
        let mut row = vec![f32::NAN; 4 * rotary.head_dim];
        rotary.fill_rows(position, anchor, &mut row);
        row
    }

    #[test]
    fn position_zero_without_decay_changes_nothing() {
        let rotary = Rotary { head_dim: 6, pairing: Pairing::Interleaved, xpos_scale_base: None };
        let row = table_row(&rotary, 0, 0);
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        rotary.rotate(&mut head, &row[..6], &row[6..12]);
        assert_eq!(head, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn rotation_agrees_with_the_formula_in_f64() {
        for (pairing, xpos) in [(Pairing::Interleaved, Some(512.0)), (Pairing::HalfSplit, None)] {
            let rotary = Rotary { head_dim: 10, pairing, xpos_scale_base: xpos };
            let row = table_row(&rotary, 17, 9);
            let head: Vec<f32> = (0..10).map(|i| (i as f32 * 1.3).cos()).collect();
            let mut out = head.clone();
            rotary.rotate(&mut out, &row[..10], &row[10..20]);
            for pair in 0..5 {
                let (i, j) = if pairing == Pairing::Interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + 5) };
                let angle = 17.0 * 10_000f64.powf(-2.0 * pair as f64 / 10.0);
                let zeta = |component: usize| match xpos {
                    Some(_) => ((2.0 * (component % 5) as f64 + 4.0) / 14.0).powf(8.0 / 512.0),
                    None => 1.0,
                };
                let (a, b) = (f64::from(head[i]), f64::from(head[j]));
                // f32 frequencies are off by 6e-8 relative, times 17 positions; products add 3 roundings.
                let limit = 17.0 * 6e-8 + 4.0 * 6e-8;
                assert!((f64::from(out[i]) - (a * angle.cos() - b * angle.sin()) * zeta(i)).abs() < 2.0 * limit);
                assert!((f64::from(out[j]) - (b * angle.cos() + a * angle.sin()) * zeta(j)).abs() < 2.0 * limit);
            }
        }
    }

    #[test]
    fn scores_do_not_depend_on_a_shared_anchor() {
        let rotary = Rotary { head_dim: 8, pairing: Pairing::Interleaved, xpos_scale_base: Some(512.0) };
        let score = |anchor| {
            let (query, key) = (table_row(&rotary, 30, anchor), table_row(&rotary, 12, anchor));
            let head = [0.5f32, -1.0, 0.25, 2.0, 1.5, -0.5, 0.75, 1.0];
            let (mut q, mut k) = (head, head);
            rotary.rotate(&mut q, &query[..8], &query[8..16]);
            rotary.rotate(&mut k, &key[16..24], &key[24..]);
            q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(b)).sum::<f64>()
        };
        assert!((score(0) - score(15)).abs() < 8.0 * 4.0 * 1.2e-7);
    }
}
