//! The forms in which a query is run: by itself, as a prepared statement, with parameters in place of
//! its numbers, and through a view.
//!
//! The text of a query decides its form, so that a failure can be repeated. `SIMJOIN_TEST_FORM` asks for
//! one form of all queries: `direct`, `prepared`, `parameters`, `view` or `prepared_view`.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::Field;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Execute, Expr, LogicalPlan, Prepare, Statement};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Direct,
    Prepared,
    Parameters,
    View,
    PreparedView,
}

impl Form {
    fn of(sql: &str) -> Self {
        use Form::{Direct, Parameters, Prepared, PreparedView, View};
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        let drawn = [Direct, Direct, Direct, Prepared, Parameters, Parameters, View, PreparedView];
        match std::env::var("SIMJOIN_TEST_FORM").as_deref() {
            Err(_) => drawn[(hasher.finish() % 8) as usize],
            Ok("direct") => Direct,
            Ok("prepared") => Prepared,
            Ok("parameters") => Parameters,
            Ok("view") => View,
            Ok("prepared_view") => PreparedView,
            Ok(other) => panic!("SIMJOIN_TEST_FORM is {other}, no form"),
        }
    }
}

/// Plans a query in one of the forms. `sql` is text for DataFusion, in which SIMJOIN is rewritten, and
/// `values` are those of its parameters.
pub async fn plan(ctx: &SessionContext, sql: &str, values: Vec<ScalarValue>) -> Result<DataFrame> {
    match Form::of(sql) {
        Form::Direct if values.is_empty() => ctx.sql(sql).await,
        Form::Direct => ctx.sql(sql).await?.with_param_values(values),
        Form::Parameters if values.is_empty() => {
            let (sql, values) = with_parameters(sql);
            prepared(ctx, &sql, values).await
        }
        Form::View if values.is_empty() => ctx.sql(&of_view(ctx, sql).await?).await,
        Form::PreparedView if values.is_empty() => {
            prepared(ctx, &of_view(ctx, sql).await?, values).await
        }
        _ => prepared(ctx, sql, values).await,
    }
}

fn new_name() -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("form_{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

async fn prepared(ctx: &SessionContext, sql: &str, values: Vec<ScalarValue>) -> Result<DataFrame> {
    let name = new_name();
    let input = Arc::new(ctx.sql(sql).await?.into_unoptimized_plan());
    // The types of the values: those that DataFusion infers, as DOUBLE for a threshold, would change them.
    let fields = values.iter().map(|value| Arc::new(Field::new("", value.data_type(), true)));
    let prepare = Prepare { name: name.clone(), fields: fields.collect(), input };
    ctx.execute_logical_plan(LogicalPlan::Statement(Statement::Prepare(prepare))).await?;
    let parameters = values.into_iter().map(|value| Expr::Literal(value, None)).collect();
    let execute = Statement::Execute(Execute { name, parameters });
    ctx.execute_logical_plan(LogicalPlan::Statement(execute)).await
}

/// A query of a view with the query; the query itself where two of its columns have one name.
async fn of_view(ctx: &SessionContext, sql: &str) -> Result<String> {
    let frame = ctx.sql(sql).await?;
    let names: BTreeSet<_> = frame.schema().fields().iter().map(|field| field.name()).collect();
    if names.len() < frame.schema().fields().len() {
        return Ok(sql.to_string());
    }
    let name = new_name();
    ctx.sql(&format!("CREATE VIEW {name} AS {sql}")).await?;
    Ok(format!("SELECT * FROM {name}"))
}

/// A query with parameters in place of the numbers behind comparisons, and the numbers.
fn with_parameters(sql: &str) -> (String, Vec<ScalarValue>) {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).with_unescape(false).tokenize();
    let mut numbers: Vec<String> = vec![];
    let mut text = String::new();
    let mut is_compared = false;
    for token in tokens.expect("the tokens of a query") {
        match &token {
            // Equal numbers stay equal: a query may group by what it selects.
            Token::Number(number, false) if is_compared => {
                let known = numbers.iter().position(|known| known == number);
                let parameter = known.unwrap_or_else(|| {
                    numbers.push(number.clone());
                    numbers.len() - 1
                });
                text += &format!("${}", parameter + 1);
            }
            other => text += &other.to_string(),
        }
        use Token::{Eq, Gt, GtEq, Lt, LtEq, Neq, Whitespace};
        is_compared = match token {
            Whitespace(_) => is_compared,
            other => matches!(other, Eq | Gt | GtEq | Lt | LtEq | Neq),
        };
    }
    let value = |number: &String| match number.parse::<i64>() {
        Ok(number) => ScalarValue::from(number),
        Err(_) => ScalarValue::from(number.parse::<f64>().expect("a number")),
    };
    let values = numbers.iter().map(value).collect();
    (text, values)
}
