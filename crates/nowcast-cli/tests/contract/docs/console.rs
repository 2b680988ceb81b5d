//! Every command in a `console` block prints what the block shows.
//!
//! A line of `...` stands for any lines, `[..]` for anything within a line.

use std::fs;
use std::path::PathBuf;

use crate::program::{Call, repository};

/// A command and what it is said to print.
struct Shown {
    place: String,
    line: String,
    output: Vec<String>,
}

pub(crate) fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut pages: Vec<PathBuf> = pages.chain([repository("README.md")]).collect();
    pages.sort();
    pages
}

fn shown() -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for page in pages() {
        let mut inside = false;
        for (number, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            if line.starts_with("```") {
                inside = line == "```console";
            } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
                let place = format!("{}:{}", page.file_name().unwrap().display(), number + 1);
                found.push(Shown { place, line: command.to_string(), output: Vec::new() });
            } else if let Some(last) = found.last_mut().filter(|_| inside) {
                last.output.push(line.to_string());
            }
        }
    }
    found
}

/// Words of a command line; quotes hold a word together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || line.ends_with(part),
    }
}

fn matches(pattern: &[String], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => (0..=lines.len()).any(|skip| matches(rest, &lines[skip..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line.trim_end()) && matches(rest, others)),
    }
}

#[test]
fn patterns_match_what_they_should() {
    assert!(line_matches("a [..] c", "a b c") && line_matches("a", "a") && line_matches("[..]", ""));
    assert!(!line_matches("a [..] c", "a b d") && !line_matches("a", "ab") && !line_matches("b[..]", "ab"));
    let pattern = ["a", "...", "d"].map(String::from);
    assert!(matches(&pattern, &["a", "b", "c", "d"]) && matches(&pattern, &["a", "d"]));
    assert!(!matches(&pattern, &["a", "d", "e"]) && !matches(&pattern, &["a"]));
    assert_eq!(words("a 'b c' \"\" d"), ["a", "b c", "", "d"]);
}

#[test]
fn documented_output_is_what_comes_out() {
    let all = shown();
    assert!(all.len() >= 2, "the pages show nothing");
    for Shown { place, line, output } in all {
        let words = words(&line);
        let start = words.iter().position(|word| word == "nowcast").unwrap_or_else(|| panic!("{place}: no nowcast"));
        let folder = tempfile::tempdir().unwrap();
        let mut call = Call::new(&words[start + 1..]).within(&repository(""));
        for word in &words[..start] {
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{place}: {word}"));
            call = call.variable(name, value);
        }
        let run = call.variable("XDG_CACHE_HOME", &folder.path().display().to_string()).run();
        let printed: Vec<&str> = run.stdout.lines().collect();
        assert!(
            matches(&output, &printed),
            "{place}: {line}\nis documented as\n{}\nand prints\n{}{}",
            output.join("\n"),
            run.stdout,
            run.stderr
        );
    }
}
