use serde_json::Map;

use super::*;

/// The arguments of Datadog/Toto-Open-Base-1.0 in the published format.
const PUBLISHED: &str = r#"{
    "dropout": 0.1, "embed_dim": 768, "mlp_hidden_dim": 3072, "num_heads": 12, "num_layers": 12,
    "output_distribution_classes": ["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
    "output_distribution_kwargs": {"k_components": 24}, "patch_size": 64, "scale_factor_exponent": 10.0,
    "scaler_cls": "<class 'model.scaler.CausalPatchStdMeanScaler'>", "spacewise_every_n_layers": 12,
    "spacewise_first": false, "stabilize_with_global": true, "stride": 64, "use_memory_efficient_attention": true
}"#;

/// The published text with one field replaced, or removed when `value` is `None`.
fn with(field: &str, value: Option<Value>) -> String {
    let mut fields: Map<String, Value> = serde_json::from_str(PUBLISHED).unwrap();
    match value {
        Some(value) => fields.insert(field.into(), value),
        None => fields.remove(field),
    };
    Value::Object(fields).to_string()
}

fn parse(field: &str, json: &str) -> Result<TotoConfig> {
    TotoConfig::from_json(&with(field, Some(serde_json::from_str(json).unwrap())))
}

#[test]
fn the_published_model_has_its_published_size() {
    let config = TotoConfig::from_json(PUBLISHED).unwrap();
    let mut layers = vec![LayerKind::Time; 12];
    layers[11] = LayerKind::Space;
    let expected = TotoConfig {
        patch_size: 64,
        embed_dim: 768,
        layers,
        heads: 12,
        head_dim: 64,
        mlp_hidden: 3072,
        scaler: Scaler::CausalPatch { stabilise_exponent: Some(10.0) },
        head: Head::Mixture { components: 24 },
    };
    assert_eq!(config, expected);
    assert_eq!(config.parameters(), 151_306_080);
}

#[test]
fn optional_fields_have_the_defaults_of_the_reference() {
    let without = |field| TotoConfig::from_json(&with(field, None)).unwrap();
    let published = TotoConfig::from_json(PUBLISHED).unwrap();
    for field in ["stabilize_with_global", "scale_factor_exponent", "dropout", "use_memory_efficient_attention"] {
        assert_eq!(without(field), published, "{field}");
    }
    assert_eq!(without("spacewise_first").layers[0], LayerKind::Space);
    assert_eq!(parse("unknown", "[1]").unwrap(), published);
}

#[test]
fn layers_repeat_in_blocks_with_one_spacewise_layer() {
    use LayerKind::{Space, Time};
    let layers = |count: &str, every: &str, first: &str| {
        let text = with("num_layers", Some(serde_json::from_str(count).unwrap()));
        let mut fields: Map<String, Value> = serde_json::from_str(&text).unwrap();
        fields.insert("spacewise_every_n_layers".into(), serde_json::from_str(every).unwrap());
        fields.insert("spacewise_first".into(), serde_json::from_str(first).unwrap());
        TotoConfig::from_json(&Value::Object(fields).to_string()).map(|config| config.layers)
    };
    assert_eq!(layers("4", "2", "false").unwrap(), [Time, Space, Time, Space]);
    assert_eq!(layers("4", "2", "true").unwrap(), [Space, Time, Space, Time]);
    assert_eq!(layers("3", "3", "false").unwrap(), [Time, Time, Space]);
    assert_eq!(layers("2", "1", "false").unwrap(), [Space, Space]);
    assert_eq!(layers("3", "-1", "true").unwrap(), [Time, Time, Time]);
    for every in ["2", "0", "-2", "6", "1.5", "null", "18446744073709551615"] {
        let line = layers("3", every, "false").unwrap_err().to_string();
        assert_eq!(
            line,
            format!("config.json spacewise_every_n_layers is {every}, allowed: -1 or a divisor of num_layers, 3")
        );
    }
}

#[test]
fn scalers_and_heads_go_by_their_class() {
    let scaler = |class: &str| parse("scaler_cls", &format!("{class:?}")).map(|config| config.scaler);
    assert_eq!(scaler("<class 'model.scaler.CausalStdMeanScaler'>").unwrap(), Scaler::Causal);
    assert_eq!(scaler("<class 'toto.model.scaler.StdMeanScaler'>").unwrap(), Scaler::Global);
    assert_eq!(scaler("StdMeanScaler").unwrap(), Scaler::Global);
    assert_eq!(
        parse("stabilize_with_global", "false").unwrap().scaler,
        Scaler::CausalPatch { stabilise_exponent: None }
    );
    assert_eq!(
        parse("scale_factor_exponent", "0.25").unwrap().scaler,
        Scaler::CausalPatch { stabilise_exponent: Some(0.25) }
    );
    let classes = r#"["<class 'toto.model.distribution.StudentTOutput'>", "ignored"]"#;
    let single = parse("output_distribution_classes", classes).unwrap();
    assert_eq!((single.head, single.head.components()), (Head::StudentT, 1));
    // Three heads of one output instead of four of 24.
    assert_eq!(single.parameters(), 151_306_080 - 4 * 769 * 24 + 3 * 769);
}

