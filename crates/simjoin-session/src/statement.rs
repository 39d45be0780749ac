//! Statements beyond DataFusion's: `SHOW` for the options under a prefix, `SHOW FUNCTIONS` for all
//! functions, and `RESET` for the options of the similarity join.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::config::ExtensionOptions;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{LogicalPlan, Statement as PlannedStatement, cast, ident, lit};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, ShowStatementFilter, Statement as SqlStatement,
    visit_relations,
};

use datafusion_simjoin::config::SimJoinOptions;
use datafusion_simjoin::sql::restore_definition;
use simjoin_files::with_quoted;

/// Plans a statement.
pub async fn plan(ctx: &SessionContext, statement: Statement) -> Result<LogicalPlan> {
    let statement = match show_prefix(ctx, &statement) {
        Some(query) => DFParser::parse_sql(&query)?.pop_front().unwrap_or(statement),
        None => statement,
    };
    let functions = shown_functions(&statement);
    let names = quoted_names(&statement);
    let plan = with_quoted(names, ctx.state().statement_to_plan(statement)).await?;
    match functions {
        Some(condition) => add_functions(ctx, plan, &condition).await,
        None => Ok(restore_definition(plan)),
    }
}

/// The names of relations that a statement has in single quotes.
fn quoted_names(statement: &Statement) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut add = |name: &ObjectName| {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
            && name.quote_style == Some('\'')
        {
            names.insert(name.value.clone());
        }
    };
    match statement {
        Statement::Statement(statement) => {
            let _ = visit_relations(statement, |name| {
                add(name);
                ControlFlow::<()>::Continue(())
            });
        }
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Relation(name) => add(name),
            CopyToSource::Query(query) => {
                let _ = visit_relations(query, |name| {
                    add(name);
                    ControlFlow::<()>::Continue(())
                });
            }
        },
        Statement::Explain(explain) => return quoted_names(&explain.statement),
        _ => {}
    }
    names
}

/// The condition on `routine_name` of `SHOW FUNCTIONS`; `None` for other statements.
fn shown_functions(statement: &Statement) -> Option<String> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::ShowFunctions { filter } = statement.as_ref() else { return None };
    Some(match filter {
        Some(ShowStatementFilter::Like(pattern)) => {
            format!("routine_name LIKE '{}'", pattern.replace('\'', "''"))
        }
        _ => "true".to_string(),
    })
}

/// Adds the functions that `SHOW FUNCTIONS` of DataFusion leaves out because it knows no example of
/// their argument types, such as `array_distance`.
async fn add_functions(
    ctx: &SessionContext,
    listed: LogicalPlan,
    condition: &str,
) -> Result<LogicalPlan> {
    let listed = DataFrame::new(ctx.state(), listed);
    let all = ctx
        .sql(&format!(
            "SELECT DISTINCT routine_name AS function_name, function_type, description, \
             syntax_example FROM information_schema.routines WHERE {condition}"
        ))
        .await?;
    let name = ["function_name"];
    let others = all.join(listed.clone(), JoinType::LeftAnti, &name, &name, None)?;
    let columns = listed.schema().fields().iter().map(|field| {
        let value = match others.schema().has_column_with_unqualified_name(field.name()) {
            true => ident(field.name()),
            false => cast(lit(ScalarValue::Null), field.data_type().clone()),
        };
        value.alias(field.name())
    });
    let columns: Vec<_> = columns.collect();
    let all = listed.union(others.select(columns)?)?;
    let ours = ident("function_name").like(lit("\\_\\_simjoin%"));
    let all = all.filter(!ours)?.sort(vec![ident("function_name").sort(true, false)])?;
    Ok(all.into_unoptimized_plan())
}

/// `SHOW simjoin` as a query of all its options; None for other statements.
fn show_prefix(ctx: &SessionContext, statement: &Statement) -> Option<String> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::ShowVariable { variable } = statement.as_ref() else { return None };
    let mut names: Vec<&Ident> = variable.iter().collect();
    let verbose = names.len() > 1 && names.last()?.value.eq_ignore_ascii_case("verbose");
    if verbose {
        names.pop();
    }
    let name: Vec<String> = names.iter().map(|name| name.value.to_ascii_lowercase()).collect();
    let prefix = format!("{}.", name.join("."));
    let options = ctx.copied_config().options().entries();
    if !options.iter().any(|option| option.key.starts_with(&prefix)) {
        return None;
    }
    // Descriptions go on about values and details behind what the option is.
    let description = match verbose {
        true => "description",
        false => r"regexp_replace(description, '(?s)( \(|: |; |, in place of|\. |\.$|\n).*', '')",
    };
    Some(format!(
        "SELECT name, value, {description} AS description FROM information_schema.df_settings \
         WHERE starts_with(name, '{}') ORDER BY name",
        prefix.replace('\'', "''")
    ))
}

