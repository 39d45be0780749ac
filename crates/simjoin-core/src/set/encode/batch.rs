//! One batch of rows on its way into sets.

use std::mem::size_of;
use std::ops::Range;

use arrow::array::Array;

use crate::engine::KeyId;
use crate::error::Result;
use crate::values::byte_tokens::ByteTokens;
use crate::values::dictionary::{Added, Dictionary};
use crate::values::lists::Lists;
use crate::values::text_tokens::{TextScratch, with_text_tokens};
use crate::values::tokens::{TokenKind, Tokens, with_byte_tokens};
use crate::values::{TextTokenizer, Texts};

/// Tokens that are encoded together, and that memory is reserved for at a time.
pub(crate) const TOKENS_AHEAD: usize = 1 << 14;
/// Rows that are encoded together, at most.
pub(crate) const ROWS_AHEAD: usize = 1 << 12;

/// The tokens of a batch of rows.
pub(crate) enum BatchTokens {
    Lists(ListTokens),
    /// Texts whose tokens are what a tokenizer makes of them.
    Texts(Texts, TextTokenizer),
}

/// Lists, restricted to the elements that their rows cover.
pub(crate) struct ListTokens {
    lists: Lists,
    tokens: Tokens,
    /// Subtracted from element positions, because only the covered elements were converted.
    base: usize,
    /// The bytes of text and binary tokens, at most; `None` where the tokens are integers.
    bytes: Option<usize>,
}

/// Rows that are encoded together.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    pub end: usize,
    /// Their tokens, at most.
    pub tokens: usize,
    /// The bytes of text and binary tokens, at most; `None` where the tokens are integers.
    pub bytes: Option<usize>,
    /// The bytes that reading the tokens takes.
    pub scratch: usize,
}

/// The ids of tokens, which are appended to `ids`, repeats as well.
pub trait TokenLookup {
    /// Adds the ids of elements of lists. NULL elements are skipped.
    fn elements(&mut self, tokens: &Tokens, range: Range<usize>, ids: &mut Vec<u32>) -> Result<()>;

    /// Adds the ids of all tokens of some texts.
    fn text(&mut self, tokens: &impl ByteTokens, ids: &mut Vec<u32>) -> Result<()>;
}

/// Adds the tokens that are new.
impl TokenLookup for &mut Dictionary {
    fn elements(&mut self, tokens: &Tokens, range: Range<usize>, ids: &mut Vec<u32>) -> Result<()> {
        self.encode(tokens, range, ids)
    }

    fn text(&mut self, tokens: &impl ByteTokens, ids: &mut Vec<u32>) -> Result<()> {
        self.encode_bytes(tokens, 0..tokens.count(), ids)
    }
}

/// Tokens that the dictionary does not know get [`NO_ID`](crate::values::dictionary::NO_ID).
impl TokenLookup for &Dictionary {
    fn elements(&mut self, tokens: &Tokens, range: Range<usize>, ids: &mut Vec<u32>) -> Result<()> {
        self.find_all(tokens, range, ids);
        Ok(())
    }

    fn text(&mut self, tokens: &impl ByteTokens, ids: &mut Vec<u32>) -> Result<()> {
        self.find_bytes(tokens, 0..tokens.count(), ids);
        Ok(())
    }
}

impl ListTokens {
    pub(crate) fn try_new(array: &dyn Array) -> Result<Self> {
        let lists = Lists::try_new(array)?;
        let covered = lists.covered();
        let tokens = Tokens::try_new(&lists.elements().slice(covered.start, covered.len()))?;
        let bytes = with_byte_tokens!(&tokens, array => Some(array.total_bytes()), else None);
        Ok(Self { lists, tokens, base: covered.start, bytes })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Where the tokens of a row are; `None` when it has none.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> Option<Range<usize>> {
        let range = self.lists.row(row).filter(|r| !r.is_empty())?;
        Some(range.start - self.base..range.end - self.base)
    }

    /// Appends the ids of the tokens of some rows, and notes where those of each row end.
    fn encode(
        &self,
        rows: Range<usize>,
        mut key_of: impl FnMut(usize) -> Result<Option<KeyId>>,
        mut lookup: impl TokenLookup,
        located: &mut LocatedRows,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let nulls = self.tokens.nulls().filter(|n| n.null_count() > 0);
        let all_null = matches!(self.tokens, Tokens::Null);
        let mut end = 0;
        // Neighbouring rows are looked up together.
        let mut waiting = 0..0;
        for row in rows {
            let key = key_of(row)?;
            if let (Some(_), false, Some(range)) = (key, all_null, self.row(row)) {
                end += match nulls {
                    None => range.len(),
                    Some(nulls) => range.len() - nulls.slice(range.start, range.len()).null_count(),
                };
                if range.start != waiting.end {
                    let found = std::mem::replace(&mut waiting, range.clone());
                    lookup.elements(&self.tokens, found, ids)?;
                }
                waiting.end = range.end;
            }
            located.rows.push(LocatedRow { key: key.unwrap_or(0), end });
        }
        lookup.elements(&self.tokens, waiting, ids)
    }
}

impl BatchTokens {
    /// `tokenizer` reads a column of texts; lists are read as they are.
    pub(crate) fn try_new(array: &dyn Array, tokenizer: Option<TextTokenizer>) -> Result<Self> {
        match tokenizer {
            Some(tokenizer) if TokenKind::of_list(array.data_type()).is_none() => {
                Ok(Self::Texts(Texts::try_new(array)?, tokenizer))
            }
            _ => ListTokens::try_new(array).map(Self::Lists),
        }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Lists(lists) => lists.len(),
            Self::Texts(texts, _) => texts.len(),
        }
    }

