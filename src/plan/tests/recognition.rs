use datafusion::common::Result;
use datafusion::prelude::SessionConfig;

use super::{error, explain, session};

#[tokio::test]
async fn smoke() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    for sql in [
        "SELECT a.id, b.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.8",
        "SELECT a.id, b.id FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= 0.8",
        "SELECT a.id, b.id FROM a LEFT JOIN b ON __simjoin_marker() OR 0.8 <= jaccard(b.toks, a.toks) AND a.k = b.k AND a.id > 1 AND b.id > 3 AND a.id < b.id",
        "SELECT a.id, b.id FROM a , b WHERE jaccard(a.toks, b.toks) BETWEEN 0.3 * 2 AND 0.9 AND a.k = b.k AND a.id > 1 AND b.id > 3 AND a.id < b.id",
        "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.8)",
        "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.8)",
        "SELECT a.id, b.id FROM a JOIN b ON jaccard(a.toks, b.toks) <= 0.8",
        "SELECT a.id, b.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.0",
        "SELECT a.id, b.id FROM a FULL JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= NULL",
        "SELECT a.id, b.id FROM a LEFT JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= NULL",
        "SELECT count(*) FROM a LEFT JOIN b ON true WHERE jaccard(a.toks, b.toks) >= 0.9",
        "SELECT * FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= 0.8 JOIN c ON a.k = c.k",
        "SELECT * FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= 0.8 JOIN c ON __simjoin_marker() OR dice(b.toks, c.toks) > 0.5 where a.id = c.id",
    ] {
        println!("{sql}\n{}", explain(&ctx, sql).await?);
    }
    for sql in [
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= -1",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) <= 0.5",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR a.k = b.k",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR (jaccard(a.toks, b.toks) >= 0.5 OR a.k = b.k)",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR NOT (jaccard(a.toks, b.toks) < 0.5)",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= random()",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= b.k",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, array_concat(a.toks, b.toks)) >= 0.5",
        "SELECT 1 FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5 WHERE __simjoin_marker()",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= $1",
        "SELECT 1 FROM a JOIN b ON __simjoin_marker() OR jaccard(a.toks, b.toks) >= (SELECT 0.5)",
    ] {
        println!("{sql}\n{}\n", error(&ctx, sql).await);
    }
    Ok(())
}
