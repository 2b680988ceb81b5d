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
pub(super) const HEADERS: &[Source] = sources![
    "plan.cuh",
    "elementary.cuh",
    "random.cuh",
    "linear.cuh",
    "fragments.cuh",
    "linear_warpgroup.cuh",
    "linear_blocked.cuh",
    "linear_streamed.cuh",
    "linear_clustered.cuh",
    "linear_products.cuh",
    "cluster.cuh",
    "attention.cuh",
    "rotary.cuh",
];

/// All files with kernels.
pub(super) const SOURCES: &[Source] = sources![
    "linear_f32.cu",
    "linear_tf32.cu",
    "linear_bf16.cu",
    "linear_narrow.cu",
    "linear_skinny.cu",
    "linear_split.cu",
    "linear_tiled.cu",
    "scaler.cu",
    "rotary.cu",
    "attention_chunked.cu",
    "attention.cu",
    "attention_fresh.cu",
    "mixture.cu",
    "rows.cu",
    "tokens.cu",
    "sampling.cu",
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
    "linear_f32.cu":
        CutRowsF32 = "cut_rows_f32", CutGroupedRowsF32 = "cut_grouped_rows_f32", Group128By128F32 = "group_128_128_f32", Group96By128F32 = "group_96_128_f32", Group64By128F32 = "group_64_128_f32", Block128By128F32 = "block_128_128_f32", Block128By96F32 = "block_128_96_f32",
        Block64By64F32 = "block_64_64_f32", Block32By32F32 = "block_32_32_f32", Small32By32F32 = "small_32_32_f32", StreamF32 = "stream_f32", ClusterF32 = "cluster_f32";
    "linear_tf32.cu":
        CutRowsTf32 = "cut_rows_tf32", CutGroupedRowsTf32 = "cut_grouped_rows_tf32", Group128By128Tf32 = "group_128_128_tf32", Group96By128Tf32 = "group_96_128_tf32", Group64By128Tf32 = "group_64_128_tf32", Block128By128Tf32 = "block_128_128_tf32",
        Block128By96Tf32 = "block_128_96_tf32", Block64By64Tf32 = "block_64_64_tf32",
        Block32By32Tf32 = "block_32_32_tf32", Small32By32Tf32 = "small_32_32_tf32", StreamTf32 = "stream_tf32", ClusterTf32 = "cluster_tf32";
    "linear_bf16.cu":
        CutRowsBf16 = "cut_rows_bf16", CutGroupedRowsBf16 = "cut_grouped_rows_bf16", Group128By128Bf16 = "group_128_128_bf16", Group96By128Bf16 = "group_96_128_bf16", Group64By128Bf16 = "group_64_128_bf16", Block128By128Bf16 = "block_128_128_bf16",
        Block128By96Bf16 = "block_128_96_bf16", Block64By64Bf16 = "block_64_64_bf16",
        Block32By32Bf16 = "block_32_32_bf16", Small32By32Bf16 = "small_32_32_bf16", StreamBf16 = "stream_bf16", ClusterBf16 = "cluster_bf16";
    "linear_narrow.cu": LinearNarrow = "linear_narrow";
    "linear_skinny.cu":
        LinearSkinny1By4 = "linear_skinny_1_4", LinearSkinny4By4 = "linear_skinny_4_4",
        LinearSkinny8By4 = "linear_skinny_8_4", LinearSkinny1By8 = "linear_skinny_1_8",
        LinearSkinny4By8 = "linear_skinny_4_8", LinearSkinny8By8 = "linear_skinny_8_8";
    "linear_split.cu": LinearSplit = "linear_split";
    "linear_tiled.cu": RowScale = "row_scale", LinearTiled = "linear_tiled";
    "scaler.cu": ScaleContext = "scale_context", ScaleStep = "scale_step";
    "rotary.cu": RotaryTable = "rotary_table", RotateQuery = "rotate_query", AppendCache = "append_cache";
    "attention_chunked.cu":
        AttendTile64 = "attend_tile_64", AttendTile128 = "attend_tile_128", AttendTile256 = "attend_tile_256",
        AttendRow64 = "attend_row_64", AttendRow128 = "attend_row_128", AttendRow256 = "attend_row_256";
    "attention.cu": Attention = "attention", GroupAttention = "group_attention";
    "attention_fresh.cu": AttendFresh = "attend_fresh";
    "mixture.cu":
        ActivateMixture = "activate_mixture", MeanMixture = "mean_mixture", SampleMixture = "sample_mixture";
    "rows.cu":
        PrependLabel = "prepend_label", LastRow = "last_row", OverwriteExogenous = "overwrite_exogenous",
        AddRows = "add_rows", NormRows = "norm_rows", SwiGlu = "swiglu";
    "tokens.cu":
        RepeatRows = "repeat_rows", Embed = "embed", QuantiseBits = "quantise_bits";
    "sampling.cu": WeighTokens = "weigh_tokens", DrawToken = "draw_token";
    "transfer.cu": Transfer = "transfer";
}
