//! The lines of a script.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

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
            loop {
                let mut line = String::new();
                let line = match reader.read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(error) => Err(error),
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
    async fn what_cannot_be_opened_or_is_no_text_is_an_error() {
        let mut none = Lines::read(|| io::Result::<&[u8]>::Err(io::ErrorKind::NotFound.into()));
        assert!(none.as_mut().unwrap().next().await.is_err());
        let mut bytes = Lines::read(|| Ok(&b"a\n\xff\nb\n"[..])).unwrap();
        assert_eq!(bytes.next().await.unwrap().as_deref(), Some("a\n"));
        assert!(bytes.next().await.is_err());
        assert_eq!(bytes.next().await.unwrap(), None);
    }
}
