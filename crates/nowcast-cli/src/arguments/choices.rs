//! The choices of flags that take one of a few names.

use clap::ValueEnum;
use nowcast::device::Dtype;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecodeName {
    /// Samples, or the exact mixture within one patch
    Sample,
    /// The mean path
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum XposName {
    /// As the reference's default, with its KV cache
    Cached,
    /// As in training, without a KV cache
    Uncached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilterName {
    /// As the reference: top-k wins, and top-p is not applied
    Reference,
    /// Top-k, then top-p among what is left
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WindowName {
    /// As the reference: the window is computed anew for every bar
    Exact,
    /// Old keys and values are dropped and the others stay: faster, not the reference's digits
    Streaming,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Operation by operation, unfused and unfolded: the accuracy baseline
    Eager,
    /// Folded weights, fused kernels, shared context, static plan
    Default,
    /// As default; on a GPU one graph launch per forecast
    ReduceOverhead,
    /// As reduce-overhead, with measured choices
    MaxAutotune,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DtypeName {
    /// 32-bit floats, the exact default
    F32,
    /// The 11 significant bits of a GPU's TF32, sums in f32
    Tf32,
    /// 16-bit weights and inputs of products, sums in f32
    Bf16,
    /// 8-bit weights and inputs of products, integer sums
    Int8,
}

impl From<DtypeName> for Dtype {
    fn from(name: DtypeName) -> Self {
        match name {
            DtypeName::F32 => Self::F32,
            DtypeName::Tf32 => Self::Tf32,
            DtypeName::Bf16 => Self::Bf16,
            DtypeName::Int8 => Self::Int8,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogName {
    /// Plans written, reused and given up
    Plans,
    /// Graphs recorded and launched (GPU)
    Graphs,
    /// Weights and plans that take memory or give it back
    Memory,
    /// How long each candidate took where max-autotune measured (GPU)
    Choices,
}

impl LogName {
    pub(crate) const ALL: [Self; 4] = [Self::Plans, Self::Graphs, Self::Memory, Self::Choices];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyName {
    /// Toto 1.0
    Toto,
    /// Kronos
    Kronos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CalendarName {
    /// 365 where there are bars on weekends, else 252
    Auto,
    /// Trading days of stocks
    #[value(name = "252")]
    Trading,
    /// Every day: crypto, weather, loads
    #[value(name = "365")]
    Every,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputName {
    /// Aligned columns for people
    Table,
    /// One row per series and step
    Csv,
    /// One object, numbers exact
    Json,
    /// The columns of the CSV
    #[cfg(feature = "parquet")]
    Parquet,
}

/// A choice as the command line spells it.
pub(crate) fn spelled(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_print_as_they_parse() {
        assert_eq!(spelled(&ModeName::ReduceOverhead), "reduce-overhead");
        for name in DtypeName::value_variants() {
            assert_eq!(spelled(name), Dtype::from(*name).name());
        }
    }
}
