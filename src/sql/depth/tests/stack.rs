//! The stack that a link of each kind of chain takes: the constants of `bytes`, measured. After an
//! upgrade of DataFusion:
//!
//! ```sh
//! cargo test --lib -- --ignored --nocapture links_take_no_more_stack
//! ```
//!
//! prints the least stack of a thread that runs a statement, by link, beside each constant, and fails
//! where a constant is too small. Then raise it, with some room.
//!
//! A statement that overflows its stack ends the process. So each attempt has a process of its own, in
//! which the test runs that one statement.

use std::env;
use std::process::{Command, Stdio};

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::super::bytes;
use super::chain;
use crate::SimJoinContextExt;
use crate::session::install;

/// The attempt of a process: the number of a chain, its links, and the bytes of the stack.
const ATTEMPT: &str = "SIMJOIN_TEST_STACK";
const TEST: &str = "sql::depth::tests::stack::links_take_no_more_stack_than_their_constants";
/// The greatest stack that is tried, and the bytes to which the least one is found.
const MOST: usize = 64 << 20;
const EXACT: usize = 4 << 10;

struct Chain {
    name: &'static str,
    constant: usize,
    /// The difference of these two statements counts.
    links: [usize; 2],
    sql: fn(usize) -> String,
}

fn select(expression: String) -> String {
    format!("SELECT {expression} AS r FROM t")
}

fn joined(links: usize, join: &str, on: &str) -> String {
    let joins: String = (1..=links)
        .map(|i| format!(" {join} t t{i}{}", on.replace("LAST", &format!("t{i}"))))
        .collect();
    format!("SELECT count(*) AS r FROM t t0{joins}")
}

const CHAINS: [Chain; 12] = [
    Chain {
        name: "operator +",
        constant: bytes::OPERATOR,
        links: [100, 400],
        sql: |links| select(chain(links, " + ", |_| "id".into())),
    },
    Chain {
        name: "operator ||",
        constant: bytes::OPERATOR,
        links: [100, 400],
        sql: |links| select(chain(links, " || ", |_| "name".into())),
    },
    Chain {
        name: "cast",
        constant: bytes::OPERATOR,
        links: [100, 400],
        sql: |links| select(format!("id{}", "::int::bigint".repeat(links / 2))),
    },
    Chain {
        name: "AND",
        constant: bytes::LOGIC,
        links: [100, 400],
        sql: |links| select(chain(links, " AND ", |i| format!("id < {}", i + 2))),
    },
    Chain {
        name: "OR",
        constant: bytes::LOGIC,
        links: [100, 400],
        sql: |links| select(chain(links, " OR ", |i| format!("id = {}", i + 2))),
    },
    Chain {
        name: "slice",
        constant: bytes::SUBSCRIPT,
        links: [50, 200],
        sql: |links| select(format!("toks{}", "[1:2]".repeat(links))),
    },
    Chain {
        name: "SIMJOIN",
        constant: bytes::JOIN,
        links: [10, 40],
        sql: |links| joined(links, "SIMJOIN", " ON jaccard(t0.toks, LAST.toks) >= 0.5"),
    },
    Chain {
        name: "JOIN",
        constant: bytes::JOIN,
        links: [10, 40],
        sql: |links| joined(links, "JOIN", " ON t0.id = LAST.id"),
    },
    Chain {
        name: "CROSS JOIN",
        constant: bytes::JOIN,
        links: [10, 40],
        sql: |links| joined(links, "CROSS JOIN", ""),
    },
    Chain {
        name: "EXCEPT",
        constant: bytes::SET,
        links: [10, 40],
        sql: |links| chain(links + 1, " EXCEPT ", |i| format!("SELECT {i} AS r FROM t")),
    },
    Chain {
        name: "table of WITH",
        constant: bytes::TABLE,
        links: [20, 80],
        sql: |links| {
            let table = |i| format!("t{} AS (SELECT id + {i} AS id FROM t{i})", i + 1);
            let tables = chain(links, ", ", table);
            format!("WITH t0 AS (SELECT id FROM t), {tables} SELECT id AS r FROM t{links}")
        },
    },
    Chain {
        name: "subquery",
        constant: bytes::BRACKET,
        links: [5, 20],
        sql: |links| {
            let (open, close) = ("SELECT * FROM (".repeat(links), ")".repeat(links));
            format!("{open}SELECT id AS r FROM t{close}")
        },
    },
];

#[test]
#[ignore = "takes minutes: for upgrades of DataFusion"]
fn links_take_no_more_stack_than_their_constants() {
    if let Ok(attempted) = env::var(ATTEMPT) {
        return attempt(&attempted);
    }
    let mut too_small = vec![];
    for (number, Chain { name, constant, links, .. }) in CHAINS.iter().enumerate() {
        let [few, many] = links.map(|links| least_stack(number, links));
        let measured = many.saturating_sub(few) / (links[1] - links[0]);
        eprintln!("{name:14} {measured:7} bytes of stack a link; the constant is {constant}");
        if measured > *constant {
            too_small.push(*name);
        }
    }
    assert!(too_small.is_empty(), "constants are too small for {too_small:?}");
}

/// The least stack with which a statement runs.
fn least_stack(number: usize, links: usize) -> usize {
    let (mut too_small, mut enough) = (0, MOST);
    assert!(runs(number, links, enough), "{} fails: {links} links", CHAINS[number].name);
    while enough - too_small > EXACT {
        let middle = too_small + (enough - too_small) / 2;
        match runs(number, links, middle) {
            true => enough = middle,
            false => too_small = middle,
        }
    }
    enough
}

/// Whether a process runs a statement in a thread of this stack.
fn runs(number: usize, links: usize, stack: usize) -> bool {
    let mut process = Command::new(env::current_exe().unwrap());
    process.args(["--exact", TEST, "--ignored"]);
    process.env(ATTEMPT, format!("{number} {links} {stack}"));
    process.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

fn attempt(attempted: &str) {
    let numbers: Vec<usize> = attempted.split(' ').map(|number| number.parse().unwrap()).collect();
    let [number, links, stack] = numbers[..] else { panic!("{attempted}") };
    let sql = (CHAINS[number].sql)(links);
    let thread = std::thread::Builder::new().stack_size(stack).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&sql))
    });
    thread.unwrap().join().unwrap().unwrap();
}

/// Plans, shows, runs and drops a statement.
async fn run(sql: &str) -> Result<()> {
    let config = SessionConfig::new().with_target_partitions(1);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(install(builder)?.build());
    let table = "CREATE TABLE t AS SELECT 1::bigint AS id, 'a' AS name, [1, 2] AS toks";
    context.sql(table).await?.collect().await?;
    let frame = context.simjoin_sql(sql).await?;
    assert!(!frame.logical_plan().display_indent().to_string().is_empty());
    frame.collect().await?;
    Ok(())
}
