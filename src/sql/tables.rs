//! Names of tables as arguments of the table functions over pairs.
//!
//! `connected_components(pairs)` reads what `connected_components((SELECT * FROM pairs))` does. DataFusion looks up the
//! tables of a statement before it plans it, and looks for them in FROM clauses alone. So the name becomes
//! such a query in the text: a table's, with its schema, a view's, that of a common table expression, or the
//! name of a file in quotes.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::TextCursor;

/// The table functions that read pairs.
pub const PAIR_FUNCTIONS: [&str; 6] =
    ["connected_components", "representatives", "one_to_one", "thresholds", "evaluate", "compare"];

/// The tokens of a name, the first and the last.
type Name = (usize, usize);

/// Whether the letters of such a function occur at all.
pub(super) fn mentions_pairs(sql: &str) -> bool {
    let is_at = |name: &str| {
        let windows = sql.as_bytes().windows(name.len());
        windows.into_iter().any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
    };
    PAIR_FUNCTIONS.into_iter().any(is_at)
}

/// The text with queries in place of names; `None` where there are none.
pub(super) fn query_text(sql: &str, dialect: &dyn Dialect) -> Option<String> {
    if !mentions_pairs(sql) {
        return None;
    }
    let mut tokenizer = Tokenizer::new(dialect, sql).with_unescape(false);
    let tokens = tokenizer.tokenize_with_location().ok()?;
    let names = find_names(&tokens);
    if names.is_empty() {
        return None;
    }
    let mut cursor = TextCursor::new(sql);
    let (mut text, mut copied) = (String::with_capacity(sql.len() + 20 * names.len()), 0);
    for (first, last) in names {
        let start = cursor.byte_offset(tokens.get(first)?.span.start);
        let end = cursor.byte_offset(tokens.get(last)?.span.end);
        text.push_str(sql.get(copied..start)?);
        text.push_str("(SELECT * FROM ");
        text.push_str(sql.get(start..end)?);
        text.push(')');
        copied = end;
    }
    text.push_str(sql.get(copied..)?);
    Some(text)
}

/// The tokens with queries in place of names; those added stand where the name does.
pub(super) fn query_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let names = find_names(&tokens);
    let mut names = names.into_iter().peekable();
    let mut edited = Vec::with_capacity(tokens.len() + 5 * names.len());
    let word = |text: &str| Token::make_word(text, None);
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        if names.peek().is_some_and(|(first, _)| *first == index) {
            let opening = [Token::LParen, word("SELECT"), Token::Mul, word("FROM")];
            edited.extend(opening.map(|token| TokenWithSpan::new(token, span)));
        }
        edited.push(token);
        if names.next_if(|(_, last)| *last == index).is_some() {
            edited.push(TokenWithSpan::new(Token::RParen, span));
        }
    }
    edited
}

/// The names that are the first argument of a table function, in the order of the text.
fn find_names(tokens: &[TokenWithSpan]) -> Vec<Name> {
    let is_space = |token: &Token| matches!(token, Token::Whitespace(_));
    let significant: Vec<usize> =
        (0..tokens.len()).filter(|index| !is_space(&tokens[*index].token)).collect();
    let token = |position: usize| significant.get(position).map(|index| &tokens[*index].token);
    let is_function = |position: usize| match token(position) {
        Some(Token::Word(word)) => {
            let is_named = |name: &&str| word.value.eq_ignore_ascii_case(name);
            let before = position.checked_sub(1).and_then(token);
            // Behind a period it is a function of another schema.
            let is_part = before == Some(&Token::Period);
            let is_table = matches!(before, Some(Token::Word(word)) if matches!(word.keyword, Keyword::FROM | Keyword::JOIN));
            // The others have names that functions of values may have.
            let names = if is_table { &PAIR_FUNCTIONS[..] } else { &PAIR_FUNCTIONS[..3] };
            names.iter().any(is_named) && !is_part
        }
        _ => false,
    };
    let name_at = |first: usize| {
        let mut last = first;
        match token(first) {
            Some(Token::SingleQuotedString(_)) => {}
            Some(Token::Word(word)) if is_name(word.quote_style, word.keyword) => {
                while token(last + 1) == Some(&Token::Period)
                    && matches!(token(last + 2), Some(Token::Word(_)))
                {
                    last += 2;
                }
            }
            _ => return None,
        }
        let ends = matches!(token(last + 1), Some(Token::Comma | Token::RParen));
        let name = significant.get(first).zip(significant.get(last)).map(|(a, b)| (*a, *b));
        name.filter(|_| ends)
    };
    let mut names = vec![];
    for position in 0..significant.len() {
        if !is_function(position) || token(position + 1) != Some(&Token::LParen) {
            continue;
        }
        names.extend(name_at(position + 2));
        let is_evaluate = match token(position) {
            Some(Token::Word(word)) => word.value.eq_ignore_ascii_case("evaluate"),
            _ => false,
        };
        // The true pairs stand behind the links.
        if is_evaluate && let Some(second) = second_argument(position + 2, &token) {
            names.extend(name_at(second));
        }
    }
    // Functions inside of an argument come before its next one.
    names.sort_unstable();
    names
}

