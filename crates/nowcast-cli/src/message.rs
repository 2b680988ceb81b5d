//! What the user is told on the standard error: one line each.

use std::fmt::Display;
use std::io::Write;

/// Writes `kind: text` as one line, whatever a file name or a cell brings into it.
pub(crate) fn say(kind: &str, text: &dyn Display) {
    // A standard error that cannot be written leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "{kind}: {}", one_line(&text.to_string()));
}

/// Control characters would break the line or command the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_the_line() {
        assert_eq!(one_line("a\nb\r\u{1b}[2J\u{85}ü"), "a b  [2J ü");
    }
}
