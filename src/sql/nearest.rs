//! The NEAREST clause of a join.
//!
//! ```sql
//! SELECT * FROM a SIMJOIN b NEAREST 10 WITH TIES BY SIMILARITY jaccard(a.tokens, b.tokens) ON a.id <> b.id
//! ```
//!
//! becomes a join on alternatives, of which each function tells what the next one is:
//!
//! ```sql
//! SELECT * FROM a JOIN b ON __simjoin_nearest(true, true) = 10
//!     OR __simjoin_similarity() <= jaccard(a.tokens, b.tokens) OR __simjoin_candidates() OR a.id <> b.id
//! ```
//!
//! As `OR` binds loosest, the rewriting need not know where score and condition end. The arguments say
//! whether SIMJOIN insists on the operator, and whether ties are neighbours.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::scan::{EditKind, NearestEdit, Pending, Scanner, State};

/// The function whose value is compared with the number of neighbours.
pub(crate) const COUNT_FUNCTION: &str = "__simjoin_nearest";
/// The function that is compared with a distance.
pub(crate) const DISTANCE_FUNCTION: &str = "__simjoin_distance";
/// The function that is compared with a similarity.
pub(crate) const SIMILARITY_FUNCTION: &str = "__simjoin_similarity";
/// The function before the condition.
pub(crate) const CANDIDATES_FUNCTION: &str = "__simjoin_candidates";

const EXAMPLE: &str = "a SIMJOIN b NEAREST 10 BY SIMILARITY jaccard(a.tokens, b.tokens)";

/// The positions of a clause's words.
#[derive(Debug)]
pub(super) struct Clause {
    /// EXACT or APPROX.
    manner: Option<usize>,
    nearest: usize,
    count: Option<usize>,
    /// WITH; TIES follows.
    with: Option<usize>,
    by: usize,
    is_distance: bool,
}

