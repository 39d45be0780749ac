//! Where a text's SIMJOINs are: enough of the grammar of FROM clauses to tell the join from the
//! name.
//!
//! One [`ScanFrame`] per open bracket says what may come next there and which joins of that bracket
//! still wait for their ON; conditions nest (`a JOIN b SIMJOIN c ON … ON …`), so the waiting joins
//! are a stack. Text that is no SQL passes through: the parser behind reports it.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{ends_from, expects_operand, is_operand, starts_join_type};

const EXAMPLE: &str = "FROM a SIMJOIN b ON jaccard(a.tokens, b.tokens) >= 0.8";

/// A change at a token of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edit {
    /// Index of the token, white space counted.
    pub token: usize,
    pub kind: EditKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditKind {
    /// Replace SIMJOIN by JOIN.
    Join,
    /// Put LEFT before a bare SEMI or ANTI, which DataFusion does not plan.
    Left,
    /// Put the marker behind the ON.
    Marker,
    /// An edit of a NEAREST clause.
    Nearest(NearestEdit),
}

/// An edit of a [NEAREST clause](super::nearest), in place of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NearestEdit {
    /// NEAREST, for the ON with the number of neighbours; `one` where the text has no number.
    Count { insists: bool, with_ties: bool, one: bool },
    /// DISTANCE or SIMILARITY, for a comparison with the score.
    Score { is_distance: bool },
    /// The ON, behind which the condition stands.
    Candidates,
    /// BY.
    By,
    /// A word that the others make needless.
    Needless,
}

/// The edits that turn the SIMJOINs of the text into marked joins, in the order of their tokens.
pub(super) fn find_edits(tokens: &[TokenWithSpan]) -> Result<Vec<Edit>> {
    let significant = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
        .map(|(index, _)| index)
        .collect();
    let mut scanner = Scanner {
        tokens,
        significant,
        frames: vec![ScanFrame::new(State::Outside)],
        edits: vec![],
        next: 0,
    };
    for position in 0..scanner.significant.len() {
        if position >= scanner.next {
            scanner.step(position)?;
        }
    }
    scanner.end_statement()?;
    // Joins and conditions come in the order of the text, but a LEFT is known only at its SIMJOIN.
    scanner.edits.sort_by_key(|edit| edit.token);
    Ok(scanner.edits)
}

/// The tokens that may come next inside a bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No FROM clause: SIMJOIN is a name.
    Outside,
    /// A table, subquery or bracketed join must come.
    Factor,
    /// Behind a table; its alias may still come, unless it has one.
    Table { aliased: bool },
    /// Behind AS: an alias must come.
    Alias,
    /// Behind the first words of a join, such as LEFT SEMI, from that position on.
    JoinType { start: usize },
    /// In an ON condition; with `operand`, an operand has just ended and no name can follow.
    Condition { operand: bool },
    /// Behind the pipe operator `|>`.
    Pipe,
}

/// A join that waits for its condition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pending {
    /// The position of the word JOIN.
    Plain(usize),
    /// The position of the word SIMJOIN.
    Similarity(usize),
    /// A join with a NEAREST clause, which may do without a condition.
    Nearest,
}

#[derive(Debug)]
pub(super) struct ScanFrame {
    pub state: State,
    pub pending: Vec<Pending>,
}

impl ScanFrame {
    fn new(state: State) -> Self {
        Self { state, pending: vec![] }
    }
}

/// Positions count the significant tokens: all but white space and comments.
pub(super) struct Scanner<'a> {
    tokens: &'a [TokenWithSpan],
    significant: Vec<usize>,
    /// Never empty; the last is the innermost open bracket.
    frames: Vec<ScanFrame>,
    edits: Vec<Edit>,
    /// The positions before it are read.
    next: usize,
}

