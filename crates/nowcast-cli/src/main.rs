//! The `nowcast` program.
fn main() {}
