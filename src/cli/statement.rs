//! Statements beyond DataFusion's: `SHOW` for the options under a prefix, and `RESET` for those of
//! the similarity join.

use datafusion::common::Result;
use datafusion::config::ExtensionOptions;
use datafusion::logical_expr::{LogicalPlan, Statement as PlannedStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{Ident, Statement as SqlStatement};

use crate::config::SimJoinOptions;
use crate::sql::restore_definition;

/// Plans a statement.
pub(super) async fn plan(ctx: &SessionContext, statement: Statement) -> Result<LogicalPlan> {
    let statement = match show_prefix(ctx, &statement) {
        Some(query) => DFParser::parse_sql(&query)?.pop_front().unwrap_or(statement),
        None => statement,
    };
    ctx.state().statement_to_plan(statement).await.map(restore_definition)
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
pub(super) fn reset(ctx: &SessionContext, plan: &LogicalPlan) -> Result<bool> {
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
