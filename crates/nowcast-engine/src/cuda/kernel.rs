//! The kernels: their sources, and where each is found.

use super::weights::Format;

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
    "predicates.cuh",
    "elementary.cuh",
    "random.cuh",
    "linear.cuh",
    "fragments.cuh",
    "linear_cut.cuh",
    "linear_blocked.cuh",
    "linear_warpgroup.cuh",
    "pipeline.cuh",
    "linear_chains.cuh",
    "linear_finish.cuh",
    "linear_scales.cuh",
    "linear_ring.cuh",
    "linear_wide.cuh",
    "linear_links.cuh",
    "linear_inbox.cuh",
    "linear_split_ring.cuh",
    "linear_bands.cuh",
    "linear_streamed.cuh",
    "linear_operands.cuh",
    "linear_clustered.cuh",
    "linear_held.cuh",
    "linear_products.cuh",
    "cluster.cuh",
    "attention.cuh",
    "attention_chains.cuh",
    "attention_operands.cuh",
    "attention_own.cuh",
    "attention_shares.cuh",
    "attention_chunks.cuh",
    "attention_finish.cuh",
    "attention_append.cuh",
    "attention_own_block.cuh",
    "context_operands.cuh",
    "newest_tokens.cuh",
    "attention_paths.cuh",
    "own_tokens.cuh",
    "own_ring.cuh",
    "lane_rows.cuh",
    "attention_rows.cuh",
    "attention_kernels.cuh",
    "attention_projected.cuh",
    "rotary.cuh",
    "running_sums.cuh",
    "statistics.cuh",
    "short_context.cuh",
    "sampling_border.cuh",
    "sampling_chains.cuh",
    "student_t.cuh",
    "token.cuh",
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
    "attention_f32.cu",
    "attention_half.cu",
    "attention.cu",
    "attention_fresh.cu",
    "group_attention.cu",
    "mixture.cu",
    "mixture_quantiles.cu",
    "rows.cu",
    "sort_samples.cu",
    "tokens.cu",
    "sampling.cu",
    "transfer.cu",
];

macro_rules! kernels {
    (
        $($source:literal: $($kernel:ident = $name:literal),*;)*
        of each format: $($product:ident = $stem:literal),*;
    ) => {
        /// A kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kernel {
            $($($kernel,)*)*
            $($product(Format),)*
        }

        impl Kernel {
            pub(super) const ALL: &[Kernel] = &[
                $($(Kernel::$kernel,)*)*
                $(
                    Kernel::$product(Format::Split),
                    Kernel::$product(Format::Half),
                    Kernel::$product(Format::Brain),
                )*
            ];

            /// Name of the entry point.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $($(Kernel::$kernel => $name,)*)*
                    $(
                        Kernel::$product(Format::Split) => concat!($stem, "_f32"),
                        Kernel::$product(Format::Half) => concat!($stem, "_tf32"),
                        Kernel::$product(Format::Brain) => concat!($stem, "_bf16"),
                    )*
                }
            }

            /// File it stands in.
            pub(super) fn source(self) -> &'static str {
                match self {
                    $($(Kernel::$kernel)|* => $source,)*
                    $(Kernel::$product(format))|* => match format {
                        Format::Split => "linear_f32.cu",
                        Format::Half => "linear_tf32.cu",
                        Format::Brain => "linear_bf16.cu",
                    },
                }
            }
        }
    };
}

