//! The columns of JSON rows, and the types that hold all their values.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err};

use super::rows::shown;
use super::values::{Seen, Value};
use crate::input::Input;

/// Keys of one file, in all its objects: each is a column, or a field of one.
const MOST_KEYS: usize = 5_000;

/// Lists and objects in each other.
const DEEPEST: usize = 100;

/// The bytes of a file that are read at a time.
const BLOCK: usize = 256 << 10;

/// The values that stand in one place of all rows.
#[derive(Debug, Clone, Default)]
pub(super) struct JsonShape {
    numbers: Seen,
    boolean: bool,
    text: bool,
    list: Option<Box<JsonShape>>,
    object: Option<Object>,
    /// The first rows that have a scalar, a list and an object.
    rows: [Option<u64>; 3],
}

#[derive(Debug, Clone, Default)]
struct Object {
    fields: Vec<(String, JsonShape)>,
    places: HashMap<String, usize>,
}

impl Object {
    /// The place of a key, which mostly is the one behind that of the key before.
    fn place(&self, key: &str, expected: usize) -> Option<usize> {
        match self.fields.get(expected) {
            Some((name, _)) if name == key => Some(expected),
            _ => self.places.get(key).copied(),
        }
    }

    fn add(&mut self, key: String, shape: JsonShape) {
        self.places.insert(key.clone(), self.fields.len());
        self.fields.push((key, shape));
    }
}

/// The kinds of values, of which one place may have one.
const KINDS: [&str; 3] = ["a single value", "a list", "an object"];

impl JsonShape {
    /// The fields of the rows. With `all` values known, a list that is always empty has elements of no type.
    pub(super) fn fields(&self, all: bool) -> Result<Fields> {
        match &self.object {
            Some(object) => object.fields(all, ""),
            None => Ok(Fields::empty()),
        }
    }

    fn data_type(&self, all: bool, path: &str) -> Result<DataType> {
        let mut kinds = self.rows.iter().enumerate().filter_map(|(k, row)| row.map(|row| (k, row)));
        if let (Some((a, in_row)), Some((b, in_other))) = (kinds.next(), kinds.next()) {
            return exec_err!(
                "column {path} has {} in row {in_row} and {} in row {in_other}: a column has values of \
                 one kind; write them under different keys",
                KINDS[a],
                KINDS[b]
            );
        }
        if let Some(list) = &self.list {
            let element = list.data_type(all, &format!("{path}[]"))?;
            return Ok(DataType::List(Arc::new(Field::new_list_field(element, true))));
        }
        if let Some(object) = &self.object {
            return Ok(DataType::Struct(object.fields(all, path)?));
        }
        let is_empty = self.numbers.is_empty() && !self.text && !self.boolean;
        Ok(match (self.boolean, self.numbers.is_empty()) {
            _ if is_empty && all => DataType::Null,
            _ if self.text => DataType::Utf8,
            (true, true) => DataType::Boolean,
            (false, false) => self.numbers.data_type(),
            _ => DataType::Utf8,
        })
    }

    /// The rows of another file.
    pub(super) fn merge(&mut self, other: Self) {
        self.numbers.merge(&other.numbers);
        self.boolean |= other.boolean;
        self.text |= other.text;
        for (row, of_other) in self.rows.iter_mut().zip(other.rows) {
            *row = row.or(of_other);
        }
        match (&mut self.list, other.list) {
            (Some(list), Some(other)) => list.merge(*other),
            (list, other) => *list = list.take().or(other),
        }
        let Some(other) = other.object else { return };
        let object = self.object.get_or_insert_default();
        for (at, (key, shape)) in other.fields.into_iter().enumerate() {
            match object.place(&key, at) {
                Some(place) => object.fields[place].1.merge(shape),
                None => object.add(key, shape),
            }
        }
    }

    /// Notes that the row has a value of a kind.
    fn note(&mut self, kind: usize, row: u64) {
        self.rows[kind].get_or_insert(row);
    }
}

impl Object {
    fn fields(&self, all: bool, path: &str) -> Result<Fields> {
        let fields = self.fields.iter().map(|(key, shape)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            Ok(Field::new(key, shape.data_type(all, &path)?, true))
        });
        fields.collect()
    }
}

