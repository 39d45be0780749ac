//! The log of a cluster's processes, on standard error.

use std::io::{self, Write};

use chrono::{DateTime, SecondsFormat, Utc};
use log::{Level, LevelFilter, Log, Metadata, Record};

use super::cluster_args::{LogFormat, LogLevel};
use simjoin_ballista::log::{current_job, named_job};
use simjoin_session::escape::{self, Escapes};

/// Writes what Ballista and this crate log on standard error.
pub(super) fn to_stderr(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Off => LevelFilter::Off,
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
    };
    let logger: &'static StderrLog = match format {
        LogFormat::Text => &StderrLog(LogFormat::Text),
        LogFormat::Json => &StderrLog(LogFormat::Json),
    };
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
}

struct StderrLog(LogFormat);

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The network crates log every frame of each connection.
        !["h2", "hyper", "tower", "tonic"].iter().any(|name| metadata.target().starts_with(name))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let message = record.args().to_string();
            let job = current_job().or_else(|| named_job(&message).map(str::to_string));
            let line = LogLine {
                time: Utc::now(),
                level: record.level(),
                target: record.target(),
                job: job.as_deref(),
                message: &message,
            };
            // One call a line: other threads log as well. Nobody may listen.
            let _ = io::stderr().write_all(format!("{}\n", line.text(self.0)).as_bytes());
        }
    }

    fn flush(&self) {}
}

/// A message of the log.
struct LogLine<'a> {
    time: DateTime<Utc>,
    level: Level,
    target: &'a str,
    job: Option<&'a str>,
    message: &'a str,
}

impl LogLine<'_> {
    fn text(&self, format: LogFormat) -> String {
        let Self { time, level, target, job, message } = self;
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        match format {
            LogFormat::Text => {
                let job = job.map(|job| format!(" job={job}")).unwrap_or_default();
                // A message of several lines is one line of the log.
                escape::line(&format!("{time} {level:5} {target}{job} {message}")).into_owned()
            }
            LogFormat::Json => {
                let mut line = serde_json::Map::new();
                line.insert("time".into(), time.into());
                line.insert("level".into(), level.as_str().into());
                line.insert("target".into(), (*target).into());
                line.insert("job".into(), (*job).into());
                line.insert("message".into(), (*message).into());
                // Of what a terminal obeys, JSON itself escapes some.
                let line = serde_json::Value::Object(line).to_string();
                escape::text_but(&line, &[], Escapes::Json).into_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_its_time_and_statement() {
        let line = LogLine {
            time: DateTime::from_timestamp_millis(1_790_000_000_123).unwrap(),
            level: Level::Warn,
            target: "a::b",
            job: Some("038FTPTXP8000"),
            message: "it's \"so\"\nand \u{1b}[31m \u{9b}2J\u{202e}",
        };
        assert_eq!(
            line.text(LogFormat::Text),
            "2026-09-21T14:13:20.123Z WARN  a::b job=038FTPTXP8000 it's \"so\"\\nand \\x1B[31m \
             \\u009B2J\\u202E"
        );
        let json: serde_json::Value = serde_json::from_str(&line.text(LogFormat::Json)).unwrap();
        assert_eq!(json["time"], "2026-09-21T14:13:20.123Z");
        assert_eq!(json["level"], "WARN");
        assert_eq!(json["job"], "038FTPTXP8000");
        assert_eq!(json["message"], line.message);
        assert!(line.text(LogFormat::Json).is_ascii());
        assert!(!line.text(LogFormat::Json).contains(|c: char| c.is_control()));
        let without = LogLine { job: None, ..line };
        assert!(without.text(LogFormat::Json).contains("\"job\":null"));
        assert!(!without.text(LogFormat::Text).contains("job="));
    }
}
