//! Where the operands of `IS [NOT] DISTINCT FROM` end.
//!
//! The SQL parser (sqlparser 0.62) reads the right operand as a whole expression: it takes
//! `x IS DISTINCT FROM y AND z` for `x IS DISTINCT FROM (y AND z)`. Brackets mend it,
//!
//! ```sql
//! SELECT (x IS DISTINCT FROM y) AND z
//! ```
//!
//! by the precedence of PostgreSQL: `NOT`, `AND` and `OR` end an operand, arithmetic, comparisons,
//! `LIKE`, `IN` and `BETWEEN` do not. PostgreSQL refuses a further `IS` behind the right operand; here it
//! is applied to the whole, as in the SQL standard. The parser itself reads the operands, so that they
//! are whatever it can read.

use std::collections::HashMap;

use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::TextCursor;

/// Whether the letters of DISTINCT occur at all.
pub(super) fn mentions_distinct(sql: &str) -> bool {
    sql.as_bytes().windows(8).any(|word| word.eq_ignore_ascii_case(b"distinct"))
}

/// The first and the last token of an expression that needs brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brackets {
    first: usize,
    last: usize,
}

/// The tokens of an operator.
#[derive(Debug, Clone, Copy)]
struct OperatorTokens {
    is: usize,
    from: usize,
}

