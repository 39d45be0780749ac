//! The lines of a script.

use std::io::{self, BufRead, Read};

use tokio::sync::mpsc;

use super::input::LONGEST_STATEMENT;

/// Lines read ahead: enough that the reader and the shell do not wait for each other.
const READ_AHEAD: usize = 256;

/// Lines, each with its end.
pub(super) enum Lines {
    Text(std::vec::IntoIter<String>),
    Reader(mpsc::Receiver<io::Result<String>>),
}

impl Lines {
    pub(super) fn of_text(text: &str) -> Self {
        Self::Text(text.split_inclusive('\n').map(str::to_string).collect::<Vec<_>>().into_iter())
    }

    /// Opens and reads on a thread of its own: both may wait for long, as at a pipe, and the shell
    /// must hear signals meanwhile.
    pub(super) fn read<R, O>(open: O) -> io::Result<Self>
    where
        R: BufRead,
        O: FnOnce() -> io::Result<R> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let read = move || {
            let mut reader = match open() {
                Ok(reader) => reader,
                Err(error) => {
                    let _ = sender.blocking_send(Err(error));
                    return;
                }
            };
            for number in 1.. {
                let line = match read_line(&mut reader, number) {
                    Ok(line) if line.is_empty() => return,
                    line => line,
                };
                let failed = line.is_err();
                // The shell has dropped the receiver: the rest goes unread.
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("script".to_string()).spawn(read)?;
        Ok(Self::Reader(receiver))
    }

    /// The next line; None at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        match self {
            Self::Text(lines) => Ok(lines.next()),
            Self::Reader(receiver) => receiver.recv().await.transpose(),
        }
    }
}

/// The next line with its end; an empty text where there is none. A reader that never ends a line,
/// such as one of /dev/zero, does not fill the memory.
fn read_line(reader: &mut impl BufRead, number: u64) -> io::Result<String> {
    let mut line = vec![];
    reader.take(LONGEST_STATEMENT as u64 + 1).read_until(b'\n', &mut line)?;
    if line.len() > LONGEST_STATEMENT {
        let mib = LONGEST_STATEMENT >> 20;
        return Err(io::Error::other(format!("line {number} is longer than {mib} MiB")));
    }
    String::from_utf8(line).map_err(|error| {
        let column = error.utf8_error().valid_up_to() + 1;
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("line {number} is no text in UTF-8, from byte {column} of the line on"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut lines: Lines) -> Vec<String> {
        let mut all = vec![];
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_keep_their_ends() {
        let text = "a\n\r\nb";
        let expected = ["a\n", "\r\n", "b"];
        assert_eq!(all(Lines::of_text(text)).await, expected);
        let read = Lines::read(move || Ok(io::Cursor::new(text))).unwrap();
        assert_eq!(all(read).await, expected);
        assert!(all(Lines::of_text("")).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_an_error() {
        let mut endless = Lines::read(|| Ok(io::BufReader::new(io::repeat(b'x')))).unwrap();
        let error = endless.next().await.unwrap_err().to_string();
        assert_eq!(error, "line 1 is longer than 64 MiB");
    }

    #[tokio::test]
    async fn what_cannot_be_opened_or_is_no_text_is_an_error() {
        let mut none = Lines::read(|| io::Result::<&[u8]>::Err(io::ErrorKind::NotFound.into()));
        assert!(none.as_mut().unwrap().next().await.is_err());
        let mut bytes = Lines::read(|| Ok(&b"a\n\xff\nb\n"[..])).unwrap();
        assert_eq!(bytes.next().await.unwrap().as_deref(), Some("a\n"));
        let error = bytes.next().await.unwrap_err().to_string();
        assert_eq!(error, "line 2 is no text in UTF-8, from byte 1 of the line on");
        assert_eq!(bytes.next().await.unwrap(), None);
    }
}
