//! The documentation says what the program does.

mod console;
mod flags;
mod reference;
