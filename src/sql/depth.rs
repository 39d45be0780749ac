//! A bound on the depth of a statement's trees, from its tokens alone.
//!
//! The parser guards its own recursion, which goes with the brackets. Chains do not recurse there:
//! `a AND b AND c …` and `x JOIN y JOIN z …` are read in a loop, and only the tree that comes out
//! is as deep as the chain is long. Comparing, printing, dropping, planning and evaluating such
//! trees recurses. So the stack sets a limit to chains, and a statement beyond it must be refused
//! before there is a tree.
//!
//! One [`DepthFrame`] per open bracket (and CASE) adds up what its chains take of the stack. Elements of
//! a list are beside each other, so only the deepest counts; the same goes for the operands of a
//! chain. The result is an upper bound, for texts that are SQL.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::words::is_operand;

/// Bytes of stack that a link of a chain takes, as the least stack with which DataFusion 55.2 runs
/// statements of a few hundred links tells (x86-64, all of DataFusion without optimisation: the
/// frames of an optimised build are smaller). `depth/tests/stack.rs` measures them anew.
mod bytes {
    /// The stack of an operator such as `+`, `||`, `=`, `::` or `IS NULL`: 7,833.
    pub(super) const OPERATOR: usize = 8 << 10;
    /// AND, OR: 7,372.
    pub(super) const LOGIC: usize = 8 << 10;
    /// A subscript or slice: 16,537.
    pub(super) const SUBSCRIPT: usize = 17 << 10;
    /// 27,744 for SIMJOIN, 20,672 for JOIN, 11,968 for CROSS JOIN.
    pub(super) const JOIN: usize = 28 << 10;
    /// INTERSECT, EXCEPT: 22,848.
    pub(super) const SET: usize = 23 << 10;
    /// UNION, which is planned flat: less than can be measured.
    pub(super) const UNION: usize = 1 << 10;
    /// A common table expression that reads the one before it: 13,926.
    pub(super) const TABLE: usize = 14 << 10;
    /// 100,488 for a subquery, 17,625 for a function, nothing for a mere bracket.
    pub(super) const BRACKET: usize = 100 << 10;
}

/// Refuses a text with a statement that could need more than `stack` bytes of stack; lines count
/// from `first_line`.
///
/// # Errors
///
/// A plan error that names the chain that is too long, and its end.
pub fn check_depth(sql: &str, first_line: u64, dialect: &dyn Dialect, stack: usize) -> Result<()> {
    let mut tokens = vec![];
    // The parser reports a text that does not tokenize.
    let _ = Tokenizer::new(dialect, sql)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens);
    let mut walk = DepthWalk::new(stack);
    for TokenWithSpan { token, span } in &tokens {
        walk.place =
            Location::new(span.start.line + first_line.saturating_sub(1), span.start.column);
        walk.step(token)?;
    }
    walk.end_statement()
}

/// Where in a query the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueryPart {
    /// The common table expressions, of which each may read the one before it.
    With,
    /// Behind FROM, where a comma joins.
    From,
    Other,
}

/// The stack that an open bracket, or the statement itself, takes.
#[derive(Debug)]
struct DepthFrame {
    is_case: bool,
    clause: QueryPart,
    /// The operators of the operand of AND and OR that is being read, and its deepest bracket.
    operators: usize,
    inner: usize,
    /// The ANDs and ORs of the expression that is being read, and its deepest operand.
    logic: usize,
    operand: usize,
    /// The joins of the SELECT that is being read, and its deepest expression.
    joins: usize,
    expression: usize,
    /// The deepest SELECT so far.
    select: usize,
    sets: usize,
    withs: usize,
}

impl DepthFrame {
    fn new(is_case: bool) -> Self {
        Self {
            is_case,
            clause: QueryPart::Other,
            operators: 0,
            inner: 0,
            logic: 0,
            operand: 0,
            joins: 0,
            expression: 0,
            select: 0,
            sets: 0,
            withs: 0,
        }
    }
}