/// The expressions with IS [NOT] DISTINCT FROM that need brackets.
pub(super) fn find_brackets(
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Vec<Brackets> {
    let operators = operators(tokens);
    if operators.is_empty() {
        return vec![];
    }
    let parser = Parser::new(dialect)
        .with_recursion_limit(recursion_limit)
        .with_tokens_with_locations(tokens.to_vec());
    let mut reader =
        OperandReader { parser, dialect, tokens, ends: HashMap::new(), firsts: HashMap::new() };
    let mut unfinished = vec![];
    // From the last one on: an operand that begins with NOT holds those behind it.
    for operator in operators.into_iter().rev() {
        // The parser reports an operand that cannot be read.
        let Some((end, next)) = reader.right_end(operator) else { continue };
        reader.ends.insert(operator.from, end);
        // At the end of an expression the parser stops by itself.
        if next > 0 {
            unfinished.push((operator, end));
        }
    }
    // From the first one on: it may be in the left operand of the next one.
    let brackets = unfinished.into_iter().rev().filter_map(|(operator, end)| {
        let first = reader.left_first(operator)?;
        reader.firsts.insert(operator.from, first);
        let last = (first..end).rev().find(|index| is_significant(&tokens[*index]))?;
        Some(Brackets { first, last })
    });
    brackets.collect()
}

fn is_significant(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

fn keyword_of(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn operators(tokens: &[TokenWithSpan]) -> Vec<OperatorTokens> {
    let significant: Vec<usize> =
        (0..tokens.len()).filter(|index| is_significant(&tokens[*index])).collect();
    let keyword =
        |position: usize| significant.get(position).map(|index| keyword_of(&tokens[*index].token));
    let mut found = vec![];
    for (position, is) in significant.iter().enumerate() {
        if keyword(position) != Some(Keyword::IS) {
            continue;
        }
        let distinct = position + 1 + usize::from(keyword(position + 1) == Some(Keyword::NOT));
        if keyword(distinct) == Some(Keyword::DISTINCT)
            && keyword(distinct + 1) == Some(Keyword::FROM)
        {
            found.push(OperatorTokens { is: *is, from: significant[distinct + 1] });
        }
    }
    found
}

type Parsed<T> = Result<T, ParserError>;

fn unreadable<T>() -> Parsed<T> {
    Err(ParserError::ParserError(String::new()))
}

struct OperandReader<'a> {
    parser: Parser<'a>,
    dialect: &'a dyn Dialect,
    tokens: &'a [TokenWithSpan],
    /// By the FROM of an operator the index behind its right operand.
    ends: HashMap<usize, usize>,
    /// By the FROM of an operator the first token of its left operand.
    firsts: HashMap<usize, usize>,
}

impl OperandReader<'_> {
    /// Makes the token at the index, a significant one, the next one.
    fn seek(&mut self, index: usize) {
        while self.parser.index() > index {
            self.parser.prev_token();
        }
        while self.next_index() < index {
            self.parser.advance_token();
        }
    }

    /// The index of the next significant token.
    fn next_index(&self) -> usize {
        let end = self.tokens.len();
        let mut behind = self.parser.index()..end;
        behind.find(|index| is_significant(&self.tokens[*index])).unwrap_or(end)
    }

    /// The index behind the right operand of an operator, and the precedence of what follows it.
    fn right_end(&mut self, operator: OperatorTokens) -> Option<(usize, u8)> {
        self.seek(operator.from);
        self.parser.advance_token();
        // IS binds closer than NOT, and belongs to what NOT negates.
        let mut is_negated = false;
        while self.parser.parse_keyword(Keyword::NOT) {
            is_negated = true;
        }
        self.read_operand(|reader, precedence| {
            !is_negated && precedence == reader.dialect.prec_value(Precedence::Is)
        })
        .ok()?;
        Some((self.parser.index(), self.parser.get_next_precedence().ok()?))
    }

    /// Reads on up to where `ends`, given the precedence of the next token, says, or to an operator that
    /// binds no closer than NOT.
    fn read_operand(&mut self, ends: impl Fn(&Self, u8) -> bool) -> Parsed<()> {
        // No operator binds closer: this reads up to the first one.
        let mut operand = self.parser.parse_subexpr(u8::MAX)?;
        loop {
            let precedence = self.parser.get_next_precedence()?;
            if precedence <= self.dialect.prec_value(Precedence::UnaryNot)
                || ends(self, precedence)
                || self.parser.peek_token_ref().token == Token::Period
            {
                return Ok(());
            }
            use Keyword::{DISTINCT, FROM, IS, NOT};
            let is_distinct = self.parser.parse_keywords(&[IS, DISTINCT, FROM])
                || self.parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
            if is_distinct {
                let from = self.parser.get_current_index();
                let Some(end) = self.ends.get(&from).copied() else { return unreadable() };
                while self.parser.index() < end {
                    self.parser.advance_token();
                }
                continue;
            }
            operand = self.parser.parse_infix(operand, precedence)?;
        }
    }

    /// The first token of the left operand of an operator: the first one from which on an operand ends at
    /// the operator.
    fn left_first(&mut self, operator: OperatorTokens) -> Option<usize> {
        let before = |tokens: &[TokenWithSpan]| tokens.iter().rposition(is_significant);
        let mut walk = OperandWalk::default();
        let mut index = operator.is;
        while let Some(previous) = before(&self.tokens[..index]) {
            index = previous;
            if walk.is_in_operand() && self.ends.get(&index).is_some_and(|end| *end <= operator.is)
            {
                // x IS DISTINCT FROM y [IS NULL] IS DISTINCT FROM z
                return self.firsts.get(&index).copied();
            }
            let token = &self.tokens[index].token;
            let is_part = before(&self.tokens[..index])
                .is_some_and(|before| self.tokens[before].token == Token::Period);
            let keyword = if is_part { Keyword::NoKeyword } else { keyword_of(token) };
            if !walk.goes_on(token, keyword) {
                break;
            }
            if !walk.is_inside() && starts_operand(keyword) {
                walk.firsts.push(index);
            }
        }
        let firsts = walk.into_firsts();
        let first = firsts.into_iter().rev().find(|first| {
            self.seek(*first);
            self.ends_at(operator.is)
        })?;
        match self.behind_equals(first, operator.is) {
            // The `=` of `SET x = …` is no operator.
            Some(behind) if self.is_assigned(first) => Some(behind),
            _ => Some(first),
        }
    }

    /// Whether the operand that begins here ends at the token.
    fn ends_at(&mut self, is: usize) -> bool {
        let read = self.read_operand(|reader, _| reader.next_index() >= is);
        read.is_ok() && self.next_index() == is
    }

    /// Whether the token is in the assignments of a SET, outside of brackets.
    fn is_assigned(&self, token: usize) -> bool {
        let mut depth = 0_usize;
        for token in self.tokens[..token].iter().rev() {
            match &token.token {
                Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
                Token::LParen | Token::LBracket | Token::LBrace => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return false,
                },
                Token::SemiColon => return false,
                token if depth == 0 => match keyword_of(token) {
                    Keyword::SET => return true,
                    keyword if ends_assignments(keyword) => return false,
                    _ => {}
                },
                _ => {}
            }
        }
        false
    }

    /// The token behind the first `=` between two tokens.
    fn behind_equals(&self, first: usize, end: usize) -> Option<usize> {
        let mut between = (first..end).filter(|index| is_significant(&self.tokens[*index]));
        between.find(|index| self.tokens[*index].token == Token::Eq)?;
        between.next()
    }
}

/// A walk from an operator back to where its left operand may begin.
#[derive(Debug, Default)]
struct OperandWalk {
    /// Brackets and CASEs that the walk is inside of.
    brackets: usize,
    cases: usize,
    /// Where the operand may begin, the last token first.
    firsts: Vec<usize>,
    /// The number of those behind the AND for which BETWEEN is to come.
    behind_and: Option<usize>,
}

