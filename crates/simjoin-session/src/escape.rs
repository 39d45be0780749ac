//! Characters that a terminal obeys, or does not show, in text that comes from data, names and
//! errors.
//!
//! A terminal moves its cursor, changes its title or hides text at the word of control characters,
//! so a cell could overwrite the lines above it. Tables, headings, messages and the progress line
//! show such characters as psql does: `\x1B`, `\u202E`. CSV and JSON keep the bytes of the data,
//! except where they are written to a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would act on the character, reorder its neighbours or show nothing: the
/// control characters, and the format characters but for those that shape letters and emoji (the
/// joiners U+200C and U+200D) or are visible (the Arabic number signs).
pub fn is_unsafe(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // The soft hyphen; invisible letters and spaces.
        | '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{feff}'
        // Marks, embeddings, overrides and isolates of writing directions, ends of lines.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Invisible operators, deprecated format characters, annotations, notes of music, tags.
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// The notation of unsafe characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escapes {
    /// `\x1B`, `\u202E`, `\U000E0041`, and `\n`, `\r`, `\t`.
    Readable,
    /// As in strings of JSON, where the value stays the same: `\u001b`.
    Json,
}

/// A line of text as it can be shown: without characters that a terminal obeys or hides.
pub fn line(text: &str) -> Cow<'_, str> {
    text_but(text, &[], Escapes::Readable)
}

/// The text with its unsafe characters escaped, except for some.
pub fn text_but<'t>(text: &'t str, kept: &[char], escapes: Escapes) -> Cow<'t, str> {
    let escaped = |c: char| is_unsafe(c) && !kept.contains(&c);
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match escaped(c) {
            true => push(&mut safe, c, escapes),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn push(safe: &mut String, c: char, escapes: Escapes) {
    // Writing to a String does not fail.
    let _ = match (escapes, c, u32::from(c)) {
        (Escapes::Json, ..) => {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(safe, "\\u{unit:04x}"))
        }
        (_, '\n', _) => write!(safe, "\\n"),
        (_, '\r', _) => write!(safe, "\\r"),
        (_, '\t', _) => write!(safe, "\\t"),
        (_, _, code @ 0..0x80) => write!(safe, "\\x{code:02X}"),
        (_, _, code @ 0x80..0x10000) => write!(safe, "\\u{code:04X}"),
        (_, _, code) => write!(safe, "\\U{code:08X}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        for (text, safe) in [
            ("plain, Resígaro, 日本, 🏳️‍🌈, می‌خواهم", "plain, Resígaro, 日本, 🏳️‍🌈, می‌خواهم"),
            ("\x1b[31mred\x1b]0;title\x07", "\\x1B[31mred\\x1B]0;title\\x07"),
            ("a\0b\x7fc\u{9b}2J", "a\\x00b\\x7Fc\\u009B2J"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{202e}txt.exe\u{2066}\u{200b}", "\\u202Etxt.exe\\u2066\\u200B"),
            ("\u{e0041}", "\\U000E0041"),
        ] {
            assert_eq!(line(text), safe);
        }
        assert_eq!(text_but("a\n\x1b\tb", &['\n', '\t'], Escapes::Readable), "a\n\\x1B\tb");
        let json = text_but("[\"\u{9b}\u{e0041}\"]\n", &['\n'], Escapes::Json);
        assert_eq!(json, "[\"\\u009b\\udb40\\udc41\"]\n");
    }
}