impl Scanner<'_> {
    fn is_word(&self, position: usize, word: &str) -> bool {
        matches!(self.token(position), Token::Word(found)
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    /// The clause that starts at the position behind the table of a join; `None` where none does.
    ///
    /// # Errors
    ///
    /// A plan error where a clause is begun and something else follows.
    pub(super) fn nearest(&mut self, position: usize) -> Result<Option<Clause>> {
        if self.frame().pending.is_empty() {
            return Ok(None);
        }
        let has_manner = self.is_word(position, "exact") || self.is_word(position, "approx");
        let nearest = position + usize::from(has_manner);
        if !self.is_word(nearest, "nearest") {
            return Ok(None);
        }
        let mut at = nearest + 1;
        // A name in the place of the number.
        let is_name = matches!(self.token(at), Token::Word(_)) && self.keyword(at) != Keyword::BY;
        if is_name && self.keyword(at + 1) == Keyword::BY {
            return self.malformed(nearest, "a positive number", at);
        }
        let is_negative = *self.token(at) == Token::Minus;
        at += usize::from(is_negative);
        let is_count = matches!(self.token(at), Token::Number(..) | Token::Placeholder(_));
        let count = is_count.then_some(at);
        at += usize::from(is_count);
        let has_ties = self.keyword(at) == Keyword::WITH && self.is_word(at + 1, "ties");
        let with = has_ties.then_some(at);
        at += if has_ties { 2 } else { 0 };
        if self.keyword(at) != Keyword::BY {
            // `nearest` is an alias, unless a number follows it.
            return match is_count || has_ties || has_manner && self.keyword(at) == Keyword::ON {
                true => self.malformed(nearest, "BY {DISTANCE | SIMILARITY}", at),
                false => Ok(None),
            };
        }
        if is_negative {
            return self.malformed(nearest, "a positive number", nearest + 1);
        }
        let is_distance = self.is_word(at + 1, "distance");
        if !is_distance && !self.is_word(at + 1, "similarity") {
            return self.malformed(nearest, "DISTANCE or SIMILARITY behind BY", at + 1);
        }
        let manner = has_manner.then_some(position);
        Ok(Some(Clause { manner, nearest, count, with, by: at, is_distance }))
    }

    fn malformed<T>(&self, nearest: usize, wanted: &str, found: usize) -> Result<T> {
        let found = match self.token(found) {
            Token::EOF => "the end of the text".to_string(),
            token => token.to_string(),
        };
        plan_err!(
            "NEAREST ({}) needs {wanted}, found {found}; write [EXACT | APPROX] NEAREST [k] [WITH \
             TIES] BY {{DISTANCE | SIMILARITY}} score [ON condition], for example: {EXAMPLE}",
            self.place(nearest)
        )
    }

    /// Edits the words of a clause, behind which its score comes.
    pub(super) fn take_nearest(&mut self, clause: &Clause) -> Result<()> {
        let join = match self.frame().pending.pop() {
            Some(Pending::Plain(join) | Pending::Similarity(join)) => join,
            Some(Pending::Nearest) | None => {
                return plan_err!(
                    "NEAREST ({}) stands behind no join; for example: {EXAMPLE}",
                    self.place(clause.nearest)
                );
            }
        };
        let insists = self.is_simjoin(join);
        let mut words: Vec<_> = (0..join).rev().map(|p| self.keyword(p)).take(2).collect();
        words.retain(|word| super::words::starts_join_type(*word));
        let is_known = match words.as_slice() {
            [] | [Keyword::INNER | Keyword::LEFT, ..] => true,
            [Keyword::OUTER, before] => *before == Keyword::LEFT,
            _ => false,
        };
        if !is_known {
            return plan_err!(
                "NEAREST ({}) goes with [INNER | LEFT [OUTER]] joins: each left row has its nearest \
                 right rows; exchange the tables of a RIGHT join; for example: {EXAMPLE}",
                self.place(clause.nearest)
            );
        }
        let with_ties = clause.with.is_some();
        let count = NearestEdit::Count { insists, with_ties, one: clause.count.is_none() };
        clause.manner.into_iter().for_each(|at| self.edit_nearest(at, NearestEdit::Needless));
        self.edit_nearest(clause.nearest, count);
        for at in clause.with.into_iter().flat_map(|with| [with, with + 1]) {
            self.edit_nearest(at, NearestEdit::Needless);
        }
        self.edit_nearest(clause.by, NearestEdit::By);
        let score = NearestEdit::Score { is_distance: clause.is_distance };
        self.edit_nearest(clause.by + 1, score);
        self.skip_to(clause.by + 2);
        self.frame().pending.push(Pending::Nearest);
        self.frame().state = State::Condition { operand: false };
        Ok(())
    }

    pub(super) fn edit_nearest(&mut self, position: usize, edit: NearestEdit) {
        self.edit(position, EditKind::Nearest(edit));
    }

    /// Ends a NEAREST clause without a condition, where the next join begins.
    pub(super) fn end_nearest(&mut self) {
        if let Some(Pending::Nearest) = self.frame().pending.last() {
            self.frame().pending.pop();
        }
    }
}

impl NearestEdit {
    /// The tokens in place of the one that is edited.
    pub(super) fn tokens(self) -> Vec<Token> {
        let word = |text: &str| Token::make_word(text, None);
        let call = |name: &str| vec![word(name), Token::LParen, Token::RParen];
        match self {
            Self::Count { insists, with_ties, one } => {
                let flag = |flag: bool| word(if flag { "true" } else { "false" });
                let mut tokens = vec![word("ON"), word(COUNT_FUNCTION), Token::LParen];
                tokens.extend([flag(insists), Token::Comma, flag(with_ties), Token::RParen]);
                tokens.push(Token::Eq);
                tokens.extend(one.then(|| Token::Number("1".to_string(), false)));
                tokens
            }
            Self::Score { is_distance } => {
                let name = if is_distance { DISTANCE_FUNCTION } else { SIMILARITY_FUNCTION };
                [call(name), vec![Token::LtEq]].concat()
            }
            Self::Candidates => {
                [vec![word("OR")], call(CANDIDATES_FUNCTION), vec![word("OR")]].concat()
            }
            Self::By => vec![word("OR")],
            Self::Needless => vec![],
        }
    }
}

/// Checks that the scores among rewritten tokens are no conditions, which the comparison before a score
/// would be taken into.
///
/// # Errors
///
/// A plan error with the score.
pub(super) fn check_scores(
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Result<()> {
    let is_score = |token: &Token| {
        matches!(token, Token::Word(word)
            if word.value == DISTANCE_FUNCTION || word.value == SIMILARITY_FUNCTION)
    };
    if !tokens.iter().any(|token| is_score(&token.token)) {
        return Ok(());
    }
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(recursion_limit)
        .with_tokens_with_locations(tokens.to_vec());
    let mut found = None;
    while parser.peek_token_ref().token != Token::EOF && found.is_none() {
        parser.advance_token();
        if !is_score(&parser.get_current_token().token) {
            continue;
        }
        // The error turns the parser back; it reports by itself what it cannot read.
        let _ = parser.try_parse(|parser| {
            for token in [Token::LParen, Token::RParen, Token::LtEq] {
                parser.expect_token(&token)?;
            }
            let score = parser.parse_subexpr(dialect.prec_value(Precedence::Or))?;
            found = is_condition(&score).then(|| score.to_string());
            Err::<(), _>(ParserError::ParserError(String::new()))
        });
    }
    match found {
        Some(score) => {
            plan_err!("NEAREST ranks by a number, and the score is a condition: {score}")
        }
        None => Ok(()),
    }
}

fn is_condition(score: &SqlExpr) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship, Xor};
    match score {
        SqlExpr::BinaryOp { op, .. } => {
            matches!(op, And | Xor | Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
        }
        SqlExpr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        SqlExpr::IsNull(_)
        | SqlExpr::IsNotNull(_)
        | SqlExpr::IsTrue(_)
        | SqlExpr::IsNotTrue(_)
        | SqlExpr::IsFalse(_)
        | SqlExpr::IsNotFalse(_)
        | SqlExpr::IsUnknown(_)
        | SqlExpr::IsNotUnknown(_)
        | SqlExpr::IsDistinctFrom(..)
        | SqlExpr::IsNotDistinctFrom(..)
        | SqlExpr::Between { .. }
        | SqlExpr::InList { .. }
        | SqlExpr::InSubquery { .. }
        | SqlExpr::Like { .. }
        | SqlExpr::ILike { .. } => true,
        _ => false,
    }
}