/// The position of the second argument of a function whose first one begins at a position.
fn second_argument<'t>(first: usize, token: &impl Fn(usize) -> Option<&'t Token>) -> Option<usize> {
    let mut depth = 0_usize;
    for position in first.. {
        match token(position)? {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::Comma if depth == 0 => return Some(position + 1),
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Whether a word names a table rather than a value.
fn is_name(quote: Option<char>, keyword: Keyword) -> bool {
    quote.is_some() || !matches!(keyword, Keyword::NULL | Keyword::TRUE | Keyword::FALSE)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use crate::sql::{parse_sql, rewrite_sql};

    #[test]
    fn names_become_queries() {
        for (sql, expected) in [
            (
                "SELECT * FROM connected_components(t)",
                "SELECT * FROM connected_components((SELECT * FROM t))",
            ),
            (
                "FROM one_to_one ( public . \"My t\" /* x */ , 'distance') o JOIN \
                 Representatives('a ''b''.parquet') USING (n)",
                "FROM one_to_one ( (SELECT * FROM public . \"My t\") /* x */ , 'distance') o JOIN \
                 Representatives((SELECT * FROM 'a ''b''.parquet')) USING (n)",
            ),
            (
                "SELECT * FROM a SIMJOIN b ON f(a.x, b.x) >= 1, connected_components(c, [0.5])",
                "SELECT * FROM a JOIN    b ON __simjoin_marker() OR f(a.x, b.x) >= 1, \
                 connected_components((SELECT * FROM c), [0.5])",
            ),
        ] {
            assert_eq!(rewrite_sql(sql).unwrap(), expected);
        }
        assert_eq!(
            rewrite_sql("FROM evaluate((SELECT f(a, (b)), c FROM thresholds(u, [1])), s.t, [0.5])")
                .unwrap(),
            "FROM evaluate((SELECT f(a, (b)), c FROM thresholds((SELECT * FROM u), [1])), \
             (SELECT * FROM s.t), [0.5])"
        );
        let sql = "SELECT * FROM connected_components(s.t)";
        let statements = parse_sql(sql, &GenericDialect {}, 50).unwrap();
        let expected = "SELECT * FROM connected_components((SELECT * FROM s.t))";
        assert_eq!(statements[0].to_string(), expected);
    }

    #[test]
    fn other_arguments_stay() {
        for sql in [
            "SELECT * FROM connected_components((SELECT * FROM t))",
            "SELECT * FROM connected_components(7)",
            "SELECT * FROM connected_components(NULL)",
            "SELECT * FROM connected_components(pairs => t)",
            "SELECT * FROM connected_components(f(t))",
            "SELECT * FROM connected_components(a + b)",
            "SELECT * FROM connected_components()",
            "SELECT * FROM s.connected_components(t)",
            "SELECT 'connected_components(t)' AS one_to_one",
            "SELECT * FROM connected_components(t",
            "SELECT * FROM connected_components(SELECT * FROM t)",
        ] {
            assert_eq!(rewrite_sql(sql).unwrap(), sql);
        }
    }
}
