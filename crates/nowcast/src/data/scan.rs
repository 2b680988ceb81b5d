//! Walks over the characters of one cell.

/// A place in the text.
pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// Takes one of these ASCII characters.
    pub(super) fn eat_any(&mut self, any: &str) -> Option<char> {
        let next = self.peek().filter(|byte| any.as_bytes().contains(byte))?;
        self.at += 1;
        Some(char::from(next))
    }

    pub(super) fn spaces(&mut self) -> bool {
        let start = self.at;
        while self.eat_any(" ").is_some() {}
        self.at > start
    }

    /// All the digits here, if they are at most `most` (up to 9): their value and their count.
    pub(super) fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take(most + 1).take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > most {
            return None;
        }
        let value = rest[..count].iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
        self.at += count;
        Some((value, count))
    }

    pub(super) fn two_digits(&mut self) -> Option<u32> {
        self.digits(2).filter(|(_, digits)| *digits == 2).map(|(value, _)| value)
    }

    pub(super) fn quarter(&mut self) -> Option<u8> {
        self.digits(1).map(|(value, _)| value as u8).filter(|quarter| (1..=4).contains(quarter))
    }

    /// A fraction of a second in nanoseconds and how many digits it has; digits past the ninth are dropped.
    pub(super) fn fraction(&mut self) -> Option<(u32, u8)> {
        let (mut value, mut digits, mut all) = (0, 0, 0);
        while let Some(byte) = self.peek().filter(u8::is_ascii_digit) {
            if digits < 9 {
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            (self.at, all) = (self.at + 1, all + 1);
            if all > 18 {
                return None;
            }
        }
        (digits > 0).then(|| (value * 10_u32.pow(9 - u32::from(digits)), digits))
    }

    pub(super) fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    pub(super) fn rest_if(&self, accept: impl Fn(&str) -> bool) -> Option<&'a str> {
        Some(&self.text[self.at..]).filter(|rest| accept(rest))
    }
}
