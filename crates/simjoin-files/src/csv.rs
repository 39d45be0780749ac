//! The first lines of CSV files: their delimiter, and the columns that a header names.

use std::io::{BufRead, BufReader};

use datafusion::common::Result;
use datafusion::common::config::CsvOptions;
use datafusion::object_store::{ObjectMeta, ObjectStore};

use super::input::{self, For, Input};

/// A line that is longer is no header.
const LONGEST_LINE: usize = 4 << 20;

/// Delimiters other than the comma that files are known to have.
const DELIMITERS: [u8; 3] = [b';', b'\t', b'|'];

/// The first lines of a file, without their ends.
pub(super) fn first_lines(input: Input, quote: u8, count: usize) -> Result<Vec<Vec<u8>>> {
    let mut input = BufReader::new(input);
    let (mut lines, mut line, mut is_quoted, mut length) = (vec![], vec![], false, 0);
    loop {
        let block = input.fill_buf()?;
        let read = block.len();
        if read == 0 || length > LONGEST_LINE {
            break;
        }
        for &byte in block {
            if byte == quote {
                is_quoted = !is_quoted;
            }
            if byte != b'\n' || is_quoted {
                line.push(byte);
                length += 1;
                continue;
            }
            lines.push(trimmed(std::mem::take(&mut line)));
            if lines.len() == count {
                return Ok(lines);
            }
        }
        input.consume(read);
    }
    if !line.is_empty() {
        lines.push(trimmed(line));
    }
    Ok(lines)
}

/// The line without the carriage return of Windows.
fn trimmed(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    line
}

/// The fields of a line.
pub(super) fn fields(line: &[u8], delimiter: u8, quote: u8) -> Vec<String> {
    let mut fields = vec![vec![]];
    let mut is_quoted = false;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let field = fields.last_mut();
        match byte {
            byte if byte == quote && is_quoted && bytes.peek() == Some(&quote) => {
                bytes.next();
                field.into_iter().for_each(|field| field.push(quote));
            }
            byte if byte == quote => is_quoted = !is_quoted,
            byte if byte == delimiter && !is_quoted => fields.push(vec![]),
            byte => field.into_iter().for_each(|field| field.push(byte)),
        }
    }
    fields.into_iter().map(|field| String::from_utf8_lossy(&field).into_owned()).collect()
}

/// The delimiter of a file whose first line has one column by commas: the one that its first two
/// lines have equally often.
pub(super) fn delimiter(lines: &[Vec<u8>], quote: u8) -> Option<u8> {
    let header = lines.first()?;
    let count = |line: &[u8], delimiter| fields(line, delimiter, quote).len();
    if count(header, b',') > 1 {
        return None;
    }
    let delimiter = DELIMITERS.into_iter().max_by_key(|delimiter| count(header, *delimiter))?;
    let columns = count(header, delimiter);
    let goes_on = lines.get(1).is_none_or(|line| count(line, delimiter) == columns);
    (columns > 1 && goes_on).then_some(delimiter)
}

/// The columns that the header of a file names.
pub(super) async fn header(
    store: &dyn ObjectStore,
    file: &ObjectMeta,
    options: &CsvOptions,
) -> Result<Vec<String>> {
    let input = input::open(store, &file.location, options.compression.into(), For::ALook).await?;
    let lines = first_lines(input, options.quote, 1)?;
    let line = lines.first().map(Vec::as_slice).unwrap_or_default();
    Ok(fields(line, options.delimiter, options.quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(fields(b"a,\"b,c\",\"d\"\"e\",", b',', b'"'), ["a", "b,c", "d\"e", ""]);
        assert_eq!(fields(b"a;b", b';', b'"'), ["a", "b"]);
        assert_eq!(fields(b"", b',', b'"'), [""]);
    }

    #[test]
    fn a_delimiter_is_guessed_where_commas_give_one_column() {
        let guess = |lines: &[&str]| {
            let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
            delimiter(&lines, b'"')
        };
        assert_eq!(guess(&["id;name", "1;a"]), Some(b';'));
        assert_eq!(guess(&["id;name", "1;\"a;b\""]), Some(b';'));
        assert_eq!(guess(&["id\tname"]), Some(b'\t'));
        assert_eq!(guess(&["id|a;b|c", "1|2|3"]), Some(b'|'));
        assert_eq!(guess(&["id;n,m", "1;2,3"]), None);
        assert_eq!(guess(&["text", "a; b"]), None);
        assert_eq!(guess(&["text; notes", "a"]), None);
        assert_eq!(guess(&["\"a;b\"", "1"]), None);
        assert_eq!(guess(&[]), None);
    }
}