#[test]
fn every_fault_names_field_value_and_what_is_allowed() {
    let cases = [
        ("patch_size", "0", "patch_size is 0, allowed: 1 to 4096"),
        ("patch_size", "-64", "patch_size is -64, allowed: 1 to 4096"),
        ("patch_size", "64.0", "patch_size is 64.0, allowed: 1 to 4096"),
        ("patch_size", "\"64\"", "patch_size is \"64\", allowed: 1 to 4096"),
        ("stride", "32", "stride is 32, allowed: the patch_size, 64"),
        ("embed_dim", "0", "embed_dim is 0, allowed: 2 to 65536"),
        ("embed_dim", "18446744073709551616", "embed_dim is 1.8446744073709552e+19, allowed: 2 to 65536"),
        ("embed_dim", "770", "num_heads is 12, allowed: a divisor of embed_dim, 770"),
        ("embed_dim", "780", "embed_dim / num_heads is 780 / 12 = 65, allowed: an even number"),
        ("num_heads", "0", "num_heads is 0, allowed: 1 to 1024"),
        ("num_heads", "1025", "num_heads is 1025, allowed: 1 to 1024"),
        ("num_layers", "0", "num_layers is 0, allowed: 1 to 1000"),
        ("num_layers", "1001", "num_layers is 1001, allowed: 1 to 1000"),
        ("mlp_hidden_dim", "0", "mlp_hidden_dim is 0, allowed: 1 to 262144"),
        ("spacewise_first", "1", "spacewise_first is 1, allowed: true or false"),
        ("stabilize_with_global", "\"yes\"", "stabilize_with_global is \"yes\", allowed: true or false"),
        ("scale_factor_exponent", "-1", "scale_factor_exponent is -1, allowed: 0 to 300"),
        ("scale_factor_exponent", "1e9", "scale_factor_exponent is 1000000000.0, allowed: 0 to 300"),
        ("scale_factor_exponent", "null", "scale_factor_exponent is null, allowed: 0 to 300"),
        ("scaler_cls", "\"MinMaxScaler\"", "scaler_cls is \"MinMaxScaler\", allowed: CausalPatchStdMeanScaler"),
        ("scaler_cls", "3", "scaler_cls is 3, allowed: CausalPatchStdMeanScaler"),
        ("output_distribution_classes", "[]", "output_distribution_classes is [], allowed: a list that starts"),
        ("output_distribution_classes", "[\"Normal\"]", "output_distribution_classes is [\"Normal\"], allowed"),
        ("output_distribution_kwargs", "null", "has no output_distribution_kwargs.k_components"),
        (
            "output_distribution_kwargs",
            "{\"k_components\": 1001}",
            "output_distribution_kwargs.k_components is 1001, allowed: 1 to 1000",
        ),
    ];
    for (field, value, expected) in cases {
        let line = parse(field, value).unwrap_err().to_string();
        assert!(line.starts_with(&format!("config.json {expected}")), "{field} {value}: {line}");
    }
    for field in ["patch_size", "stride", "embed_dim", "num_layers", "num_heads", "mlp_hidden_dim", "scaler_cls"] {
        let line = TotoConfig::from_json(&with(field, None)).unwrap_err().to_string();
        assert_eq!(line, format!("config.json has no {field}: it does not describe a Toto 1.0 model"));
    }
}

#[test]
fn text_that_is_no_config_is_refused() {
    let cases = [
        ("", "is not a JSON object: EOF"),
        ("[]", "is not a JSON object: invalid type: sequence"),
        ("{\"scale_factor_exponent\": NaN}", "is not a JSON object: expected value"),
        ("{\"scale_factor_exponent\": 1e999}", "is not a JSON object: number out of range"),
        ("{}", "has no patch_size"),
    ];
    for (text, expected) in cases {
        let line = TotoConfig::from_json(text).unwrap_err().to_string();
        assert!(line.starts_with(&format!("config.json {expected}")), "{text}: {line}");
    }
    let nested = "[".repeat(100_000);
    assert!(TotoConfig::from_json(&nested).is_err());
    let long = parse("scaler_cls", &format!("{:?}", "x".repeat(100_000))).unwrap_err().to_string();
    assert!(long.chars().count() <= 601, "{} characters", long.chars().count());
}

#[test]
fn sizes_that_are_allowed_alone_can_be_too_much_together() {
    let text = PUBLISHED
        .replace("\"embed_dim\": 768", "\"embed_dim\": 65536")
        .replace("\"num_heads\": 12", "\"num_heads\": 16")
        .replace("\"patch_size\": 64", "\"patch_size\": 4096")
        .replace("\"stride\": 64", "\"stride\": 4096");
    let line = TotoConfig::from_json(&text).unwrap_err().to_string();
    assert!(line.starts_with("config.json describes ") && line.ends_with("allowed: at most 100000000000"), "{line}");
}
