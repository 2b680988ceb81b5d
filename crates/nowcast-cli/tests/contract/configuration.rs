//! Settings beside the command line: which one wins, what is said about wrong ones, and how they are explained.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::answer::{parse, succeed, vix};
use crate::program::{Call, Run, model};

/// A folder with a `nowcast.toml`.
fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nowcast.toml"), text).unwrap();
    folder
}

/// The value and the origin of a flag.
fn explained(call: Call, flag: &str) -> (Value, String) {
    let answer = parse(&succeed(call));
    let settings = answer["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["flag"] == flag).unwrap_or_else(|| panic!("{flag}: {answer}"));
    (found["value"].clone(), found["origin"].as_str().unwrap().to_string())
}

fn config(flags: &[&str]) -> Call {
    Call::new(&[&["config", "--json", "forecast"], flags].concat())
}

#[test]
fn flags_win_over_variables_and_those_over_files_presets_and_defaults() {
    let here = folder("preset = \"production\"\n[forecast]\nmode = \"default\"\n");
    let preset_only = folder("preset = \"production\"");
    let mode = |call: Call| explained(call, "mode");
    let (all, old) = (("NOWCAST_MODE", "reduce-overhead"), ("TOTO_COMPILE", "0"));
    let call = |flags: &[&str]| config(flags).within(here.path());
    let (value, origin) = mode(call(&["--mode", "eager"]).variable(all.0, all.1));
    assert_eq!((value.as_str(), origin.as_str()), (Some("eager"), "flag"));
    let (value, origin) = mode(call(&[]).variable(all.0, all.1).variable(old.0, old.1));
    assert_eq!((value.as_str(), origin.as_str()), (Some("reduce-overhead"), "variable NOWCAST_MODE"));
    let (value, origin) = mode(call(&[]).variable(old.0, old.1));
    assert_eq!((value.as_str(), origin.as_str()), (Some("eager"), "variable TOTO_COMPILE"));
    let (value, origin) = mode(call(&[]));
    assert_eq!(value, "default");
    assert!(origin.ends_with("nowcast.toml"), "{origin}");
    let (value, origin) = mode(config(&[]).within(preset_only.path()));
    assert_eq!((value.as_str(), origin.as_str()), (Some("max-autotune"), "preset production"));
    let (value, origin) = mode(call(&["--no-config"]));
    assert_eq!((value, origin.as_str()), (Value::Null, "default"));
}

#[test]
fn a_file_completes_a_command_line() {
    let text =
        format!("model = {:?}\nhorizon = 3\nquantiles = [0.25, 0.5]\ntop_k = 5\n[forecast]\nhorizon = 2\n", model());
    let here = folder(&text);
    let beneath = here.path().join("beneath");
    fs::create_dir(&beneath).unwrap();
    let line = ["forecast", &vix(), "--columns", "close", "--context", "64", "--output", "json"];
    // The file of a folder above counts; what only Kronos knows is no mistake there, for it is meant for every model.
    let answer = parse(&succeed(Call::new(&line).within(&beneath)));
    assert_eq!(answer["horizon"], 2);
    let levels: Vec<&String> = answer["series"][0]["quantiles"].as_object().unwrap().keys().collect();
    assert_eq!(levels, ["0.25", "0.5"]);
    // On the command line, and as a variable, it is one.
    let refused = |call: Call| {
        let Run { code, stderr, .. } = call.run();
        assert_eq!(code, Some(2));
        assert!(stderr.starts_with("error: --top-k: only Kronos models know it"), "{stderr}");
    };
    refused(Call::new(&[&line[..], &["--top-k", "5"]].concat()).within(&beneath));
    refused(Call::new(&line).within(&beneath).variable("NOWCAST_TOP_K", "5"));
}

#[test]
fn every_preset_fits_the_program_and_files_may_bring_their_own() {
    for preset in ["production", "development", "validation"] {
        let (mode, origin) = explained(config(&["--preset", preset]), "mode");
        assert!(mode.is_string() && origin == format!("preset {preset}"), "{mode} {origin}");
    }
    let here = folder("[presets.nightly]\nthreads = 1\n[presets.validation]\nseed = 7\n");
    let call = |preset: &str| config(&[]).within(here.path()).variable("NOWCAST_PRESET", preset);
    assert_eq!(explained(call("nightly"), "threads").0, 1);
    assert_eq!(explained(call("validation"), "seed").0, 7);
    assert_eq!(explained(call("validation"), "mode").0, "eager");
}

#[test]
fn what_config_prints_says_the_same_as_the_flags() {
    let here = folder("");
    let line = ["config", "forecast", "--horizon", "24", "--mode", "eager", "--quantiles", "0.1,0.9", "--paths"];
    let text = succeed(Call::new(&line).within(here.path())).stdout;
    assert_eq!(text, "horizon = 24\nmode = \"eager\"\npaths = true\nquantiles = [0.1, 0.9]\n");
    fs::write(here.path().join("nowcast.toml"), &text).unwrap();
    let again = succeed(Call::new(&["config", "forecast"]).within(here.path())).stdout;
    assert_eq!(again, text);
    let table = succeed(Call::new(&["config", "--explain"]).within(here.path())).stdout;
    let line = table.lines().find(|line| line.starts_with("horizon ")).expect("a line");
    assert!(line.contains("24") && line.ends_with("nowcast.toml"), "{line}");
}

#[test]
fn wrong_settings_are_one_line_that_names_the_place() {
    let cases = [
        ("mod = \"eager\"", "nowcast.toml: mod is no flag here; did you mean mode?"),
        ("mode = \"fast\"", "nowcast.toml: mode does not fit: invalid value 'fast'"),
        ("[forecst]\nseed = 1", "nowcast.toml: [forecst] is no command; did you mean forecast?"),
        ("[forecast]\nstats = 3", "nowcast.toml: [forecast] stats is on or off: write true or false"),
        ("[completions]\nplot = \"a\"", "nowcast.toml: [completions] plot is no flag here"),
        ("horizon = -1", "nowcast.toml: horizon does not fit"),
        ("preset = \"fast\"", "--preset fast: choose development, production, validation"),
        ("preset = 3", "nowcast.toml: preset is a name"),
        ("a =", "nowcast.toml: line 1"),
        ("\n\n[forecast", "nowcast.toml: line 3"),
        ("quantiles = [\"0.1,0.2\", 0.3]", "nowcast.toml: quantiles has a comma within"),
        ("columns = [[1]]", "nowcast.toml: columns holds more than a list of values"),
    ];
    for (text, said) in cases {
        let here = folder(text);
        let run = Call::new(&["forecast", &vix(), "--horizon", "2"]).within(here.path()).run();
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (Some(2), "", 1), "{text}");
        assert!(run.stderr.contains(said), "{text}: {}", run.stderr);
    }
    let run = Call::new(&["forecast", &vix(), "--horizon", "2"]).variable("NOWCAST_MODE", "fast").run();
    assert!(run.stderr.starts_with("error: NOWCAST_MODE: invalid value 'fast'"), "{}", run.stderr);
    let run = Call::new(&["forecast", &vix(), "--config", "missing.toml"]).run();
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("missing.toml"), "{}", run.stderr);
    // Help is there whatever the file says.
    let here = folder("a =");
    assert!(succeed(Call::new(&["forecast", "--help"]).within(here.path())).stdout.contains("--horizon"));
}
