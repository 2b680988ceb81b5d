//! The kernels: their sources, and where each is found.

/// One file of kernels, compiled by itself.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(Source { name: $name, text: include_str!(concat!("kernels/", $name)) }),*]
    };
}

/// What the sources include.
pub(super) const HEADERS: &[Source] = sources!["plan.cuh", "elementary.cuh", "random.cuh", "linear.cuh"];

/// All files with kernels.
pub(super) const SOURCES: &[Source] = sources![
    "linear_narrow.cu",
    "linear_skinny.cu",
    "linear_split.cu",
    "linear_tiled.cu",
    "scaler.cu",
    "rotary.cu",
    "attention.cu",
    "mixture.cu",
    "rows.cu",
    "tokens.cu",
    "transfer.cu",
];

macro_rules! kernels {
    ($($source:literal: $($kernel:ident = $name:literal),*;)*) => {
        /// A kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kernel { $($($kernel),*),* }

        impl Kernel {
            /// All of them, in the order of their discriminants.
            pub(super) const ALL: &[Kernel] = &[$($(Kernel::$kernel),*),*];

            /// Name of the entry point.
            pub(super) fn name(self) -> &'static str {
                match self { $($(Kernel::$kernel => $name),*),* }
            }

            /// File it stands in.
            pub(super) fn source(self) -> &'static str {
                match self { $($(Kernel::$kernel => $source),*),* }
            }
        }
    };
}

kernels! {
    "linear_narrow.cu": LinearNarrow = "linear_narrow";
    "linear_skinny.cu":
        LinearSkinny1By4 = "linear_skinny_1_4", LinearSkinny4By4 = "linear_skinny_4_4",
        LinearSkinny8By4 = "linear_skinny_8_4", LinearSkinny1By8 = "linear_skinny_1_8",
        LinearSkinny4By8 = "linear_skinny_4_8", LinearSkinny8By8 = "linear_skinny_8_8";
    "linear_split.cu": LinearSplit = "linear_split";
    "linear_tiled.cu": RowScale = "row_scale", LinearTiled = "linear_tiled";
    "scaler.cu": ScaleContext = "scale_context", ScaleStep = "scale_step";
    "rotary.cu": RotaryTable = "rotary_table", RotateQuery = "rotate_query", AppendCache = "append_cache";
    "attention.cu": Attention = "attention", GroupAttention = "group_attention";
    "mixture.cu":
        ActivateMixture = "activate_mixture", MeanMixture = "mean_mixture", SampleMixture = "sample_mixture";
    "rows.cu":
        PrependLabel = "prepend_label", LastRow = "last_row", OverwriteExogenous = "overwrite_exogenous",
        AddRows = "add_rows", NormRows = "norm_rows", SwiGlu = "swiglu";
    "tokens.cu":
        RepeatRows = "repeat_rows", Embed = "embed", QuantiseBits = "quantise_bits", WeighTokens = "weigh_tokens",
        DrawToken = "draw_token";
    "transfer.cu": Transfer = "transfer";
}
