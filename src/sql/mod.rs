//! SIMJOIN and [NEAREST](nearest) in SQL text.
//!
//! The SQL parser has no hook for a new kind of join, so SIMJOIN is sugar that is taken out of the
//! text before the parser sees it. [`rewrite_sql`] turns
//!
//! ```sql
//! SELECT * FROM a LEFT SIMJOIN b ON jaccard(a.tokens, b.tokens) >= 0.8 AND a.lang = b.lang
//! ```
//!
//! into stock SQL,
//!
//! ```sql
//! SELECT * FROM a LEFT JOIN    b ON __simjoin_marker() OR jaccard(a.tokens, b.tokens) >= 0.8 AND a.lang = b.lang
//! ```
//!
//! `OR` binds loosest, so the marker needs no closing bracket: the rewriting has to know where an
//! ON condition starts, not where it ends. The analyzer takes the marker out again and insists on
//! the operator for that join. Everything else (comments, literals, white space, line numbers)
//! stays as it was written, byte for byte.
//!
//! SIMJOIN is no reserved word. It is the join where the grammar has a join: in a FROM clause,
//! behind a table and before one. Elsewhere (`SET simjoin.device = 'cpu'`, a column, a table, an
//! alias, a function) it is an ordinary name. One text reads both ways, `FROM a simjoin simjoin b
//! ON …`; there the first word is the join, and an alias is to be written `AS simjoin`.
//!
//! `x IS [NOT] DISTINCT FROM y` gets brackets where the SQL parser would read `y` too far
//! ([`operands`]). A name of a table as the argument of a table function over pairs becomes a query of
//! it ([`tables`]).
//!
//! [`restore_sql`] is the way back, for texts that are shown.
//!
//! [`parse_sql`] parses such a text directly; the statements and errors then carry the positions
//! of the original text.
mod depth;
mod nearest;
mod operands;
mod restore;
mod scan;
mod tables;
#[cfg(test)]
mod tests;
mod words;

use std::borrow::Cow;
use std::collections::VecDeque;

use datafusion::common::{Result, internal_datafusion_err, plan_err};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
pub use depth::check_depth;
pub(crate) use nearest::{
    CANDIDATES_FUNCTION, COUNT_FUNCTION, DISTANCE_FUNCTION, SIMILARITY_FUNCTION,
};
pub use restore::restore_definition;
pub use restore::restore_sql;
use scan::{Edit, EditKind};
pub use tables::PAIR_FUNCTIONS;

/// The function that marks the ON condition of a SIMJOIN, as `ON __simjoin_marker() OR condition`.
pub const MARKER_FUNCTION: &str = "__simjoin_marker";

/// The depth to which an operand or a score may nest where the session's limit is not known: DataFusion's
/// default limit of a statement.
const DEPTH: usize = 50;

/// Turns the SIMJOINs of a text of any number of statements into marked JOINs, by the generic
/// dialect, which is DataFusion's default.
///
/// `x IS [NOT] DISTINCT FROM y` gets brackets where an operator follows that the parser would take for
/// a part of `y`, and `connected_components(t)` of a table becomes
/// `connected_components((SELECT * FROM t))`. Any other text is returned as it is, even when it is no
/// SQL: the parser reports that.
///
/// # Errors
///
/// A plan error with line, column and a correct example: CROSS, NATURAL and other joins that have
/// no similarity form, USING, and a SIMJOIN without a table or an ON condition on its right.
///
/// ```
/// # use datafusion_simjoin::sql::rewrite_sql;
/// let sql = "SELECT * FROM a SIMJOIN b ON jaccard(a.t, b.t) >= 0.8";
/// assert_eq!(
///     rewrite_sql(sql)?,
///     "SELECT * FROM a JOIN    b ON __simjoin_marker() OR jaccard(a.t, b.t) >= 0.8"
/// );
/// let sql = "SELECT * FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.id < b.id";
/// assert_eq!(
///     rewrite_sql(sql)?,
///     "SELECT * FROM a JOIN b ON (a.k IS NOT DISTINCT FROM b.k) AND a.id < b.id"
/// );
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub fn rewrite_sql(sql: &str) -> Result<Cow<'_, str>> {
    rewrite_sql_with_dialect(sql, &GenericDialect {})
}

