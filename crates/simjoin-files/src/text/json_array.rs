//! Rows of a JSON array, one after the other, as of a file of JSON lines.

use std::io::{self, Read};

use crate::input::Input;

/// Gives the elements of arrays without their brackets and commas. Anything else stays as it is, for the
/// reader of rows to judge.
pub(super) struct Elements {
    input: Input,
    in_array: bool,
    /// Open brackets and braces of the element.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Elements {
    pub(super) fn new(input: Input) -> Self {
        Self { input, in_array: false, depth: 0, in_text: false, is_escaped: false }
    }

    fn convert(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.in_text {
                self.in_text = self.is_escaped || *byte != b'"';
                self.is_escaped = !self.is_escaped && *byte == b'\\';
                continue;
            }
            match *byte {
                b'"' => self.in_text = true,
                b'[' if self.depth == 0 && !self.in_array => {
                    self.in_array = true;
                    *byte = b' ';
                }
                b']' if self.depth == 0 && self.in_array => {
                    self.in_array = false;
                    *byte = b' ';
                }
                b',' if self.depth == 0 && self.in_array => *byte = b'\n',
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

impl Read for Elements {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.convert(&mut buffer[..count]);
        if count == 0 && !buffer.is_empty() && self.in_array {
            let cut = "the array has no end: the file may have been cut";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn elements_come_without_their_array() {
        let read = |text: &str| {
            let mut read = String::new();
            let input = Box::new(Cursor::new(text.to_string().into_bytes()));
            Elements::new(input).read_to_string(&mut read).map(|_| read)
        };
        let array = r#" [ {"a": [1, "],\"[", {}]} , {"b": "\\"} ] "#;
        let rows = "   {\"a\": [1, \"],\\\"[\", {}]} \n {\"b\": \"\\\\\"}   ";
        assert_eq!(read(array).unwrap(), rows);
        assert_eq!(read(r#"{"a": [1,2]}"#).unwrap(), r#"{"a": [1,2]}"#);
        assert_eq!(read("[[1,2],3]").unwrap(), " [1,2]\n3 ");
        assert!(read(r#"[{"a": 1},"#).is_err());
    }
}
