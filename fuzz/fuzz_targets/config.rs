//! Any text as a config.json: no panic, and whatever is accepted is within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nowcast::toto::config::TotoConfig;

fuzz_target!(|text: &str| {
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
