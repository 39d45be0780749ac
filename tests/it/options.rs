//! `simjoin.*` from SQL and from Rust.

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_simjoin::config::{PositiveCount, SimJoinOptions};

use crate::joins::tables;
use crate::support::{
    Session, assert_contains, assert_declined, assert_uses_operator, context_of, error, number,
    rows,
};

#[tokio::test]
async fn every_option_is_listed_with_a_description() {
    let ctx = Session::default().context();
    let sql = "SELECT name, description FROM information_schema.df_settings \
               WHERE name LIKE 'simjoin.%'";
    let listed = rows(&ctx, sql).await;
    assert_eq!(listed.len(), SimJoinOptions::NAMES.len(), "{listed:?}");
    for name in SimJoinOptions::NAMES {
        let line = listed.iter().find(|l| l.contains(&format!("\"simjoin.{name}\"")));
        assert!(line.is_some_and(|l| l.len() > name.len() + 30), "{name} in {listed:?}");
    }
}

#[tokio::test]
async fn show_gives_what_set_took() {
    let ctx = Session::default().context();
    for (option, value) in [
        ("simjoin.strategy", "ppjoin"),
        ("simjoin.device", "cpu"),
        ("simjoin.build_side", "right"),
        ("simjoin.self_join", "false"),
        ("simjoin.recognize_joins", "false"),
        ("simjoin.debug.candidate_chunk", "100"),
        ("simjoin.debug.match_buffer", "100"),
        ("simjoin.hash_join_rows_per_key", "2.5"),
    ] {
        rows(&ctx, &format!("SET {option} = '{value}'")).await;
        let shown = rows(&ctx, &format!("SHOW {option}")).await;
        assert_eq!(shown, [format!("{option:?} | {value:?}")]);
    }
}

#[tokio::test]
async fn wrong_options_are_refused() {
    let ctx = Session::default().context();
    let message = error(&ctx, "SET simjoin.strategy = 'quick'").await;
    assert_contains(&message, &["simjoin.strategy", "quick", "ppjoin"]);
    let message = error(&ctx, "SET simjoin.stratgy = 'ppjoin'").await;
    assert_contains(&message, &["stratgy", "simjoin.strategy"]);
    for value in ["0", "-1", "many", "1.5"] {
        let message = error(&ctx, &format!("SET simjoin.debug.candidate_chunk = '{value}'")).await;
        assert_contains(&message, &["simjoin.debug.candidate_chunk", value]);
    }
    let message = error(&ctx, "SET simjoin.device = 'gpu'").await;
    assert_contains(&message, &["simjoin.device", "cuda:0,2"]);
}

#[tokio::test]
async fn the_least_and_the_greatest_counts_change_no_answer() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    let sql = "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    for option in ["debug.candidate_chunk", "debug.match_buffer"] {
        for value in [PositiveCount::MOST, 1] {
            rows(&ctx, &format!("SET simjoin.{option} = '{value}'")).await;
            assert_eq!(number(&ctx, sql).await, 6, "{option} = {value}");
        }
    }
}

/// `cuda` is an error where no phase can run on a device.
#[tokio::test]
async fn a_device_that_is_not_there_is_an_error() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    // The emulator of other tests in this process has many devices.
    rows(&ctx, "SET simjoin.device = 'cuda:120'").await;
    let sql = "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    assert_contains(&error(&ctx, sql).await, &["cuda"]);
    rows(&ctx, "SET simjoin.device = 'auto'").await;
    assert_eq!(number(&ctx, sql).await, 6);
}

#[tokio::test]
async fn recognition_can_be_switched_off_but_not_simjoin() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    let plain = "SELECT count(*) FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    let simjoin = "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    assert_uses_operator(&ctx, plain).await;
    rows(&ctx, "SET simjoin.recognize_joins = false").await;
    assert_declined(&ctx, plain).await;
    assert_uses_operator(&ctx, simjoin).await;
    assert_eq!(number(&ctx, plain).await, 6);
    assert_eq!(number(&ctx, simjoin).await, 6);
}

/// The caller's own values stay.
#[tokio::test]
async fn install_keeps_the_options_that_the_session_has() {
    let mut options = SimJoinOptions::default();
    datafusion::config::ExtensionOptions::set(&mut options, "strategy", "allpairs").unwrap();
    let config = SessionConfig::new().with_option_extension(options).with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = datafusion_simjoin::install(builder).unwrap().build();
    let ctx = SessionContext::new_with_state(state);
    assert_eq!(rows(&ctx, "SHOW simjoin.strategy").await, [r#""simjoin.strategy" | "allpairs""#]);
}

/// A session without the extension gets it, with the defaults.
#[tokio::test]
async fn install_adds_the_options() {
    let config = SessionConfig::new().with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = datafusion_simjoin::install(builder).unwrap().build();
    let ctx = SessionContext::new_with_state(state);
    assert_eq!(rows(&ctx, "SHOW simjoin.self_join").await, [r#""simjoin.self_join" | "true""#]);
}
