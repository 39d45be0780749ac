//! Shuffle files that change on the disk: their rows are made again, or there is no answer.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::physical_plan::collect;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::faults::{local, planned, set, sorted, statement, write};
use crate::processes::Cluster;
use crate::support::lines;

/// Flips a bit of a file.
fn flip(path: &Path, rng: &mut StdRng) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let place = rng.random_range(0..file.metadata()?.len());
    let mut byte = [0];
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(&mut byte)?;
    byte[0] ^= 1 << rng.random_range(0..8);
    file.seek(SeekFrom::Start(place))?;
    file.write_all(&byte)
}

/// Changes the first `most` files that are complete, until it is told to end. Gives their number.
fn change(cluster: &Cluster, most: usize, seed: u64, end: &AtomicBool) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut changed = vec![];
    while changed.len() < most && !end.load(Ordering::Relaxed) {
        for file in cluster.files() {
            let Some(data) = file.strip_suffix(".crc32") else { continue };
            let is_new = !changed.iter().any(|other| other == data);
            if is_new && changed.len() < most && flip(Path::new(data), &mut rng).is_ok() {
                changed.push(data.to_string());
            }
        }
    }
    changed.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changed_rows_between_stages_never_change_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = write(folder.path(), 3_000);
    let expected = local(&statement(&folder)).await;
    let mut cluster = Cluster::start(0);
    cluster.add_executor(&["--cores", "1"]);
    cluster.add_executor(&["--cores", "1"]);
    let cluster = Arc::new(cluster);
    let (mut files, mut answers) = (0, 0);
    for seed in 0..8 {
        let ctx = cluster.context();
        let distribution = ["repartition", "broadcast"][seed as usize % 2];
        set(&ctx, "simjoin.distribution", distribution).await;
        set(&ctx, "simjoin.cluster_partitions", "4").await;
        let plan = planned(&ctx, &statement(&folder)).await;
        let end = Arc::new(AtomicBool::new(false));
        let changing = {
            let (cluster, end) = (Arc::clone(&cluster), Arc::clone(&end));
            let most = [1, 3, 1000][seed as usize % 3];
            tokio::task::spawn_blocking(move || change(&cluster, most, seed, &end))
        };
        let outcome = collect(plan, ctx.task_ctx()).await;
        end.store(true, Ordering::Relaxed);
        files += changing.await.unwrap();
        match outcome {
            Ok(batches) => {
                answers += 1;
                assert_eq!(sorted(lines(&batches)), expected, "seed {seed}, {distribution}");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(!error.contains("panicked"), "seed {seed}: {error}");
            }
        }
    }
    assert!(files > 0, "no file was changed");
    let heard: String = cluster.executors.iter().map(|executor| executor.stderr()).collect();
    assert!(!heard.contains("panicked"), "{heard}");
    assert!(heard.contains("the disk or another process changed it"), "{answers}: {heard}");
    // The cluster goes on.
    let ctx = cluster.context();
    let plan = planned(&ctx, &statement(&folder)).await;
    let batches = collect(plan, ctx.task_ctx()).await.unwrap();
    assert_eq!(sorted(lines(&batches)), expected);
}
