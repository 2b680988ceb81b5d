//! What a model predicts at each position of a patch.

/// The distribution of one time step, as raw values of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Head {
    /// One Student-t distribution: three values, no logits.
    StudentT,
    /// A mixture of Student-t distributions: four values per component.
    Mixture {
        /// Number of components K.
        components: usize,
    },
}

impl Head {
    /// Number of components K.
    pub fn components(self) -> usize {
        match self {
            Head::StudentT => 1,
            Head::Mixture { components } => components,
        }
    }

    /// Number of raw values at one position.
    pub fn values(self) -> usize {
        match self {
            Head::StudentT => 3,
            Head::Mixture { components } => components.saturating_mul(4),
        }
    }
}
