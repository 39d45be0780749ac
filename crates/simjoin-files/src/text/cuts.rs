//! Where the parts of a CSV file that partitions read begin: at records, not at any line break.
//!
//! A line break in quotes looks like the end of a record, and only what stands before tells them apart. So the
//! file is looked through once for quotes, at the speed of memory, before its parts are parsed.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::CsvOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use memchr::{memchr, memchr2, memchr3};
use tokio::sync::Mutex;

use crate::input::{For, Input, raw};

/// The bytes of a file that are looked through at a time.
const BLOCK: usize = 1 << 20;

/// Where a file is cut at an offset, and where the next record begins.
type CutsOfFile = Arc<Vec<(u64, u64)>>;

/// The cuts of the files of a scan, which its partitions share.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Mutex<HashMap<Path, CutsOfFile>>);

impl Cuts {
    /// The records of a part of a file: those that begin in `range`, which is cut elsewhere.
    pub(super) async fn records(
        &self,
        store: &dyn ObjectStore,
        file: &Path,
        range: Range<u64>,
        config: &FileScanConfig,
        options: &CsvOptions,
    ) -> Result<Range<u64>> {
        let cuts = {
            let mut known = self.0.lock().await;
            match known.get(file) {
                Some(cuts) => Arc::clone(cuts),
                None => {
                    let cuts = Arc::new(find(store, file, wanted(file, config), options).await?);
                    known.insert(file.clone(), Arc::clone(&cuts));
                    cuts
                }
            }
        };
        let of = |cut: u64| {
            let found = cuts.binary_search_by_key(&cut, |(cut, _)| *cut);
            found.map_or(cut, |place| cuts[place].1)
        };
        Ok(of(range.start)..of(range.end))
    }
}

