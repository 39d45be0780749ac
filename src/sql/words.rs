//! The words and tokens that the walks through a text tell apart.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Words, literals and placeholders: the operands of expressions.
pub(super) fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
    )
}

/// Words that come before JOIN, and so before SIMJOIN.
pub(super) fn starts_join_type(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        INNER | LEFT | RIGHT | FULL | OUTER | SEMI | ANTI | CROSS | NATURAL | ASOF | GLOBAL
    )
}

/// Words that end a FROM clause.
pub(super) fn ends_from(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        SELECT
            | WHERE
            | PREWHERE
            | GROUP
            | HAVING
            | QUALIFY
            | WINDOW
            | ORDER
            | SORT
            | CLUSTER
            | DISTRIBUTE
            | CONNECT
            | START
            | LIMIT
            | OFFSET
            | FETCH
            | FOR
            | UNION
            | EXCEPT
            | INTERSECT
            | MINUS
            | SET
            | SETTINGS
            | FORMAT
            | RETURNING
    )
}

/// Words of an expression behind which an operand comes, so that a following SIMJOIN is a column.
pub(super) fn expects_operand(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        AND | OR
            | NOT
            | XOR
            | IN
            | IS
            | LIKE
            | ILIKE
            | RLIKE
            | REGEXP
            | SIMILAR
            | TO
            | ESCAPE
            | BETWEEN
            | SYMMETRIC
            | CASE
            | WHEN
            | THEN
            | ELSE
            | ANY
            | ALL
            | SOME
            | EXISTS
            | DISTINCT
            | FROM
            | COLLATE
            | ZONE
            | DIV
            | OVERLAPS
            | PRIOR
            | INTERVAL
            | MATCH
    )
}
