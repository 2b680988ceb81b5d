//! Text as it comes from a file, with one kind of line end.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Turns CRLF and CR into LF, ends the last line, and stops at records that never end.
#[derive(Debug)]
pub(super) struct Lines<R> {
    inner: R,
    previous: u8,
    ended: bool,
    since_record: Rc<Cell<usize>>,
}

/// A record longer than this has lost a quote.
const LONGEST_RECORD: usize = 16 << 20;

/// The error inside [`io::Error`] for a record without end.
#[derive(Debug, thiserror::Error)]
#[error("record too long")]
pub(super) struct RecordTooLong;

impl<R: Read> Lines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, previous: b'\n', ended: false, since_record: Rc::default() }
    }

    /// The count of bytes since the last record; whoever reads records sets it back to zero.
    pub(super) fn since_record(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.since_record)
    }

    /// One read of the file, made LF only; 0 at its end.
    fn read_converted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = match self.inner.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            let mut kept = 0;
            for index in 0..length {
                let byte = buffer[index];
                let previous = std::mem::replace(&mut self.previous, byte);
                if byte != b'\n' || previous != b'\r' {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            // Nothing kept of something read is the second half of a CRLF, not the end.
            if kept > 0 || length == 0 {
                return Ok(kept);
            }
        }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        let mut length = self.read_converted(buffer)?;
        if length == 0 {
            self.ended = true;
            if !matches!(self.previous, b'\n' | b'\r') {
                (buffer[0], length) = (b'\n', 1);
            }
        }
        self.since_record.set(self.since_record.get().saturating_add(length));
        if self.since_record.get() > LONGEST_RECORD {
            return Err(io::Error::other(RecordTooLong));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, the hardest case for a CRLF.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn every_line_end_becomes_a_line_feed() {
        for (input, output) in [
            ("a\nb\n", "a\nb\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("a\rb\r", "a\nb\n"),
            ("a\nb", "a\nb\n"),
            ("a\r\n\r\nb", "a\n\nb\n"),
            ("a\n\rb", "a\n\nb\n"),
            ("", ""),
            ("\r\n", "\n"),
        ] {
            let mut whole = String::new();
            Lines::new(input.as_bytes()).read_to_string(&mut whole).expect("text");
            assert_eq!(whole, output, "{input:?}");
            let mut dripped = String::new();
            Lines::new(Drip(input.as_bytes())).read_to_string(&mut dripped).expect("text");
            assert_eq!(dripped, output, "{input:?}, byte by byte");
        }
    }

    #[test]
    fn a_record_without_end_stops() {
        let error = Lines::new(io::repeat(b'x')).read_to_end(&mut Vec::new()).expect_err("must stop");
        assert!(error.get_ref().is_some_and(|inner| inner.is::<RecordTooLong>()));
    }
}