kernels! {
    "linear_narrow.cu": LinearNarrow = "linear_narrow", LinearNarrowMany = "linear_narrow_many",
        LinearNarrowShort = "linear_narrow_short", LinearNarrowManyShort = "linear_narrow_many_short";
    "linear_skinny.cu":
        LinearSkinny1By4 = "linear_skinny_1_4", LinearSkinny4By4 = "linear_skinny_4_4",
        LinearSkinny8By4 = "linear_skinny_8_4", LinearSkinny1By8 = "linear_skinny_1_8",
        LinearSkinny4By8 = "linear_skinny_4_8", LinearSkinny8By8 = "linear_skinny_8_8";
    "linear_split.cu": LinearSplit = "linear_split";
    "linear_tiled.cu": RowScale = "row_scale", LinearTiled = "linear_tiled";
    "scaler.cu": ScaleContext = "scale_context", ScaleStep = "scale_step",
        ScaleStepOfWarp = "scale_step_of_warp";
    "rotary.cu": RotaryTable = "rotary_table", RotateQuery = "rotate_query",
        AppendOwn = "append_own", AppendContext = "append_context";
    // CHUNK_KERNELS in attention_kernels.cuh.
    "attention_f32.cu":
        Attend64Whole = "attend_64_whole_f32", Attend64By1 = "attend_64_1_f32", Attend64By2 = "attend_64_2_f32",
        Attend64By4 = "attend_64_4_f32",
        Attend128By2 = "attend_128_2_f32", Attend256By2 = "attend_256_2_f32", AttendFew64 = "attend_few_64_f32",
        AttendFew128 = "attend_few_128_f32", AttendFew256 = "attend_few_256_f32",
        AttendPair128 = "attend_pair_128_f32", AttendPair256 = "attend_pair_256_f32",
        CutContext64 = "cut_context_64_f32", CutContext128 = "cut_context_128_f32",
        CutContext256 = "cut_context_256_f32", AttendPaths = "attend_paths_f32",
        AttendRows = "attend_rows_f32",
        AttendCutFew64 = "attend_cut_few_64_f32", AttendCutFew128 = "attend_cut_few_128_f32",
        AttendCutFew256 = "attend_cut_few_256_f32", AttendCutPair128 = "attend_cut_pair_128_f32",
        AttendCutPair256 = "attend_cut_pair_256_f32";
    "attention_half.cu":
        HalfAttend64Whole = "attend_64_whole_half", HalfAttend64By1 = "attend_64_1_half",
        HalfAttend64By2 = "attend_64_2_half", HalfAttend64By4 = "attend_64_4_half",
        HalfAttend128By2 = "attend_128_2_half", HalfAttend256By2 = "attend_256_2_half",
        HalfAttendFew64 = "attend_few_64_half", HalfAttendFew128 = "attend_few_128_half",
        HalfAttendFew256 = "attend_few_256_half", HalfAttendPair128 = "attend_pair_128_half",
        HalfAttendPair256 = "attend_pair_256_half",
        HalfCutContext64 = "cut_context_64_half", HalfCutContext128 = "cut_context_128_half",
        HalfCutContext256 = "cut_context_256_half", HalfAttendPaths = "attend_paths_half",
        HalfAttendRows = "attend_rows_half", PackedAttendRows = "attend_rows_packed",
        HalfAttendCutFew64 = "attend_cut_few_64_half", HalfAttendCutFew128 = "attend_cut_few_128_half",
        HalfAttendCutFew256 = "attend_cut_few_256_half", HalfAttendCutPair128 = "attend_cut_pair_128_half",
        HalfAttendCutPair256 = "attend_cut_pair_256_half";
    "attention.cu": Attention = "attention";
    "group_attention.cu": GroupAttention = "group_attention", GroupAttentionStaged = "group_attention_staged";
    "attention_fresh.cu": AttendFresh = "attend_fresh";
    "mixture.cu":
        ActivateMixture = "activate_mixture", MeanMixture = "mean_mixture", SampleMixture = "sample_mixture";
    "mixture_quantiles.cu": MixtureQuantiles = "mixture_quantiles";
    "rows.cu":
        PrependLabel = "prepend_label", LastRows = "last_rows", OverwriteExogenous = "overwrite_exogenous",
        AddRows = "add_rows", RoundRows = "round_rows", NormRows = "norm_rows", SwiGlu = "swiglu";
    "sort_samples.cu": SortSamples = "sort_samples";
    "tokens.cu": RepeatRows = "repeat_rows", Embed = "embed", QuantiseBits = "quantise_bits";
    "sampling.cu":
        WeighTokens = "weigh_tokens", DrawToken = "draw_token",
        WeighManyTokens = "weigh_many_tokens", DrawOfManyTokens = "draw_of_many_tokens";
    "transfer.cu": Transfer = "transfer", SendAnswer = "send_answer";
    "linear_f32.cu":
        ClusterHeld = "cluster_held_f32", ClusterHeldOperands = "cluster_held_operands_f32", Ring64 = "ring_64_f32";
    "linear_tf32.cu": HalfClusterOperands = "cluster_operands_tf32";
    "linear_bf16.cu": ClusterOperands = "cluster_operands_bf16";
    // FRAGMENT_KERNELS in linear_products.cuh.
    of each format:
        CutRows = "cut_rows", CutGroupedRows = "cut_grouped_rows",
        CutFewRows = "cut_few_rows", CutFewGroupedRows = "cut_few_grouped_rows",
        CutFewBareRows = "cut_few_bare_rows", CutFewBareGroupedRows = "cut_few_bare_grouped_rows",
        Ring176 = "ring_176", Ring128 = "ring_128", Ring96 = "ring_96",
        SplitRing2 = "split_ring_2", SplitRing4 = "split_ring_4",
        Block128By128 = "block_128_128", Block128By96 = "block_128_96", Block64By64 = "block_64_64",
        Block32By32 = "block_32_32", Small32By32 = "small_32_32", Stream = "stream", Cluster = "cluster",
        StreamOperands = "stream_operands",
        ProjectAndAttend = "project_and_attend";
}

impl Kernel {
    /// Whether the kernel behind may start before this one is done: not where those behind look at what it leaves before
    /// they wait for others, as all do at live extents and paths at contexts that are cut.
    pub(super) fn lets_next_start(self) -> bool {
        let cuts_context = matches!(
            self,
            Self::CutContext64
                | Self::CutContext128
                | Self::CutContext256
                | Self::HalfCutContext64
                | Self::HalfCutContext128
                | Self::HalfCutContext256
        );
        !cuts_context && self != Self::Transfer
    }

    /// Place in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        Self::ALL.iter().position(|&kernel| kernel == self).expect("ALL has every kernel")
    }
}