/// Reads rows one by one, and notes what their values are.
pub(super) struct RowShapes {
    input: Input,
    block: Vec<u8>,
    start: usize,
    end: usize,
    line: u64,
    row: u64,
    keys: usize,
    in_array: bool,
    /// Bytes of the file that were read.
    pub(super) consumed: u64,
    /// Whether each row was a line so far.
    pub(super) is_lines: bool,
    /// A number or a key.
    text: Vec<u8>,
}

impl RowShapes {
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            block: vec![0; BLOCK],
            start: 0,
            end: 0,
            line: 1,
            row: 0,
            keys: 0,
            in_array: false,
            consumed: 0,
            is_lines: true,
            text: vec![],
        }
    }

    /// The number of rows that were read.
    pub(super) fn rows(&self) -> u64 {
        self.row
    }

    /// Adds the next row to the shape; false at the end.
    pub(super) fn advance(&mut self, shape: &mut JsonShape) -> Result<bool> {
        if self.in_array {
            match self.token()? {
                Some(b']') => {
                    self.skip();
                    self.in_array = false;
                }
                Some(b',') if self.row > 0 => self.skip(),
                Some(_) if self.row == 0 => {}
                Some(byte) => return self.wrong(byte, "a comma or ] behind a row"),
                None => return exec_err!("the array has no end: the file may have been cut"),
            }
        }
        match self.token()? {
            None if self.in_array => {
                exec_err!("the array has no end: the file may have been cut")
            }
            None => Ok(false),
            Some(b'[') if !self.in_array && self.row == 0 => {
                self.skip();
                (self.in_array, self.is_lines) = (true, false);
                match self.token()? {
                    Some(b']') => {
                        self.skip();
                        self.in_array = false;
                        self.advance(shape)
                    }
                    _ => self.advance(shape),
                }
            }
            Some(b'{') => {
                let first_line = self.line;
                self.row += 1;
                self.value(shape, 0)?;
                self.is_lines &= first_line == self.line;
                Ok(true)
            }
            Some(byte) => self.wrong(byte, "a row, an object in braces"),
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.start = 0;
        self.end = self.input.read(&mut self.block)?;
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        if self.start == self.end {
            self.fill()?;
        }
        Ok((self.start < self.end).then(|| self.block[self.start]))
    }

    fn skip(&mut self) {
        self.line += u64::from(self.block[self.start] == b'\n');
        self.start += 1;
        self.consumed += 1;
    }

    /// The next byte that is no blank.
    fn token(&mut self) -> Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.skip(),
                byte => return Ok(byte),
            }
        }
    }

    fn needed(&mut self) -> Result<u8> {
        match self.token()? {
            Some(byte) => Ok(byte),
            None => exec_err!("row {} has no end: the file may have been cut", self.row),
        }
    }

    fn wrong<T>(&self, byte: u8, expected: &str) -> Result<T> {
        let found = match byte {
            b' '..=b'~' => char::from(byte).to_string(),
            byte => format!("byte {byte:#04x}"),
        };
        exec_err!("line {} is no JSON: expected {expected}, found {found}", self.line)
    }

    fn value(&mut self, shape: &mut JsonShape, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            return exec_err!(
                "row {} has more than {DEEPEST} lists and objects in each other",
                self.row
            );
        }
        match self.needed()? {
            b'{' => {
                shape.note(2, self.row);
                let object = shape.object.get_or_insert_default();
                self.object(object, depth)
            }
            b'[' => {
                shape.note(1, self.row);
                let list = shape.list.get_or_insert_default();
                self.list(list, depth)
            }
            b'"' => {
                shape.note(0, self.row);
                shape.text = true;
                self.text()
            }
            b'-' | b'0'..=b'9' => {
                shape.note(0, self.row);
                let value = self.number()?;
                shape.numbers.add(value);
                Ok(())
            }
            b't' => {
                shape.note(0, self.row);
                shape.boolean = true;
                self.word(b"true")
            }
            b'f' => {
                shape.note(0, self.row);
                shape.boolean = true;
                self.word(b"false")
            }
            b'n' => self.word(b"null"),
            b'N' | b'I' => {
                self.wrong(b'N', "a value (JSON has no NaN and no Infinity: write null)")
            }
            byte => self.wrong(byte, "a value"),
        }
    }

    fn object(&mut self, object: &mut Object, depth: usize) -> Result<()> {
        self.skip();
        if self.needed()? == b'}' {
            self.skip();
            return Ok(());
        }
        let mut expected = 0;
        loop {
            match self.needed()? {
                b'"' => self.text()?,
                byte => return self.wrong(byte, "a key in double quotes"),
            }
            let place = self.place_of_key(object, expected)?;
            expected = place + 1;
            match self.needed()? {
                b':' => self.skip(),
                byte => return self.wrong(byte, "a colon"),
            }
            self.value(&mut object.fields[place].1, depth + 1)?;
            match self.needed()? {
                b',' => self.skip(),
                b'}' => {
                    self.skip();
                    return Ok(());
                }
                byte => return self.wrong(byte, "a comma or }"),
            }
        }
    }

    /// The place of the key that was read, which is added where it is new.
    fn place_of_key(&mut self, object: &mut Object, expected: usize) -> Result<usize> {
        let unescaped;
        let key = match self.text.contains(&b'\\') {
            false => std::str::from_utf8(&self.text).ok(),
            true => {
                unescaped = unescape(&self.text);
                unescaped.as_deref()
            }
        };
        let Some(key) = key else {
            return exec_err!(
                "a key in line {} is no text in UTF-8; {}",
                self.line,
                super::csv_rows::encoding(&self.text)
            );
        };
        if let Some(place) = object.place(key, expected) {
            return Ok(place);
        }
        self.keys += 1;
        if self.keys > MOST_KEYS {
            return exec_err!(
                "the rows have more than {MOST_KEYS} different keys, such as {} in row {}: declare the \
                 columns to be read, as in CREATE EXTERNAL TABLE t (id BIGINT, name TEXT) STORED AS \
                 JSON LOCATION …",
                shown(key),
                self.row
            );
        }
        object.add(key.to_string(), JsonShape::default());
        Ok(object.fields.len() - 1)
    }

    fn list(&mut self, list: &mut JsonShape, depth: usize) -> Result<()> {
        self.skip();
        if self.needed()? == b']' {
            self.skip();
            return Ok(());
        }
        loop {
            self.value(list, depth + 1)?;
            match self.needed()? {
                b',' => self.skip(),
                b']' => {
                    self.skip();
                    return Ok(());
                }
                byte => return self.wrong(byte, "a comma or ]"),
            }
        }
    }

    /// Reads a text in quotes, as it stands.
    fn text(&mut self) -> Result<()> {
        self.skip();
        self.text.clear();
        loop {
            if self.peek()?.is_none() {
                return exec_err!(
                    "a text in row {} has no end: the file may have been cut",
                    self.row
                );
            }
            let rest = &self.block[self.start..self.end];
            let length = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..length]);
            self.line += rest[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.start += length;
            self.consumed += length as u64;
            match self.peek()? {
                Some(b'"') => {
                    self.skip();
                    return Ok(());
                }
                Some(b'\\') => {
                    self.text.push(b'\\');
                    self.skip();
                    if let Some(byte) = self.peek()? {
                        self.text.push(byte);
                        self.skip();
                    }
                }
                _ => {}
            }
        }
    }

    fn number(&mut self) -> Result<Value> {
        self.text.clear();
        while let Some(byte @ (b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) = self.peek()? {
            self.text.push(byte);
            self.skip();
        }
        if !is_number(&self.text) {
            let text = String::from_utf8_lossy(&self.text);
            return exec_err!("line {} is no JSON: {text} is no number", self.line);
        }
        Ok(Value::of_number(&self.text))
    }

    fn word(&mut self, word: &[u8]) -> Result<()> {
        for expected in word {
            match self.peek()? {
                Some(byte) if byte == *expected => self.skip(),
                Some(byte) => return self.wrong(byte, "true, false or null"),
                None => {
                    return exec_err!("row {} has no end: the file may have been cut", self.row);
                }
            }
        }
        Ok(())
    }
}

