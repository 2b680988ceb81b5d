//! `docs/reference.md` is the program's own help; `NOWCAST_BLESS=1 cargo test --test contract docs` writes it anew.

use std::fmt::Write;
use std::fs;

use crate::program::{Call, repository};

/// The commands that help lists, and those beneath them.
pub(crate) fn commands() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(command) = open.pop() {
        let line: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).chain(["--help"]).collect();
        let help = Call::new(&line).run().stdout;
        let beneath = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = beneath.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        open.extend(names.map(|name| format!("{command} {name}").trim().to_string()));
        if !command.is_empty() {
            found.push(command);
        }
    }
    found.sort();
    found
}

fn reference() -> String {
    let mut text = "# Every command and flag\n\nWritten by the program itself; a test keeps it fresh.\n".to_string();
    for command in commands() {
        let line: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = Call::new(&line).run().stdout;
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## nowcast {command}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    }
    text
}

#[test]
fn the_reference_is_fresh() {
    let path = repository("docs/reference.md");
    let now = reference();
    if std::env::var_os("NOWCAST_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(now.lines()).position(|(kept, now)| kept != now);
    assert!(kept == now, "line {differs:?}: run NOWCAST_BLESS=1 cargo test -p nowcast-cli --test contract docs");
}