/// As [`rewrite_sql`], by the tokens of the given dialect.
pub fn rewrite_sql_with_dialect<'a>(sql: &'a str, dialect: &dyn Dialect) -> Result<Cow<'a, str>> {
    let marked = mark_joins(sql, dialect)?;
    let marked = match tables::query_text(&marked, dialect) {
        Some(text) => Cow::Owned(text),
        None => marked,
    };
    if !needs_parser(sql) {
        return Ok(marked);
    }
    let Ok(tokens) = Tokenizer::new(dialect, &marked).with_unescape(false).tokenize_with_location()
    else {
        return Ok(marked);
    };
    nearest::check_scores(&tokens, dialect, DEPTH)?;
    let brackets = operands::find_brackets(&tokens, dialect, DEPTH);
    Ok(match brackets.is_empty() {
        true => marked,
        false => Cow::Owned(operands::bracket_text(&marked, &tokens, &brackets)),
    })
}

/// Whether the parser has to read parts of a text to rewrite it.
fn needs_parser(sql: &str) -> bool {
    mentions_simjoin(sql) || operands::mentions_distinct(sql)
}

fn mark_joins<'a>(sql: &'a str, dialect: &dyn Dialect) -> Result<Cow<'a, str>> {
    if !mentions_simjoin(sql) {
        return Ok(Cow::Borrowed(sql));
    }
    // The spans are wanted, not the values. The parser reports a text that does not tokenize.
    let Ok(tokens) = Tokenizer::new(dialect, sql).with_unescape(false).tokenize_with_location()
    else {
        return Ok(Cow::Borrowed(sql));
    };
    let edits = scan::find_edits(&tokens)?;
    if edits.is_empty() {
        return Ok(Cow::Borrowed(sql));
    }
    splice(sql, &tokens, &edits).map(Cow::Owned)
}

