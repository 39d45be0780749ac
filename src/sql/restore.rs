//! Puts SIMJOIN back into SQL text that is shown: the definitions of views.
//!
//! The inverse of the rewriting. In the text of a statement that was parsed, each marked ON belongs
//! to the last join before it, in the same bracket, that still waits for its condition.

use std::borrow::Cow;

use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::words::starts_join_type;
use super::{
    CANDIDATES_FUNCTION, COUNT_FUNCTION, DISTANCE_FUNCTION, MARKER_FUNCTION, SIMILARITY_FUNCTION,
    TextCursor,
};

/// Turns marked joins back into SIMJOINs; other text stays as it is.
///
/// ```
/// # use datafusion_simjoin::sql::{restore_sql, rewrite_sql};
/// let sql = "SELECT * FROM a LEFT SIMJOIN b ON jaccard(a.t, b.t) >= 0.8";
/// assert_eq!(restore_sql(&rewrite_sql(sql)?), sql.replace("SIMJOIN b", "SIMJOIN    b"));
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub fn restore_sql(sql: &str) -> Cow<'_, str> {
    if !sql.contains(MARKER_FUNCTION) && !sql.contains(COUNT_FUNCTION) {
        return Cow::Borrowed(sql);
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .with_unescape(false)
        .tokenize_with_location()
        .unwrap_or_default();
    let mut cuts = find_cuts(&tokens);
    cuts.sort_by_key(|cut| cut.tokens.0);
    let mut cursor = TextCursor::new(sql);
    let (mut restored, mut copied) = (String::with_capacity(sql.len()), 0);
    for Cut { tokens: (first, last), text } in cuts {
        let (Some(first), Some(last)) = (tokens.get(first), tokens.get(last)) else { continue };
        let start = cursor.byte_offset(first.span.start);
        let end = cursor.byte_offset(last.span.end);
        restored.push_str(sql.get(copied..start).unwrap_or_default());
        restored.push_str(text);
        copied = end;
    }
    restored.push_str(sql.get(copied..).unwrap_or_default());
    Cow::Owned(restored)
}

/// The plan of a CREATE VIEW with the definition that its author wrote; other plans as they are.
pub fn restore_definition(mut plan: LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = &mut plan
        && let Some(definition) = &mut view.definition
        && let Cow::Owned(restored) = restore_sql(definition)
    {
        *definition = restored;
    }
    plan
}

/// A text in place of some tokens.
struct Cut {
    /// The first and the last.
    tokens: (usize, usize),
    text: &'static str,
}