/// Whether a text is a number by the grammar of JSON.
fn is_number(text: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    let mut rest = &rest[whole..];
    if let [b'.', after @ ..] = rest {
        let fraction = digits(after);
        rest = &after[fraction..];
        if fraction == 0 {
            return false;
        }
    }
    match rest {
        [] => true,
        [b'e' | b'E', b'+' | b'-', power @ ..] | [b'e' | b'E', power @ ..] => {
            !power.is_empty() && digits(power) == power.len()
        }
        _ => false,
    }
}

/// The text that escapes stand for; `None` where they stand for none.
fn unescape(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (mut plain, mut rest) = (vec![], text.chars());
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.extend(character.encode_utf16(&mut [0; 2]).iter());
            continue;
        }
        let escaped = match rest.next()? {
            'u' => {
                let digits = rest.as_str().get(..4)?;
                rest = rest.as_str().get(4..)?.chars();
                u16::from_str_radix(digits, 16).ok()?
            }
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            other @ ('"' | '\\' | '/') => other as u16,
            _ => return None,
        };
        plain.push(escaped);
    }
    String::from_utf16(&plain).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &str) -> Result<(Vec<String>, bool)> {
        let mut rows = RowShapes::new(Box::new(Cursor::new(text.to_string().into_bytes())));
        let mut shape = JsonShape::default();
        while rows.advance(&mut shape)? {}
        let fields = shape.fields(true)?;
        let shown = fields.iter().map(|field| format!("{} {}", field.name(), field.data_type()));
        Ok((shown.collect(), rows.is_lines))
    }

    #[test]
    fn shapes_hold_all_values() {
        for (text, expected) in [
            ("{\"a\": 1}\n{\"a\": 9.99}", "a Float64"),
            ("{\"a\": 1}\n{\"a\": 18446744073709551615}", "a UInt64"),
            ("{\"a\": -1}\n{\"a\": 18446744073709551615}", "a Utf8"),
            ("{\"a\": 9007199254740993}\n{\"a\": 0.5}", "a Utf8"),
            ("{\"a\": 12E500}", "a Utf8"),
            ("{\"a\": 1E2}", "a Float64"),
            ("{\"a\": 1}\n{\"b\": true, \"a\": null}", "a Int64, b Boolean"),
            ("{\"a\": null}", "a Null"),
            ("{\"a\": 1}\n{\"a\": \"x\"}", "a Utf8"),
            ("{\"a\": [1, 2]}\n{\"a\": [2.5, null]}", "a List(Float64)"),
            ("{\"a\": []}", "a List(Null)"),
            ("{\"\\u0061\\n\": 1, \"\\ud83d\\ude00\": 2}", "a\n Int64, \u{1f600} Int64"),
            ("[{\"a\": 1},\n {\"a\": 2}]", "a Int64"),
            ("[]", ""),
            ("", ""),
        ] {
            assert_eq!(read(text).unwrap().0.join(", "), expected, "{text}");
        }
        let (nested, _) = read("{\"a\": {\"b\": 1}}\n{\"a\": {\"c\": [{\"d\": 0.5}]}}").unwrap();
        assert!(nested[0].contains("Int64") && nested[0].contains("Float64"), "{nested:?}");
        for (text, is_lines) in
            [("{\"a\": 1}\n{\"a\": 2}\n", true), ("{\"a\":\n 1}\n", false), ("[{\"a\": 1}]", false)]
        {
            assert_eq!(read(text).unwrap().1, is_lines, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_its_line() {
        for (text, expected) in [
            ("{\"a\": 1}\n{\"a\": }", "line 2 is no JSON: expected a value, found }"),
            ("{\"a\": 1}\n{\"a\": 1", "row 2 has no end"),
            ("[{\"a\": 1}", "the array has no end"),
            ("[{\"a\": 1},", "the array has no end"),
            ("[{\"a\": 1} {\"a\": 2}]", "a comma or ]"),
            ("[{\"a\": 1},]", "expected a row, an object in braces, found ]"),
            ("{\"a\": 007}", "007 is no number"),
            ("{\"a\": 1.}", "1. is no number"),
            ("{\"a\": NaN}", "write null"),
            ("{a: 1}", "a key in double quotes"),
            ("1", "a row, an object in braces"),
            ("{\"a\": \"x", "has no end"),
            ("{\"a\": tru}", "true, false or null"),
            ("{\"a\": 1}\n{\"a\": [1]}", "a single value in row 1 and a list in row 2"),
            ("{\"a\": {\"b\": {}}}\n{\"a\": {\"b\": 1}}", "a.b has a single value in row 2"),
        ] {
            let error = read(text).unwrap_err().strip_backtrace();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(read(&deep).unwrap_err().to_string().contains("100 lists"));
        let keys: Vec<String> = (0..6_000).map(|i| format!("\"k{i}\": 1")).collect();
        let error = read(&format!("{{{}}}", keys.join(","))).unwrap_err().to_string();
        assert!(error.contains("declare the columns"), "{error}");
    }
}