/// Runs `RESET` for an option of the similarity join, or for all of them: DataFusion resets its own
/// options only. False for other plans.
pub fn reset(ctx: &SessionContext, plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Statement(PlannedStatement::ResetVariable(reset)) = plan else {
        return Ok(false);
    };
    let state = ctx.state_ref();
    let mut state = state.write();
    let extensions = &mut state.config_mut().options_mut().extensions;
    if reset.variable == "simjoin" {
        extensions.insert(SimJoinOptions::default());
        return Ok(true);
    }
    let Some(name) = reset.variable.strip_prefix("simjoin.") else { return Ok(false) };
    let Some(options) = extensions.get_mut::<SimJoinOptions>() else { return Ok(false) };
    let defaults = SimJoinOptions::default().entries().into_iter();
    let default = defaults.filter(|option| option.key == reset.variable).find_map(|o| o.value);
    // The options report an unknown name.
    options.set(name, &default.unwrap_or_default())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionConfig;

    use super::*;

    fn session() -> SessionContext {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_option_extension(SimJoinOptions::default());
        SessionContext::new_with_config(config)
    }

    async fn run(ctx: &SessionContext, sql: &str) -> Result<String> {
        let statement = DFParser::parse_sql(sql)?.pop_front().unwrap();
        let plan = plan(ctx, statement).await?;
        if reset(ctx, &plan)? {
            return Ok(String::new());
        }
        let batches = ctx.execute_logical_plan(plan).await?.collect().await?;
        Ok(pretty_format_batches(&batches)?.to_string())
    }

    #[tokio::test]
    async fn show_lists_the_options_under_a_prefix() {
        let ctx = session();
        let shown = run(&ctx, "SHOW simjoin").await.unwrap();
        for name in SimJoinOptions::NAMES {
            assert!(shown.contains(&format!("simjoin.{name} ")), "{name}:\n{shown}");
        }
        assert!(shown.contains("| How pairs are found "), "{shown}");
        assert!(shown.lines().all(|line| line.len() < 180), "{shown}");
        let gpu = run(&ctx, "SHOW SimJoin.gpu").await.unwrap();
        assert_eq!(gpu.lines().filter(|line| line.contains("simjoin.")).count(), 2, "{gpu}");
        let verbose = run(&ctx, "SHOW simjoin VERBOSE").await.unwrap();
        assert!(verbose.contains("least estimated cost"), "{verbose}");
        assert!(run(&ctx, "SHOW datafusion.sql_parser").await.unwrap().contains("dialect"));
        let one = run(&ctx, "SHOW simjoin.strategy").await.unwrap();
        assert!(one.contains("auto") && !one.contains("description"), "{one}");
        assert!(run(&ctx, "SHOW simjoin.nosuch").await.is_err());
    }

    #[tokio::test]
    async fn show_functions_lists_all() {
        let ctx = session();
        let shown = run(&ctx, "SHOW FUNCTIONS LIKE '%distance%'").await.unwrap();
        for name in ["array_distance", "cosine_distance", "list_distance"] {
            assert_eq!(shown.matches(&format!("| {name} ")).count(), 1, "{name}: {shown}");
        }
        assert!(!shown.contains("| abs "), "{shown}");
        let shown = run(&ctx, "SHOW FUNCTIONS").await.unwrap();
        assert!(shown.contains("| abs ") && shown.contains("| inner_product "), "{shown}");
    }

    #[tokio::test]
    async fn reset_gives_defaults_back() {
        let ctx = session();
        let value = async |name: &str| run(&ctx, &format!("SHOW simjoin.{name}")).await.unwrap();
        for (reset, device) in [("RESET simjoin.strategy", "cpu"), ("RESET simjoin", "auto")] {
            run(&ctx, "SET simjoin.strategy = 'ppjoin'").await.unwrap();
            run(&ctx, "SET simjoin.device = 'cpu'").await.unwrap();
            run(&ctx, reset).await.unwrap();
            assert!(value("strategy").await.contains("auto"), "{reset}");
            assert!(value("device").await.contains(device), "{reset}");
        }
        let error = run(&ctx, "RESET simjoin.stratgy").await.unwrap_err().to_string();
        assert!(error.contains("simjoin.stratgy is no option"), "{error}");
        run(&ctx, "SET datafusion.execution.batch_size = 7").await.unwrap();
        run(&ctx, "RESET datafusion.execution.batch_size").await.unwrap();
        assert!(run(&ctx, "SHOW datafusion.execution.batch_size").await.unwrap().contains("8192"));
    }
}
