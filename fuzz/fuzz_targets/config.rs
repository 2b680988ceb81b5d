//! Any text as a config.json: no panic, and whatever is accepted is within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nowcast::kronos::config::{PredictorConfig, TokenizerConfig};
use nowcast::toto::config::TotoConfig;

fuzz_target!(|text: &str| {
    if let Ok(config) = PredictorConfig::from_json(text) {
        assert_eq!(config.transformer.heads * config.transformer.head_dim(), config.transformer.width);
        assert!(config.blocks > 0 && config.bits.vocabularies().iter().all(|&size| size <= 1 << 16));
        assert!(config.parameters() > 0 && config.default_max_context() > 0);
    }
    if let Ok(config) = TokenizerConfig::from_json(text) {
        assert!(config.transformer.head_dim().is_multiple_of(2) && config.parameters() > 0);
    }
    match TotoConfig::from_json(text) {
        Ok(config) => {
            assert_eq!(config.heads * config.head_dim, config.embed_dim);
            assert!(config.head_dim.is_multiple_of(2) && !config.layers.is_empty());
            assert!((1..=1_000).contains(&config.head.components()));
            assert!(config.parameters() <= 100_000_000_000);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.chars().count() <= 601, "{line:?}");
        }
    }
});
