//! The Parquet decoder trusts its input in places and panics on some damaged files (59.3: a length past the end of its
//! page, a page of dictionary indices without dictionary). Here such a panic becomes an error, and prints nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Calls the decoder. After an error nothing it worked on may be used again.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                report(panic);
            }
        }));
    });
    DECODING.set(true);
    // The decoder is dropped after a panic, so that no half-changed state is seen.
    let result = catch_unwind(AssertUnwindSafe(call));
    DECODING.set(false);
    result.unwrap_or_else(|_| Err(ParquetError::General("a page is damaged".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let pages: Vec<u8> = Vec::new();
        let error = guarded(|| Ok(pages[3])).expect_err("a panic");
        assert_eq!(error.to_string(), "Parquet error: a page is damaged");
        assert_eq!(guarded(|| Ok(7)).expect("no panic"), 7);
        assert!(!DECODING.get());
    }
}