/// The places where a scan cuts a file, in their order.
fn wanted(file: &Path, config: &FileScanConfig) -> Vec<u64> {
    let groups = config.file_groups.iter().flat_map(|group| group.files());
    let of_file = groups.filter(|part| part.object_meta.location == *file);
    let ranges = of_file.filter_map(|part| part.range.as_ref());
    let mut cuts: Vec<u64> =
        ranges.flat_map(|range| [range.start, range.end]).map(|cut| cut.max(0) as u64).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Each cut with the start of the first record from it on.
async fn find(
    store: &dyn ObjectStore,
    file: &Path,
    cuts: Vec<u64>,
    options: &CsvOptions,
) -> Result<Vec<(u64, u64)>> {
    if cuts.is_empty() {
        return Ok(vec![]);
    }
    let mut input: Input = raw(store, file, None, For::ALook).await?;
    let mut finder = Finder::new(cuts, options);
    let mut block = vec![0; BLOCK];
    while finder.found.len() < finder.cuts.len() {
        let read = input.read(&mut block)?;
        if read == 0 {
            break;
        }
        finder.look_through(&block[..read]);
        // Others may run, and cancel this.
        tokio::task::yield_now().await;
    }
    // No record begins behind the other cuts: the last one goes on to the end of the file.
    let Finder { cuts, mut found, place, .. } = finder;
    found.resize(cuts.len(), place);
    Ok(cuts.into_iter().zip(found).collect())
}

/// Finds the starts of records behind cuts.
struct Finder {
    cuts: Vec<u64>,
    /// The starts of records for the first of the cuts.
    found: Vec<u64>,
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    comment: Option<u8>,
    terminator: Option<u8>,
    state: State,
    /// The byte before those that are looked through next; a line break at the start of the file.
    before: u8,
    /// The place in the file of the bytes that are looked through next.
    place: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside of quotes.
    Plain,
    Quoted,
    /// Behind a quote in quotes, which another one makes a part of the value.
    QuoteSeen,
    /// Behind an escape in quotes.
    Escaped,
    Comment,
}

impl Finder {
    fn new(cuts: Vec<u64>, options: &CsvOptions) -> Self {
        let found = cuts.iter().take_while(|cut| **cut == 0).copied().collect();
        Self {
            cuts,
            found,
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            comment: options.comment,
            terminator: options.terminator,
            state: State::Plain,
            before: options.terminator.unwrap_or(b'\n'),
            place: 0,
        }
    }

    fn is_end(&self, byte: u8) -> bool {
        match self.terminator {
            Some(terminator) => byte == terminator,
            None => matches!(byte, b'\n' | b'\r'),
        }
    }

    fn look_through(&mut self, block: &[u8]) {
        let mut at = 0;
        if self.place == 0 && block.starts_with(b"\xef\xbb\xbf") {
            at = 3;
        }
        let start = at;
        while at < block.len() {
            at = match self.state {
                State::Plain => self.plain(block, at, start),
                State::Quoted => self.quoted(block, at),
                State::QuoteSeen => {
                    self.state = State::Plain;
                    if block[at] == self.quote {
                        self.state = State::Quoted;
                        at + 1
                    } else {
                        at
                    }
                }
                State::Escaped => {
                    self.state = State::Quoted;
                    at + 1
                }
                State::Comment => match memchr(b'\n', &block[at..]) {
                    Some(length) => {
                        self.state = State::Plain;
                        self.record_starts_at(self.place + (at + length + 1) as u64);
                        at + length + 1
                    }
                    None => block.len(),
                },
            };
        }
        self.before = block.last().copied().unwrap_or(self.before);
        self.place += block.len() as u64;
    }

    /// Goes on to the next byte that matters outside of quotes, and behind it.
    fn plain(&mut self, block: &[u8], at: usize, start: usize) -> usize {
        let rest = &block[at..];
        let byte_before = |place: usize| match place > start {
            true => block[place - 1],
            false => self.before,
        };
        if self.comment == Some(rest[0]) && self.is_end(byte_before(at)) {
            self.state = State::Comment;
            return at + 1;
        }
        let next_cut = self.cuts.get(self.found.len()).copied().unwrap_or(u64::MAX);
        let skips = self.comment.is_none() && self.place + (block.len() as u64) < next_cut;
        let next = match (skips, self.terminator) {
            // Line breaks before the next cut do not matter.
            (true, _) => memchr(self.quote, rest),
            (false, None) => memchr3(self.quote, b'\n', b'\r', rest),
            (false, Some(terminator)) => memchr2(self.quote, terminator, rest),
        };
        let Some(length) = next else { return block.len() };
        let place = at + length;
        if block[place] != self.quote {
            self.record_starts_at(self.place + (place + 1) as u64);
        } else if byte_before(place) == self.delimiter || self.is_end(byte_before(place)) {
            self.state = State::Quoted;
        }
        place + 1
    }

    fn quoted(&mut self, block: &[u8], at: usize) -> usize {
        let next = match self.escape {
            Some(escape) => memchr2(self.quote, escape, &block[at..]),
            None => memchr(self.quote, &block[at..]),
        };
        let Some(length) = next else { return block.len() };
        self.state = match block[at + length] == self.quote {
            true => State::QuoteSeen,
            false => State::Escaped,
        };
        at + length + 1
    }

    fn record_starts_at(&mut self, place: u64) {
        while self.cuts.get(self.found.len()).is_some_and(|cut| *cut <= place) {
            self.found.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::records::Records;
    use super::*;

    fn records(text: &[u8], options: &CsvOptions) -> Vec<Vec<Vec<u8>>> {
        let mut records = Records::new(Box::new(Cursor::new(text.to_vec())), options);
        let mut all = vec![];
        while records.advance().unwrap() {
            all.push((0..records.len()).map(|c| records.field(c).to_vec()).collect());
        }
        all
    }

    /// The records of the parts are those of the whole, whatever the cuts.
    #[test]
    fn parts_have_the_records_of_the_whole() {
        let mut random = StdRng::seed_from_u64(48);
        for round in 0..4_000 {
            let options = CsvOptions {
                // With another end of records, comments have no end, and are refused.
                comment: (round % 3 == 0 && round % 7 != 0).then_some(b'#'),
                escape: (round % 5 == 0).then_some(b'\\'),
                terminator: (round % 7 == 0).then_some(b';'),
                ..CsvOptions::default()
            };
            let length = random.random_range(0..60);
            let mut text: Vec<u8> =
                (0..length).map(|_| b"\"\"\"\n\n\r,,#\\ab;"[random.random_range(0..13)]).collect();
            if round % 11 == 0 {
                text.splice(0..0, *b"\xef\xbb\xbf");
            }
            let mut cuts: Vec<u64> =
                (0..3).map(|_| random.random_range(0..=text.len()) as u64).collect();
            cuts.extend([0, text.len() as u64]);
            cuts.sort_unstable();
            cuts.dedup();
            let mut finder = Finder::new(cuts.clone(), &options);
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                // The mark of the byte order stands in one block.
                let least = if finder.place == 0 { rest.len().min(3) } else { 1 };
                let (block, after) = rest.split_at(random.random_range(least..=rest.len()));
                finder.look_through(block);
                rest = after;
            }
            let mut found = finder.found;
            found.resize(cuts.len(), text.len() as u64);
            let parts: Vec<_> = found
                .windows(2)
                .flat_map(|pair| {
                    let part = pair[0].min(text.len() as u64)..pair[1].min(text.len() as u64);
                    records(&text[part.start as usize..part.end as usize], &options)
                })
                .collect();
            let whole = records(&text, &options);
            assert_eq!(parts, whole, "{:?} {cuts:?} {found:?}", String::from_utf8_lossy(&text));
        }
    }
}
