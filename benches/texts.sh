#!/usr/bin/env bash
# Times whole counting statements over texts and integer lists with two binaries by turns: reading,
# tokenising and encoding are most of the work.
#
#   benches/texts.sh DATA_FOLDER OUT.csv RUNS BEFORE AFTER
#
# DATA_FOLDER holds Parquet files with columns `id` and `tokens`, or `id` and `text`; absent ones are
# left out. BEFORE and AFTER are binaries of `simjoin`. One line per run: data set, query, threshold,
# partitions, run, binary, answer, wall, user and system seconds, peak resident KiB.
set -euo pipefail
data=$(realpath "$1") out=$(realpath -m "$2") runs=$3 before=$(realpath "$4") after=$(realpath "$5")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$(dirname "$out")"
echo "data,query,threshold,partitions,run,program,answer,wall_s,user_s,system_s,peak_kib" >"$out"

run() { # binary, SQL
  SIMJOIN_DEVICE=cpu "$1" -q --format csv -c "$2"
}

measure() { # file, query name, threshold, SQL
  [ -f "$1" ] || { echo "skipped: $1" >&2; return 0; }
  local name turn partitions program answer
  name=$(basename "$1" .parquet)
  for partitions in 1 2; do
    for turn in $(seq "$runs"); do
      for program in before after; do
        DATAFUSION_EXECUTION_TARGET_PARTITIONS=$partitions SIMJOIN_DEVICE=cpu \
          /usr/bin/time -o "$scratch/time" -f '%e,%U,%S,%M' \
          "${!program}" -q --format csv -c "$4" >"$scratch/answer"
        answer=$(tail -n 1 "$scratch/answer")
        echo "$name,$2,$3,$partitions,$turn,$program,$answer,$(tail -n 1 "$scratch/time")" |
          tee -a "$out"
      done
    done
  done
}

self() { # file, query name, threshold, argument with SIDE
  measure "$1" "$2" "$3" "SELECT count(*) FROM '$1' a SIMJOIN '$1' b
    ON jaccard(${4//SIDE/a}, ${4//SIDE/b}) >= $3 AND a.id < b.id"
}

# 595,192 texts of 80 characters: each headline with eight others.
pairs=$scratch/headline_pairs.parquet
if [ -f "$data/abcnews_74k.parquet" ]; then
  run "$before" "CREATE TABLE t AS SELECT id, text FROM '$data/abcnews_74k.parquet';
    COPY (SELECT s.value * 74399 + a.id AS id, a.text || ' ' || b.text AS text
          FROM t a CROSS JOIN generate_series(0, 7) s
          JOIN t b ON b.id = (a.id * 7919 + s.value * 104729 + 13) % 74399) TO '$pairs'" >/dev/null
fi
measure "$pairs" view_qgrams_2 0.95 "CREATE VIEW v AS SELECT id, qgrams(text, 2) AS grams FROM '$pairs';
  SELECT count(*) FROM v a SIMJOIN v b ON jaccard(a.grams, b.grams) >= 0.95 AND a.id < b.id"
measure "$pairs" two_inputs_qgrams_2 0.95 "SELECT count(*)
  FROM (SELECT * FROM '$pairs' WHERE id % 8 = 0) a SIMJOIN (SELECT * FROM '$pairs' WHERE id % 8 = 1) b
  ON jaccard(qgrams(a.text, 2), qgrams(b.text, 2)) >= 0.95"
self "$pairs" word_tokens 0.95 'word_tokens(SIDE.text)'
self "$data/glottolog_refs.parquet" qgrams_3_lower 0.8 'qgrams(lower(SIDE.text), 3)'
self "$data/abcnews_74k.parquet" qgrams_3 0.8 'qgrams(SIDE.text, 3)'
self "$data/ml_papers.parquet" qgrams_2 0.85 'qgrams(SIDE.text, 2)'
words=$data/subtitle_words.parquet
measure "$words" qgrams_2_by_first_letter 0.95 "SELECT count(*) FROM '$words' a SIMJOIN '$words' b
  ON jaccard(qgrams(a.text, 2), qgrams(b.text, 2)) >= 0.95
  AND left(a.text, 1) = left(b.text, 1) AND a.id < b.id"
self "$data/imdb_reviews.parquet" integers 0.95 SIDE.tokens
self "$data/tags_askubuntu.parquet" integers 0.95 SIDE.tokens