    /// The number of elements of a row's list; `None` for a text.
    #[inline]
    pub(crate) fn size(&self, row: usize) -> Option<usize> {
        match self {
            Self::Lists(lists) => Some(lists.row(row).map_or(0, |range| range.len())),
            Self::Texts(..) => None,
        }
    }

    /// The tokens of a chunk that begins with row `from`, for the bytes of a dictionary.
    pub(crate) fn added(&self, from: usize, chunk: &Chunk) -> Added {
        let count = chunk.tokens;
        match (self, chunk.bytes) {
            (_, Some(bytes)) => Added::Bytes { count, bytes },
            (Self::Texts(..), None) => Added::Bytes { count, bytes: 0 },
            (Self::Lists(lists), None) => {
                let bounds = (from..chunk.end).filter_map(|row| lists.row(row));
                let (negative, greatest) = bounds
                    .map(|range| lists.tokens.bounds(range))
                    .fold((0, 0), |all, row| (all.0 + row.0, all.1.max(row.1)));
                Added::Integers { count, negative, greatest }
            }
        }
    }

    /// The rows from `from` on that are encoded together, at least one of them.
    pub(crate) fn chunk(&self, from: usize) -> Chunk {
        let mut chunk = Chunk { end: from, tokens: 0, bytes: None, scratch: 0 };
        match self {
            Self::Lists(lists) => {
                chunk.fill(self.len(), |row| lists.row(row).map_or(0, |r| r.len()));
                chunk.bytes = lists.bytes;
            }
            Self::Texts(texts, tokenizer) => {
                let most = |row| tokenizer.most_tokens(texts.value(row).map_or(0, str::len));
                chunk.fill(self.len(), |row| most(row).0);
                let rows = from..chunk.end;
                chunk.bytes = Some(rows.clone().map(|row| most(row).1).sum());
                let lens = rows.filter_map(|row| texts.value(row)).map(str::len);
                chunk.scratch = tokenizer.scratch_bytes(lens);
            }
        }
        chunk
    }

    /// The ids of the tokens of some rows, one row behind the other, repeats as well. `key_of`
    /// gives a row's blocking key, `None` for a row that cannot match.
    pub(crate) fn encode(
        &self,
        rows: Range<usize>,
        mut key_of: impl FnMut(usize) -> Result<Option<KeyId>>,
        mut lookup: impl TokenLookup,
        located: &mut LocatedRows,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        located.rows.clear();
        ids.clear();
        let (texts, tokenizer) = match self {
            Self::Lists(lists) => return lists.encode(rows, key_of, lookup, located, ids),
            Self::Texts(texts, tokenizer) => (texts, *tokenizer),
        };
        let LocatedRows { rows: located, scratch } = located;
        scratch.words.clear();
        for row in rows {
            let key = key_of(row)?;
            let end = match (key.and(texts.value(row)), tokenizer) {
                // Rows have few words: those of all rows are looked up together.
                (Some(text), TextTokenizer::Words) => {
                    scratch.words.append(text);
                    scratch.words.count()
                }
                (Some(text), TextTokenizer::QGrams(_)) => {
                    let tokens = tokenizer.tokens(text, scratch);
                    with_text_tokens!(tokens, tokens => lookup.text(tokens, ids))?;
                    ids.len()
                }
                (None, _) => located.last().map_or(0, |row| row.end),
            };
            located.push(LocatedRow { key: key.unwrap_or(0), end });
        }
        match tokenizer {
            TextTokenizer::Words => lookup.text(&scratch.words, ids),
            TextTokenizer::QGrams(_) => Ok(()),
        }
    }
}

impl Chunk {
    /// Takes rows up to `len`, as many as are encoded together.
    fn fill(&mut self, len: usize, tokens_of: impl Fn(usize) -> usize) {
        let from = self.end;
        while self.end < len.min(from + ROWS_AHEAD) {
            let more = tokens_of(self.end);
            if self.end > from && self.tokens + more > TOKENS_AHEAD {
                return;
            }
            self.tokens += more;
            self.end += 1;
        }
    }
}

/// Rows whose tokens are encoded together.
#[derive(Debug, Default)]
pub(crate) struct LocatedRows {
    pub rows: Vec<LocatedRow>,
    scratch: TextScratch,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LocatedRow {
    pub key: KeyId,
    /// The number of valid tokens up to here, from the first row on.
    pub end: usize,
}

impl LocatedRows {
    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<LocatedRow>() + self.scratch.size_in_bytes()
    }

    /// The bytes that rows at most [`ROWS_AHEAD`] at a time need, besides the scratch of a chunk.
    pub(crate) fn footprint(rows: usize) -> usize {
        rows.min(ROWS_AHEAD).next_power_of_two() * size_of::<LocatedRow>()
    }
}