impl Scanner<'_> {
    pub(super) fn token(&self, position: usize) -> &Token {
        self.significant.get(position).map_or(&Token::EOF, |index| &self.tokens[*index].token)
    }

    /// The keyword at the position; none for names, quoted words and other tokens.
    pub(super) fn keyword(&self, position: usize) -> Keyword {
        match self.token(position) {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        }
    }

    pub(super) fn is_simjoin(&self, position: usize) -> bool {
        matches!(self.token(position), Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("simjoin"))
    }

    pub(super) fn frame(&mut self) -> &mut ScanFrame {
        if self.frames.is_empty() {
            self.frames.push(ScanFrame::new(State::Outside));
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn go(&mut self, state: State) -> Result<()> {
        self.frame().state = state;
        Ok(())
    }

    fn step(&mut self, position: usize) -> Result<()> {
        let state = self.frame().state;
        match self.token(position) {
            Token::SemiColon => self.end_statement(),
            Token::LParen | Token::LBracket | Token::LBrace => {
                let inner = match (state, self.token(position)) {
                    (State::Factor, Token::LParen) => State::Factor,
                    _ => State::Outside,
                };
                self.value()?;
                self.frames.push(ScanFrame::new(inner));
                Ok(())
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.end_clause()?;
                if self.frames.len() > 1 {
                    self.frames.pop();
                }
                Ok(())
            }
            Token::Comma if state != State::Outside => {
                self.end_clause()?;
                self.go(State::Factor)
            }
            Token::VerticalBarRightAngleBracket => {
                self.end_clause()?;
                self.go(State::Pipe)
            }
            Token::Word(word) if word.quote_style.is_none() => {
                match position.checked_sub(1).map(|previous| self.token(previous)) {
                    // Behind a period every word is a part of a name.
                    Some(Token::Period) => self.value(),
                    _ => self.word(position, state),
                }
            }
            token if is_operand(token) => self.value(),
            _ => match state {
                State::Condition { .. } => self.go(State::Condition { operand: false }),
                _ => Ok(()),
            },
        }
    }

    /// A name, a literal or a bracket.
    fn value(&mut self) -> Result<()> {
        let frame = self.frame();
        frame.state = match frame.state {
            State::Outside | State::Pipe => State::Outside,
            State::Factor => State::Table { aliased: false },
            // Behind a table without an alias a value is the alias, but for the rest of a name
            // (`schema.table`) and the arguments of a function, behind which an alias may come.
            // Taking that for no alias yet is right for all: SIMJOIN then looks ahead.
            State::Table { aliased } => State::Table { aliased },
            State::Alias | State::JoinType { .. } => State::Table { aliased: true },
            State::Condition { .. } => State::Condition { operand: true },
        };
        Ok(())
    }

    /// An unquoted word that does not follow a period.
    fn word(&mut self, position: usize, state: State) -> Result<()> {
        let keyword = self.keyword(position);
        match state {
            State::Outside => match keyword {
                Keyword::FROM if !self.is_distinct_from(position) => self.go(State::Factor),
                _ => Ok(()),
            },
            State::Factor => match keyword {
                Keyword::LATERAL | Keyword::FROM => Ok(()),
                Keyword::SELECT | Keyword::WITH => self.go(State::Outside),
                _ => self.value(),
            },
            State::Alias => self.value(),
            State::JoinType { start } => {
                if self.is_simjoin(position) {
                    return self.simjoin(position, start);
                }
                match keyword {
                    Keyword::JOIN => {
                        let has_condition = !(start..position)
                            .any(|p| matches!(self.keyword(p), Keyword::CROSS | Keyword::NATURAL));
                        if has_condition {
                            self.frame().pending.push(Pending::Plain(position));
                        }
                        self.go(State::Factor)
                    }
                    Keyword::APPLY => self.go(State::Factor),
                    keyword if starts_join_type(keyword) => Ok(()),
                    _ => self.go(State::Table { aliased: true }),
                }
            }
            State::Condition { operand: false } => {
                self.go(State::Condition { operand: !expects_operand(keyword) })
            }
            State::Pipe if !self.is_join_word(position) => self.go(State::Outside),
            State::Pipe | State::Condition { operand: true } | State::Table { .. } => {
                self.behind_table(position, state)
            }
        }
    }

    /// A word where a join may come.
    fn behind_table(&mut self, position: usize, state: State) -> Result<()> {
        let in_condition = matches!(state, State::Condition { .. });
        let unaliased = state == State::Table { aliased: false };
        if !in_condition && let Some(clause) = self.nearest(position)? {
            return self.take_nearest(&clause);
        }
        if self.is_simjoin(position) {
            if unaliased
                && (!self.starts_table(position + 1, true) || self.is_join_alone(position + 1))
            {
                return self.simjoin_as_alias(position);
            }
            return self.simjoin(position, position);
        }
        match self.keyword(position) {
            Keyword::JOIN | Keyword::STRAIGHT_JOIN => {
                self.end_nearest();
                self.frame().pending.push(Pending::Plain(position));
                self.go(State::Factor)
            }
            Keyword::ON => match self.frame().pending.pop() {
                Some(pending) => {
                    match pending {
                        Pending::Similarity(_) => self.edit(position, EditKind::Marker),
                        Pending::Nearest => self.edit_nearest(position, NearestEdit::Candidates),
                        Pending::Plain(_) => {}
                    }
                    self.go(State::Condition { operand: false })
                }
                None => self.go(State::Outside),
            },
            Keyword::USING if *self.token(position + 1) == Token::LParen => {
                match self.frame().pending.pop() {
                    Some(Pending::Similarity(join)) => plan_err!(
                        "SIMJOIN … USING ({}) compares columns for equality; \
                         SIMJOIN needs an ON condition with a similarity, for example: {EXAMPLE}",
                        self.place(join)
                    ),
                    _ => self.go(State::Table { aliased: true }),
                }
            }
            Keyword::USING | Keyword::FROM => {
                self.end_clause()?;
                self.go(State::Factor)
            }
            keyword if starts_join_type(keyword) => {
                self.end_nearest();
                self.go(State::JoinType { start: position })
            }
            keyword if ends_from(keyword) => self.end_clause(),
            Keyword::WITH if in_condition => self.end_clause(),
            keyword if in_condition => {
                self.go(State::Condition { operand: !expects_operand(keyword) })
            }
            Keyword::AS => self.go(State::Alias),
            // Followed by brackets, and then by the alias.
            Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE
            | Keyword::PARTITION
            | Keyword::WITH => self.go(State::Table { aliased: false }),
            _ => self.go(State::Table { aliased: true }),
        }
    }

    /// SIMJOIN behind a table without an alias and not before a table: it is the alias.
    fn simjoin_as_alias(&mut self, position: usize) -> Result<()> {
        let no_join_waits = self.frame().pending.is_empty();
        let conflict_clause =
            matches!(self.keyword(position + 2), Keyword::CONFLICT | Keyword::DUPLICATE);
        if self.keyword(position + 1) == Keyword::ON && no_join_waits && !conflict_clause {
            return self.missing_table(position);
        }
        self.go(State::Table { aliased: true })
    }

    /// SIMJOIN as the join; its type is written from `start` on.
    fn simjoin(&mut self, position: usize, start: usize) -> Result<()> {
        use Keyword::{ANTI, FULL, INNER, LEFT, OUTER, RIGHT, SEMI};
        let join_type: Vec<Keyword> = (start..position).map(|p| self.keyword(p)).collect();
        match join_type.as_slice() {
            [] | [INNER] | [LEFT | RIGHT | FULL] | [LEFT | RIGHT | FULL, OUTER] => {}
            [LEFT | RIGHT, SEMI | ANTI] => {}
            [SEMI | ANTI] => self.edit(start, EditKind::Left),
            _ => {
                let words: Vec<_> =
                    (start..position).map(|p| self.token(p).to_string().to_uppercase()).collect();
                return plan_err!(
                    "{} SIMJOIN ({}) is no join type; use [INNER | LEFT | RIGHT | FULL [OUTER] | \
                     LEFT SEMI | LEFT ANTI | RIGHT SEMI | RIGHT ANTI] SIMJOIN with an ON \
                     condition, for example: {EXAMPLE}",
                    words.join(" "),
                    self.place(start)
                );
            }
        }
        if !self.starts_table(position + 1, false) {
            return self.missing_table(position);
        }
        self.edit(position, EditKind::Join);
        self.end_nearest();
        self.frame().pending.push(Pending::Similarity(position));
        self.go(State::Factor)
    }

    fn missing_table(&self, position: usize) -> Result<()> {
        let found = match self.token(position + 1) {
            Token::EOF => "the end of the text".to_string(),
            token => token.to_string(),
        };
        plan_err!(
            "SIMJOIN ({}) needs a table on its right, found {found}; for example: {EXAMPLE}",
            self.place(position)
        )
    }

    /// The end of a FROM clause, or of one of its comma-separated items.
    fn end_clause(&mut self) -> Result<()> {
        let frame = self.frame();
        frame.state = State::Outside;
        for pending in std::mem::take(&mut frame.pending) {
            if let Pending::Similarity(join) = pending {
                return plan_err!(
                    "SIMJOIN ({}) has no ON condition; for example: {EXAMPLE}",
                    self.place(join)
                );
            }
        }
        Ok(())
    }

    fn end_statement(&mut self) -> Result<()> {
        while !self.frames.is_empty() {
            self.end_clause()?;
            self.frames.pop();
        }
        self.frames.push(ScanFrame::new(State::Outside));
        Ok(())
    }

    /// Leaves out the positions before `position`, which have been read.
    pub(super) fn skip_to(&mut self, position: usize) {
        self.next = position;
    }

    pub(super) fn edit(&mut self, position: usize, kind: EditKind) {
        if let Some(token) = self.significant.get(position) {
            self.edits.push(Edit { token: *token, kind });
        }
    }

    pub(super) fn place(&self, position: usize) -> String {
        match self.significant.get(position) {
            Some(index) => {
                let start = self.tokens[*index].span.start;
                format!("line {}, column {}", start.line, start.column)
            }
            None => "end of the text".to_string(),
        }
    }

    fn is_join_word(&self, position: usize) -> bool {
        let keyword = self.keyword(position);
        keyword == Keyword::JOIN || starts_join_type(keyword) || self.is_simjoin(position)
    }

    /// The FROM of `IS [NOT] DISTINCT FROM`.
    fn is_distinct_from(&self, position: usize) -> bool {
        let before = |n: usize| position.checked_sub(n).map(|p| self.keyword(p));
        before(1) == Some(Keyword::DISTINCT)
            && matches!(before(2), Some(Keyword::IS | Keyword::NOT))
    }

    /// Whether a table, subquery or bracketed join starts at the position. Where SIMJOIN may be
    /// an alias (`or_alias`), what may follow an alias does not start a table.
    fn starts_table(&self, position: usize, or_alias: bool) -> bool {
        match self.token(position) {
            Token::Word(word) if word.quote_style.is_some() => true,
            Token::Word(word) => match word.keyword {
                Keyword::LATERAL => true,
                Keyword::AS | Keyword::STRAIGHT_JOIN => false,
                // Reserved for an alias, not for a table: `SIMJOIN sample ON …`.
                keyword if RESERVED_FOR_TABLE_ALIAS.contains(&keyword) => {
                    *self.token(position + 1) == Token::Period
                        || matches!(self.keyword(position + 1), Keyword::ON | Keyword::AS)
                            && !matches!(keyword, Keyword::ON | Keyword::USING | Keyword::JOIN)
                }
                _ => true,
            },
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::AtSign => true,
            Token::LParen => !or_alias || !self.is_column_list(position),
            _ => false,
        }
    }

    /// Whether a SIMJOIN behind SIMJOIN is the join and no table, as in `FROM a simjoin SIMJOIN b c`:
    /// a table and its alias follow, where a table would have an alias alone.
    fn is_join_alone(&self, position: usize) -> bool {
        if !self.is_simjoin(position) || !self.starts_table(position + 1, false) {
            return false;
        }
        match self.token(position + 1) {
            Token::LParen => {
                self.starts_query(position + 2) || *self.token(position + 2) == Token::LParen
            }
            Token::SingleQuotedString(_) => true,
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::LATERAL => {
                true
            }
            Token::Word(_) => match self.token(position + 2) {
                Token::Period => true,
                Token::LParen => !self.is_list_of_names(position + 2),
                _ => self.keyword(position + 2) == Keyword::AS || self.is_alias(position + 2),
            },
            _ => false,
        }
    }

    /// Whether the bracket holds names alone, as that of an alias does; arguments may be names, too.
    fn is_list_of_names(&self, open: usize) -> bool {
        let mut inside = (open + 1..self.significant.len()).map(|position| self.token(position));
        inside.find(|token| !matches!(token, Token::Word(_) | Token::Comma)) == Some(&Token::RParen)
    }

    /// Whether the bracket holds the column names of an alias, `simjoin (x, y)`, and no table.
    fn is_column_list(&self, open: usize) -> bool {
        if self.starts_query(open + 1) || !matches!(self.token(open + 1), Token::Word(_)) {
            return false;
        }
        let mut depth = 0;
        for position in open..self.significant.len() {
            match self.token(position) {
                Token::LParen => depth += 1,
                Token::RParen if depth > 1 => depth -= 1,
                Token::RParen => {
                    // `(x)` is a table when an alias or a condition follows it.
                    return position == open + 2
                        && self.keyword(position + 1) != Keyword::ON
                        && !self.is_alias(position + 1);
                }
                Token::Comma if depth == 1 => return true,
                _ => {}
            }
        }
        false
    }

    fn starts_query(&self, position: usize) -> bool {
        use Keyword::{FROM, SELECT, TABLE, VALUES, WITH};
        matches!(self.keyword(position), SELECT | WITH | VALUES | FROM | TABLE)
    }

    fn is_alias(&self, position: usize) -> bool {
        match self.token(position) {
            Token::Word(word) if self.is_simjoin(position) => word.quote_style.is_some(),
            Token::Word(word) => {
                word.quote_style.is_some() || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
            }
            _ => false,
        }
    }
}
