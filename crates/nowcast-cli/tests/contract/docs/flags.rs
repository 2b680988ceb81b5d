//! Every flag that the pages name exists.

use std::collections::BTreeSet;
use std::fs;

use super::console::pages;
use super::reference::commands;
use crate::program::Call;

/// Flags of other programs that the pages mention.
const FOREIGN: [&str; 13] = [
    "--release",
    "--workspace",
    "--locked",
    "--list",
    "--checkpoint",
    "--csv",
    "--column",
    "--families",
    "--family-only",
    "--bin",
    "--test",
    "--features",
    "--example",
];

/// `--words-of-letters` in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        let name: String =
            text[at + 2..].chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '-').collect();
        if name.len() > 1 && !name.starts_with('-') && !before.is_some_and(|letter| letter == '-' || letter == '|') {
            found.insert(format!("--{}", name.trim_end_matches('-')));
        }
    }
    found
}

#[test]
fn pages_name_flags_that_exist() {
    let mut known: BTreeSet<String> = FOREIGN.iter().map(|flag| (*flag).to_string()).collect();
    for command in commands() {
        let line: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        known.extend(flags(&Call::new(&line).run().stdout));
    }
    assert!(known.contains("--horizon") && known.contains("--help"));
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let unknown: Vec<String> = flags(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{}: no command has {}", page.display(), unknown.join(", "));
    }
}
