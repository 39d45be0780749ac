//! The executors and statements of a cluster, and the end of a statement, at the command line.

use std::io;

use super::cluster_access::access;
use super::cluster_args::{ControlArgs, ControlCommand, StatusFormat};
use super::output::print_line;
use simjoin_ballista::client::{self, SchedulerAddress};
use simjoin_ballista::control::{self, ClusterStatus, ExecutorState, StatementState};
use simjoin_session::errors::SessionError;
use simjoin_session::escape::{self, Escapes};

/// Characters of a statement's text that are shown.
const TEXT_SHOWN: usize = 60;

/// Runs a command on a cluster.
pub(super) async fn run(args: ControlArgs) -> Result<(), SessionError> {
    match args.command {
        ControlCommand::Status { connection, format, all } => {
            let scheduler = SchedulerAddress::parse(&connection.scheduler)?;
            let access = access(connection.secret_file.as_deref(), false)?;
            let session = client::session(&scheduler, &access);
            let mut status = control::status(&scheduler, &session).await?;
            if !all {
                status.statements.retain(StatementState::goes_on);
            }
            let text = match format {
                StatusFormat::Text => text(&status),
                StatusFormat::Json => json(&status),
            };
            print_line(io::stdout(), &text)
        }
        ControlCommand::Cancel { connection, jobs } => {
            let scheduler = SchedulerAddress::parse(&connection.scheduler)?;
            let access = access(connection.secret_file.as_deref(), false)?;
            let session = client::session(&scheduler, &access);
            for job in jobs {
                control::cancel(&scheduler, &session, &job).await?;
                print_line(io::stdout(), &format!("Cancelled statement {job}"))?;
            }
            Ok(())
        }
    }
}

fn text(status: &ClusterStatus) -> String {
    let mut executors = vec![["executor", "cores", "in use", "heard of", "id"].map(String::from)];
    executors.extend(status.executors.iter().map(|executor| {
        let ExecutorState { id, address, cores, cores_in_use, silent_seconds } = executor;
        let heard = format!("{silent_seconds} s ago");
        [address.clone(), cores.to_string(), cores_in_use.to_string(), heard, id.clone()]
    }));
    let heading = ["job", "state", "seconds", "stages", "tasks", "statement"].map(String::from);
    let mut statements = vec![heading];
    statements.extend(status.statements.iter().map(|statement| {
        let of = match statement.error.is_empty() {
            true => shown(&statement.text),
            false => shown(&format!("{}: {}", statement.error, statement.text)),
        };
        [
            statement.job.clone(),
            statement.state.clone(),
            format!("{:.1}", statement.seconds),
            format!("{}/{}", statement.stages_done, statement.stages),
            statement.tasks.to_string(),
            of,
        ]
    }));
    let tables = [in_columns(&executors), in_columns(&statements)];
    tables.join("\n\n")
}

/// The beginning of a text, in one line.
fn shown(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let plain = escape::line(&spaced).into_owned();
    match plain.char_indices().nth(TEXT_SHOWN) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

/// Rows in columns as wide as their longest cells, without characters that a terminal obeys.
fn in_columns<const N: usize>(rows: &[[String; N]]) -> String {
    let safe = |row: &[String; N]| row.each_ref().map(|cell| escape::line(cell).into_owned());
    let rows: Vec<[String; N]> = rows.iter().map(safe).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn json(status: &ClusterStatus) -> String {
    let executors = status.executors.iter().map(|executor| {
        serde_json::json!({
            "id": executor.id,
            "address": executor.address,
            "cores": executor.cores,
            "cores_in_use": executor.cores_in_use,
            "silent_seconds": executor.silent_seconds,
        })
    });
    let statements = status.statements.iter().map(|statement| {
        serde_json::json!({
            "job": statement.job,
            "state": statement.state,
            "seconds": statement.seconds,
            "stages_done": statement.stages_done,
            "stages": statement.stages,
            "tasks": statement.tasks,
            "text": statement.text,
            "error": (!statement.error.is_empty()).then_some(&statement.error),
        })
    });
    let (executors, statements): (Vec<_>, Vec<_>) = (executors.collect(), statements.collect());
    let line = serde_json::json!({ "executors": executors, "statements": statements }).to_string();
    // Of what a terminal obeys, JSON itself escapes some.
    escape::text_but(&line, &[], Escapes::Json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> ClusterStatus {
        let executor = ExecutorState {
            id: "e\u{1b}".to_string(),
            address: "127.0.0.1:4000".to_string(),
            cores: 2,
            cores_in_use: 1,
            silent_seconds: 3,
        };
        let statement = StatementState {
            job: "038FTPTXP8000".to_string(),
            state: "failed".to_string(),
            seconds: 1.25,
            stages_done: 1,
            stages: 3,
            tasks: 0,
            text: "SELECT\n\u{1b}[31m 1\u{9b}".to_string(),
            error: "no".to_string(),
        };
        ClusterStatus { executors: vec![executor], statements: vec![statement] }
    }

    #[test]
    fn a_status_is_two_tables_without_control_characters() {
        assert_eq!(
            text(&status()),
            "executor        cores  in use  heard of  id\n\
             127.0.0.1:4000  2      1       3 s ago   e\\x1B\n\n\
             job            state   seconds  stages  tasks  statement\n\
             038FTPTXP8000  failed  1.2      1/3     0      no: SELECT \\x1B[31m 1\\u009B"
        );
    }

    #[test]
    fn a_status_in_json_is_one_line() {
        let line = json(&status());
        assert!(line.is_ascii() && !line.contains(|c: char| c.is_control()));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["executors"][0]["cores_in_use"], 1);
        assert_eq!(value["statements"][0]["text"], "SELECT\n\u{1b}[31m 1\u{9b}");
        assert_eq!(value["statements"][0]["error"], "no");
    }
}