fn find_cuts(tokens: &[TokenWithSpan]) -> Vec<Cut> {
    let significant: Vec<usize> = (0..tokens.len())
        .filter(|index| !matches!(tokens[*index].token, Token::Whitespace(_)))
        .collect();
    let token = |position: usize| significant.get(position).map(|index| &tokens[*index].token);
    let keyword = |position: usize| match token(position) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_marked = |on: usize| {
        matches!(token(on + 1), Some(Token::Word(word)) if word.value == MARKER_FUNCTION)
            && token(on + 2) == Some(&Token::LParen)
            && token(on + 3) == Some(&Token::RParen)
            && keyword(on + 4) == Keyword::OR
    };
    let is_call = |at: usize, name: &str| {
        matches!(token(at), Some(Token::Word(word)) if word.value == name)
            && token(at + 1) == Some(&Token::LParen)
    };
    let is_true = |at: usize| keyword(at) == Keyword::TRUE;
    // The words of a NEAREST clause behind its number.
    let by = |on: usize| match (is_call(on + 10, DISTANCE_FUNCTION), is_true(on + 5)) {
        (true, false) => Some("BY DISTANCE"),
        (true, true) => Some("WITH TIES BY DISTANCE"),
        (false, _) if !is_call(on + 10, SIMILARITY_FUNCTION) => None,
        (false, false) => Some("BY SIMILARITY"),
        (false, true) => Some("WITH TIES BY SIMILARITY"),
    };
    // Per open bracket, the joins that wait for their conditions.
    let mut waiting: Vec<Vec<usize>> = vec![vec![]];
    let mut cuts = vec![];
    for position in 0..significant.len() {
        let after_period = position > 0 && token(position - 1) == Some(&Token::Period);
        match token(position) {
            Some(Token::LParen) => waiting.push(vec![]),
            Some(Token::RParen) if waiting.len() > 1 => {
                waiting.pop();
            }
            _ if after_period => {}
            _ => {
                let Some(joins) = waiting.last_mut() else { continue };
                match keyword(position) {
                    Keyword::JOIN if has_condition(position, keyword) => joins.push(position),
                    Keyword::USING => {
                        joins.pop();
                    }
                    Keyword::OR if is_call(position + 1, CANDIDATES_FUNCTION) => {
                        let (or, last) = (significant[position], significant.get(position + 4));
                        cuts.extend(last.map(|last| Cut { tokens: (or, *last), text: "ON" }));
                    }
                    Keyword::ON if is_call(position + 1, COUNT_FUNCTION) => {
                        let join = joins.pop().map(|join| significant[join]);
                        let Some(by) = by(position) else { continue };
                        if let Some(join) = join
                            && is_true(position + 3)
                        {
                            cuts.push(Cut { tokens: (join, join), text: "SIMJOIN" });
                        }
                        let words = |from: usize, to: usize| {
                            (significant[position + from], significant[position + to])
                        };
                        cuts.push(Cut { tokens: words(0, 7), text: "NEAREST" });
                        if position + 13 < significant.len() {
                            cuts.push(Cut { tokens: words(9, 13), text: by });
                        }
                    }
                    Keyword::ON => {
                        if let Some(join) = joins.pop()
                            && is_marked(position)
                        {
                            let join = significant[join];
                            cuts.push(Cut { tokens: (join, join), text: "SIMJOIN" });
                            let (on, or) = (significant[position], significant[position + 4]);
                            cuts.push(Cut { tokens: (on, or), text: "ON" });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    cuts
}

/// Whether the JOIN at the position is to have an ON or USING.
fn has_condition(join: usize, keyword: impl Fn(usize) -> Keyword) -> bool {
    let words = (0..join).rev().map(keyword).take_while(|word| starts_join_type(*word));
    !words.into_iter().any(|word| matches!(word, Keyword::CROSS | Keyword::NATURAL))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::super::{parse_sql, rewrite_sql};
    use super::*;

    /// The text as the parser prints it, with SIMJOIN where it was.
    fn shown(sql: &str) -> String {
        let statements = parse_sql(sql, &GenericDialect {}, 50).unwrap();
        restore_sql(&statements[0].to_string()).into_owned()
    }

    #[test]
    fn every_form_of_join_is_shown_as_it_was_written() {
        for sql in [
            "SELECT * FROM a SIMJOIN b ON jaccard(a.t, b.t) >= 0.8",
            "SELECT * FROM a INNER SIMJOIN b ON p",
            "SELECT * FROM a LEFT SIMJOIN b ON p",
            "SELECT * FROM a LEFT OUTER SIMJOIN b ON p",
            "SELECT * FROM a RIGHT SIMJOIN b ON p",
            "SELECT * FROM a RIGHT OUTER SIMJOIN b ON p",
            "SELECT * FROM a FULL SIMJOIN b ON p",
            "SELECT * FROM a LEFT SEMI SIMJOIN b ON p",
            "SELECT * FROM a RIGHT SEMI SIMJOIN b ON p",
            "SELECT * FROM a LEFT ANTI SIMJOIN b ON p",
            "SELECT * FROM a RIGHT ANTI SIMJOIN b ON p",
            "SELECT * FROM a SIMJOIN b ON p OR q AND r",
            "SELECT * FROM a SIMJOIN b ON p SIMJOIN c ON q",
            "SELECT * FROM a JOIN b ON p SIMJOIN c ON q LEFT JOIN d ON r",
            "SELECT * FROM a CROSS JOIN b SIMJOIN c ON p NATURAL JOIN d NATURAL LEFT JOIN e",
            "SELECT * FROM a JOIN b USING(x) SIMJOIN c ON p",
            "SELECT * FROM x, a SIMJOIN b ON p, c SIMJOIN d ON q WHERE r",
            "SELECT * FROM a SIMJOIN (b SIMJOIN c ON q) ON p",
            "SELECT * FROM a SIMJOIN (SELECT * FROM b JOIN c ON q) AS d ON p",
            "SELECT (SELECT count(*) FROM a SIMJOIN b ON p) FROM c JOIN d ON q",
            "WITH v AS (SELECT * FROM a SIMJOIN b ON p) SELECT * FROM v SIMJOIN w ON q",
            "SELECT * FROM a SIMJOIN b ON p UNION ALL SELECT * FROM a JOIN b ON q",
            "CREATE VIEW v AS SELECT 'ON __simjoin_marker() OR' FROM \"join\" SIMJOIN b ON p",
            "SELECT DISTINCT ON (a.x) a.on FROM a SIMJOIN b ON p",
            "SELECT * FROM a SIMJOIN b NEAREST 10 BY SIMILARITY f(a.t, b.t)",
            "SELECT * FROM a LEFT JOIN b NEAREST 3 WITH TIES BY DISTANCE f(a.t, b.t) - 1 ON p OR q",
            "SELECT * FROM a SIMJOIN b NEAREST $1 BY DISTANCE f(a.t, b.t) ON p SIMJOIN c ON q",
            "SELECT * FROM a SIMJOIN b NEAREST 1 WITH TIES BY SIMILARITY s JOIN c NEAREST 2 BY DISTANCE d",
        ] {
            assert_eq!(shown(sql), sql);
        }
        // Bare SEMI and ANTI are shown in the form that runs.
        assert_eq!(
            shown("SELECT * FROM a ANTI SIMJOIN b ON p"),
            "SELECT * FROM a LEFT ANTI SIMJOIN b ON p"
        );
    }

    #[test]
    fn what_is_shown_can_be_run_again() {
        let sql = "SELECT * FROM a SEMI SIMJOIN (b SIMJOIN c ON p JOIN d ON q) ON r OR s";
        let again = rewrite_sql(&shown(sql)).unwrap().into_owned();
        assert_eq!(DFParser::parse_sql(&again).unwrap()[0].to_string(), {
            parse_sql(sql, &GenericDialect {}, 50).unwrap()[0].to_string()
        });
    }

    #[test]
    fn text_without_a_marked_join_stays() {
        for sql in
            ["SELECT 1", "SELECT '__simjoin_marker() OR'", "x ON __simjoin_marker() OR 'open"]
        {
            assert_eq!(restore_sql(sql), sql);
        }
    }
}