/// Parses a text of any number of statements, SIMJOINs among them.
///
/// As DataFusion's own parser over [`rewrite_sql_with_dialect`]; the statements' spans and the
/// errors' positions are those of `sql` itself.
///
/// # Errors
///
/// The parser's, and those of [`rewrite_sql`].
pub fn parse_sql(
    sql: &str,
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Result<VecDeque<Statement>> {
    parse_sql_at_line(sql, 1, dialect, recursion_limit)
}

/// As [`parse_sql`], for a part of a file: positions count from `first_line`, the line of the file
/// (from 1) on which the part starts.
pub fn parse_sql_at_line(
    sql: &str,
    first_line: u64,
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Result<VecDeque<Statement>> {
    let lines_before = first_line.saturating_sub(1);
    let mut tokens = match Tokenizer::new(dialect, sql).tokenize_with_location() {
        Ok(tokens) => tokens,
        Err(mut error) => {
            error.location.line += lines_before;
            return Err(ParserError::from(error).into());
        }
    };
    for token in &mut tokens {
        token.span.start.line += lines_before;
        token.span.end.line += lines_before;
    }
    if mentions_simjoin(sql) {
        let edits = scan::find_edits(&tokens)?;
        tokens = edit_tokens(tokens, &edits);
    }
    if tables::mentions_pairs(sql) {
        tokens = tables::query_tokens(tokens);
    }
    if needs_parser(sql) {
        nearest::check_scores(&tokens, dialect, recursion_limit)?;
        let brackets = operands::find_brackets(&tokens, dialect, recursion_limit);
        tokens = operands::bracket_tokens(tokens, &brackets);
    }
    DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(recursion_limit)
        .build()?
        .parse_statements()
}

/// Whether the letters of SIMJOIN or NEAREST occur at all: most texts need no more than this.
fn mentions_simjoin(sql: &str) -> bool {
    let is_word =
        |w: &[u8]| w.eq_ignore_ascii_case(b"simjoin") || w.eq_ignore_ascii_case(b"nearest");
    sql.as_bytes().windows(7).any(is_word)
}

/// Applies the edits, which are in the order of their tokens, to the text.
fn splice(sql: &str, tokens: &[TokenWithSpan], edits: &[Edit]) -> Result<String> {
    let mut cursor = TextCursor::new(sql);
    let mut rewritten = String::with_capacity(sql.len() + 32 * edits.len());
    let mut copied = 0;
    for edit in edits {
        let TokenWithSpan { token, span } = tokens
            .get(edit.token)
            .ok_or_else(|| internal_datafusion_err!("SIMJOIN: an edit without its token"))?;
        let (start, end) = (cursor.byte_offset(span.start), cursor.byte_offset(span.end));
        let text;
        let (word, keep_until, resume, insert) = match edit.kind {
            // As wide as the word it replaces: columns up to the ON stay.
            EditKind::Join => ("SIMJOIN", start, end, "JOIN   ".to_string()),
            EditKind::Left => ("", start, start, "LEFT ".to_string()),
            EditKind::Marker => ("ON", end, end, format!(" {MARKER_FUNCTION}() OR")),
            EditKind::Nearest(edit) => {
                text = token.to_string();
                (text.as_str(), start, end, text_of(&edit.tokens()))
            }
        };
        // Executable comments (`/*! … */`) are tokens without a place of their own in the text.
        let found = sql.get(start..end).unwrap_or_default();
        if edit.kind != EditKind::Left && !found.eq_ignore_ascii_case(word) {
            return plan_err!(
                "SIMJOIN and NEAREST cannot stand in an executable comment (line {}, column {})",
                span.start.line,
                span.start.column
            );
        }
        rewritten.push_str(sql.get(copied..keep_until).unwrap_or_default());
        rewritten.push_str(&insert);
        copied = resume;
    }
    rewritten.push_str(sql.get(copied..).unwrap_or_default());
    Ok(rewritten)
}

/// Tokens as text, with a blank between two words.
fn text_of(tokens: &[Token]) -> String {
    let mut text = String::new();
    let is_open = |token: &Token| matches!(token, Token::LParen | Token::RParen | Token::Comma);
    for (index, token) in tokens.iter().enumerate() {
        if index > 0 && !is_open(token) && tokens[index - 1] != Token::LParen {
            text.push(' ');
        }
        text.push_str(&token.to_string());
    }
    text
}

/// Applies the edits to the tokens; those added take the place of the token they stand at.
fn edit_tokens(tokens: Vec<TokenWithSpan>, edits: &[Edit]) -> Vec<TokenWithSpan> {
    let word = |text: &str| Token::make_word(text, None);
    let mut edited = Vec::with_capacity(tokens.len() + 4 * edits.len());
    let mut edits = edits.iter().peekable();
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        match edits.next_if(|edit| edit.token == index).map(|edit| edit.kind) {
            None => edited.push(token),
            Some(EditKind::Join) => edited.push(TokenWithSpan::new(word("JOIN"), span)),
            Some(EditKind::Left) => {
                edited.push(TokenWithSpan::new(word("LEFT"), span));
                edited.push(token);
            }
            Some(EditKind::Marker) => {
                edited.push(token);
                let added = [word(MARKER_FUNCTION), Token::LParen, Token::RParen, word("OR")];
                edited.extend(added.map(|token| TokenWithSpan::new(token, span)));
            }
            Some(EditKind::Nearest(edit)) => {
                let tokens = edit.tokens().into_iter();
                edited.extend(tokens.map(|token| TokenWithSpan::new(token, span)));
            }
        }
    }
    edited
}

/// Turns the tokenizer's positions (line, and column in characters, from 1) into byte offsets.
/// The positions asked for must not decrease.
#[derive(Debug)]
pub struct TextCursor<'a> {
    sql: &'a str,
    rest: std::str::CharIndices<'a>,
    at: Location,
}

impl<'a> TextCursor<'a> {
    /// A cursor at the start of `sql`.
    pub fn new(sql: &'a str) -> Self {
        Self { sql, rest: sql.char_indices(), at: Location::new(1, 1) }
    }

    /// The byte at `location`, which lies behind all earlier ones.
    pub fn byte_offset(&mut self, location: Location) -> usize {
        while self.at < location {
            match self.rest.next() {
                None => return self.sql.len(),
                Some((_, '\n')) => self.at = Location::new(self.at.line + 1, 1),
                Some(_) => self.at.column += 1,
            }
        }
        self.rest.offset()
    }
}