impl OperandWalk {
    fn is_inside(&self) -> bool {
        self.brackets > 0 || self.cases > 0
    }

    /// Whether the walk is outside of brackets and has met no AND.
    fn is_in_operand(&self) -> bool {
        !self.is_inside() && self.behind_and.is_none()
    }

    fn into_firsts(mut self) -> Vec<usize> {
        // An AND without BETWEEN ends the operand.
        if let Some(behind) = self.behind_and {
            self.firsts.truncate(behind);
        }
        self.firsts
    }

    /// Whether the operand may go on with the token.
    fn goes_on(&mut self, token: &Token, keyword: Keyword) -> bool {
        match token {
            Token::RParen | Token::RBracket | Token::RBrace => self.brackets += 1,
            Token::LParen | Token::LBracket | Token::LBrace => match self.brackets.checked_sub(1) {
                Some(brackets) => self.brackets = brackets,
                None => return false,
            },
            _ if self.brackets > 0 => {}
            Token::SemiColon | Token::Comma => return false,
            _ => match keyword {
                Keyword::END => self.cases += 1,
                Keyword::CASE => match self.cases.checked_sub(1) {
                    Some(cases) => self.cases = cases,
                    None => return false,
                },
                _ if self.cases > 0 => {}
                Keyword::BETWEEN => self.behind_and = None,
                Keyword::AND if self.behind_and.is_some() => return false,
                Keyword::AND => self.behind_and = Some(self.firsts.len()),
                // Another operator.
                Keyword::FROM => return false,
                keyword => return !ends_operand(keyword),
            },
        }
        true
    }
}

/// Words before which no operand goes on.
fn ends_operand(keyword: Keyword) -> bool {
    use Keyword::{ELSE, HAVING, ON, OR, QUALIFY, SELECT, SET, THEN, WHEN, WHERE};
    matches!(keyword, SELECT | WHERE | HAVING | QUALIFY | ON | SET | WHEN | THEN | ELSE | OR)
}

/// Words that, behind a SET, are in another clause.
fn ends_assignments(keyword: Keyword) -> bool {
    use Keyword::{BY, HAVING, ON, QUALIFY, SELECT, USING, VALUES, WHERE};
    matches!(keyword, SELECT | WHERE | HAVING | QUALIFY | ON | BY | USING | VALUES)
}

/// Whether a word may begin an operand: the parser takes any word before a bracket for a function.
fn starts_operand(keyword: Keyword) -> bool {
    use Keyword::*;
    !super::words::expects_operand(keyword) && !matches!(keyword, AS | BY | USING | END | JOIN)
        || matches!(keyword, CASE | EXISTS | INTERVAL | PRIOR)
}

/// Puts brackets into a text.
pub(super) fn bracket_text(sql: &str, tokens: &[TokenWithSpan], brackets: &[Brackets]) -> String {
    let mut places: Vec<_> = brackets
        .iter()
        .flat_map(|Brackets { first, last }| {
            [(tokens[*first].span.start, "("), (tokens[*last].span.end, ")")]
        })
        .collect();
    places.sort_by_key(|(place, _)| *place);
    let mut cursor = TextCursor::new(sql);
    let mut bracketed = String::with_capacity(sql.len() + places.len());
    let mut copied = 0;
    for (place, bracket) in places {
        let at = cursor.byte_offset(place);
        bracketed.push_str(sql.get(copied..at).unwrap_or_default());
        bracketed.push_str(bracket);
        copied = at;
    }
    bracketed.push_str(sql.get(copied..).unwrap_or_default());
    bracketed
}

/// Puts brackets among the tokens, at the places of the tokens that they stand beside.
pub(super) fn bracket_tokens(
    tokens: Vec<TokenWithSpan>,
    brackets: &[Brackets],
) -> Vec<TokenWithSpan> {
    // How many begin and end at a token.
    let mut counts: HashMap<usize, [usize; 2]> = HashMap::new();
    for Brackets { first, last } in brackets {
        counts.entry(*first).or_default()[0] += 1;
        counts.entry(*last).or_default()[1] += 1;
    }
    let mut bracketed = Vec::with_capacity(tokens.len() + 2 * brackets.len());
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        let [begin, end] = counts.get(&index).copied().unwrap_or_default();
        let open = std::iter::repeat_n(Token::LParen, begin);
        let close = std::iter::repeat_n(Token::RParen, end);
        bracketed.extend(open.map(|token| TokenWithSpan::new(token, span)));
        bracketed.push(token);
        bracketed.extend(close.map(|token| TokenWithSpan::new(token, span)));
    }
    bracketed
}

#[cfg(test)]
mod tests;