struct DepthWalk {
    limit: usize,
    /// The place of the token that is looked at.
    place: Location,
    /// The two words before it.
    before: [Keyword; 2],
    /// Never empty; the last is the innermost open bracket.
    frames: Vec<DepthFrame>,
}

impl DepthWalk {
    fn new(limit: usize) -> Self {
        let place = Location::new(1, 1);
        Self { limit, place, before: [Keyword::NoKeyword; 2], frames: vec![DepthFrame::new(false)] }
    }

    fn frame(&mut self) -> &mut DepthFrame {
        if self.frames.is_empty() {
            self.frames.push(DepthFrame::new(false));
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn step(&mut self, token: &Token) -> Result<()> {
        match token {
            Token::Whitespace(_) | Token::Period | Token::EOF => return Ok(()),
            Token::Word(word) if word.quote_style.is_none() => {
                self.word(word.keyword)?;
                self.before = [self.before[1], word.keyword];
                return Ok(());
            }
            Token::SemiColon => self.end_statement()?,
            Token::LParen | Token::LBrace => self.open(false),
            Token::LBracket => {
                self.frame().operators += bytes::SUBSCRIPT;
                self.open(false);
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.close()?,
            Token::Comma => match self.frame().clause {
                QueryPart::From => self.join()?,
                QueryPart::With => {}
                QueryPart::Other => self.end_expression()?,
            },
            // A step of a query in pipes reads the one before it.
            Token::VerticalBarRightAngleBracket => self.join()?,
            token if is_operand(token) => {}
            _ => self.frame().operators += bytes::OPERATOR,
        }
        self.before = [Keyword::NoKeyword; 2];
        Ok(())
    }

    fn word(&mut self, keyword: Keyword) -> Result<()> {
        use Keyword::*;
        match keyword {
            AND | OR | XOR => {
                let frame = self.frame();
                frame.end_operand();
                frame.logic += bytes::LOGIC;
            }
            IS | NOT | LIKE | ILIKE | RLIKE | REGEXP | SIMILAR | IN | BETWEEN | COLLATE | AT
            | DIV | NOTNULL | OVERLAPS => self.frame().operators += bytes::OPERATOR,
            CASE => self.open(true),
            END if self.frame().is_case => self.fold()?,
            WHEN | THEN | ELSE => self.end_expression()?,
            // `WITH TIME ZONE` in an ON leaves the FROM clause what it is.
            WITH if self.frame().clause == QueryPart::Other => {
                self.frame().clause = QueryPart::With
            }
            AS if self.frame().clause == QueryPart::With => self.frame().withs += bytes::TABLE,
            FROM if matches!(self.before, [IS | NOT, DISTINCT]) => {}
            FROM => self.go(QueryPart::From)?,
            JOIN | STRAIGHT_JOIN | APPLY => self.join()?,
            ON => self.end_expression()?,
            UNION => self.set(bytes::UNION)?,
            INTERSECT | EXCEPT | MINUS => self.set(bytes::SET)?,
            SELECT | VALUES | WHERE | PREWHERE | GROUP | HAVING | QUALIFY | WINDOW | ORDER
            | LIMIT | OFFSET | FETCH | RETURNING => self.go(QueryPart::Other)?,
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, is_case: bool) {
        self.frames.push(DepthFrame::new(is_case));
    }

    /// The end of a bracket, and of each CASE in it that has no end.
    fn close(&mut self) -> Result<()> {
        while self.frame().is_case {
            self.fold()?;
        }
        self.fold()
    }

    /// Hands what the innermost bracket takes to the one around it.
    fn fold(&mut self) -> Result<()> {
        if self.frames.len() == 1 {
            return self.end_statement();
        }
        let depth = self.query()?;
        self.frames.pop();
        let frame = self.frame();
        match frame.clause {
            QueryPart::With => frame.withs += depth,
            _ => frame.inner = frame.inner.max(depth + bytes::BRACKET),
        }
        Ok(())
    }

    fn go(&mut self, clause: QueryPart) -> Result<()> {
        self.end_expression()?;
        self.frame().clause = clause;
        Ok(())
    }

    fn join(&mut self) -> Result<()> {
        self.end_expression()?;
        self.frame().joins += bytes::JOIN;
        Ok(())
    }

    fn set(&mut self, bytes: usize) -> Result<()> {
        self.end_select()?;
        let frame = self.frame();
        frame.clause = QueryPart::Other;
        frame.sets += bytes;
        Ok(())
    }

    fn end_expression(&mut self) -> Result<()> {
        let frame = self.frame();
        frame.end_operand();
        let depth = std::mem::take(&mut frame.logic) + std::mem::take(&mut frame.operand);
        frame.expression = frame.expression.max(depth);
        if depth > self.limit {
            let most = self.limit / bytes::OPERATOR;
            return plan_err!(
                "the expression that ends at {} is too deep: a chain of more than {most} operators \
                 may not fit into the stack; write x IN (…) in place of many ORs, or compute it in \
                 parts, in subqueries or tables",
                self.place()
            );
        }
        Ok(())
    }

    fn end_select(&mut self) -> Result<()> {
        self.end_expression()?;
        let frame = self.frame();
        let depth = std::mem::take(&mut frame.joins) + std::mem::take(&mut frame.expression);
        frame.select = frame.select.max(depth);
        if depth > self.limit {
            let most = self.limit / bytes::JOIN;
            return plan_err!(
                "the FROM clause that ends at {} is too deep: a chain of more than {most} joins may \
                 not fit into the stack; join in parts, with CREATE TABLE … AS in between",
                self.place()
            );
        }
        Ok(())
    }

    /// The end of a bracket's query, or of the statement's.
    fn query(&mut self) -> Result<usize> {
        self.end_select()?;
        let frame = self.frame();
        let depth = frame.sets + frame.withs + frame.select;
        if depth > self.limit {
            return plan_err!(
                "the query that ends at {} is too deep: so long a chain of EXCEPT, INTERSECT, UNION \
                 or WITH may not fit into the stack; compute it in parts, with CREATE TABLE … AS in \
                 between",
                self.place()
            );
        }
        Ok(depth)
    }

    fn end_statement(&mut self) -> Result<()> {
        while self.frames.len() > 1 {
            self.fold()?;
        }
        self.query()?;
        self.frames = vec![DepthFrame::new(false)];
        Ok(())
    }

    fn place(&self) -> String {
        format!("line {}, column {}", self.place.line, self.place.column)
    }
}

impl DepthFrame {
    fn end_operand(&mut self) {
        let depth = std::mem::take(&mut self.operators) + std::mem::take(&mut self.inner);
        self.operand = self.operand.max(depth);
    }
}

#[cfg(test)]
mod tests {
    mod stack;

    use datafusion::sql::sqlparser::dialect::{
        BigQueryDialect, GenericDialect, OracleDialect, PostgreSqlDialect,
    };

    use super::*;

    const STACK: usize = 100 * bytes::JOIN;

    fn checked(sql: &str) -> Result<()> {
        check_depth(sql, 1, &GenericDialect {}, STACK)
    }

    fn chain(n: usize, separator: &str, link: impl Fn(usize) -> String) -> String {
        (0..n).map(link).collect::<Vec<_>>().join(separator)
    }

    #[track_caller]
    fn refused(sql: &str, what: &str) {
        let error = checked(sql).expect_err(&sql[..60]).to_string();
        assert!(error.contains(what), "{error}");
    }

    #[test]
    fn long_chains_are_refused() {
        for operator in ["+", "AND", "OR", "||", "=", "IS DISTINCT FROM"] {
            let sum = chain(2000, &format!(" {operator} "), |_| "x".into());
            refused(&format!("SELECT {sum} FROM t"), "expression that ends at line 1");
            refused(&format!("SELECT 1 FROM t WHERE f(1, (SELECT {sum})) > 0"), "expression");
            refused(&format!("SELECT CASE WHEN {sum} THEN 1 END FROM t"), "expression");
            refused(&format!("SELECT * FROM a JOIN b ON {sum}"), "expression");
        }
        for postfix in ["::int", " IS NULL", "[1]", " COLLATE x"] {
            refused(&format!("SELECT x{}", postfix.repeat(2000)), "expression");
        }
        for join in [" JOIN ", ", ", " CROSS JOIN ", " NATURAL JOIN "] {
            let joined = chain(200, join, |i| format!("t{i}"));
            refused(&format!("SELECT * FROM {joined}"), "FROM clause");
            refused(&format!("SELECT * FROM a WHERE x IN (SELECT y FROM {joined})"), "FROM clause");
        }
        refused(&chain(200, " EXCEPT ", |_| "SELECT 1".into()), "query that ends");
        refused(&chain(5000, " UNION ", |_| "SELECT 1".into()), "query that ends");
        let tables = chain(500, ", ", |i| format!("t{i} AS (SELECT * FROM t{})", i + 1));
        refused(&format!("WITH {tables} SELECT * FROM t1"), "query that ends");
        refused(&format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100)), "expression");
    }

    #[test]
    fn what_is_wide_but_not_deep_passes() {
        for sql in [
            format!("VALUES {}", chain(9000, ", ", |i| format!("(-{i}, [-{i} * 2], 'x' || 'y')"))),
            format!("SELECT x IN ({})", chain(9000, ", ", |i| format!("-{i}"))),
            format!("SELECT {} FROM t", chain(9000, ", ", |i| format!("x + {i} AS \"a+b\""))),
            format!("SELECT CASE {} END", chain(9000, " ", |i| format!("WHEN x = {i} THEN -{i}"))),
            chain(900, " UNION ALL ", |i| format!("SELECT a + {i} FROM a JOIN b ON a.x = b.x, c")),
            chain(9000, ";\n", |i| {
                format!("SELECT {i} + 1 FROM a JOIN b ON x AND y EXCEPT SELECT 1")
            }),
            format!(
                "SELECT {}",
                chain(300, " AND ", |_| "(a = 1 OR b = 2 OR c LIKE 'x' || y)".into())
            ),
            format!("SELECT {} FROM t", chain(900, ", ", |_| "a IS DISTINCT FROM b".into())),
        ] {
            checked(&sql).unwrap_or_else(|e| panic!("{}: {e}", &sql[..60]));
        }
    }

    /// Each literal is an operand: only the operators between them count.
    #[test]
    fn literals_are_no_operators() {
        let generic: &dyn Dialect = &GenericDialect {};
        for (dialect, literal) in [
            (generic, "'a'"),
            (generic, "1.5"),
            (generic, "U&'a'"),
            (generic, "X'1f'"),
            (generic, "N'a'"),
            (generic, "$$a$$"),
            (&PostgreSqlDialect {}, "E'a'"),
            (&BigQueryDialect {}, "R'a'"),
            (&BigQueryDialect {}, "R\"a\""),
            (&BigQueryDialect {}, "B'a'"),
            (&BigQueryDialect {}, "'''a'''"),
            (&BigQueryDialect {}, "B'''a'''"),
            (&BigQueryDialect {}, "R\"\"\"a\"\"\""),
            (&OracleDialect {}, "Q'[a]'"),
            (&OracleDialect {}, "NQ'[a]'"),
        ] {
            let sql = |links| format!("SELECT {}", chain(links, " || ", |_| literal.into()));
            let most = STACK / bytes::OPERATOR;
            let checked = |links| check_depth(&sql(links), 1, dialect, STACK);
            assert!(checked(most).is_ok(), "{literal}");
            assert!(checked(most + 2).is_err(), "{literal}");
        }
    }

    #[test]
    fn the_place_is_that_in_the_file() {
        let sql = format!("SELECT 1;\nSELECT {},\n2", chain(2000, " + ", |_| "x".into()));
        let error = check_depth(&sql, 11, &GenericDialect {}, STACK).unwrap_err().to_string();
        assert!(error.contains("ends at line 12, column 8005"), "{error}");
    }

    #[test]
    fn text_that_is_no_sql_passes() {
        for sql in ["", ")", "((", "CASE CASE )", "END", "SELECT 'open", "WITH WITH (", "]]}", ";;"]
        {
            checked(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
    }
}
