#!/usr/bin/env bash
# Times whole commands: start of the program, reading, joining, printing.
#
#   benches/whole_command.sh DATA_FOLDER OUT.csv [RUNS]
#
# DATA_FOLDER holds Parquet files with columns `id` and `tokens` (NAME.parquet), or `id` and
# `text`; absent ones are left out. One line per run: data set, what was counted or written,
# threshold, answer, wall seconds, user seconds, peak resident KiB. Beside it OUT.reserved.csv: the
# bytes that the self-join counts at 0.8 reserve, as EXPLAIN ANALYZE shows them.
set -euo pipefail
data=$(realpath "$1") out=$(realpath -m "$2") runs=${3:-3}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
simjoin=${SIMJOIN:-target/release/simjoin}
mkdir -p "$(dirname "$out")"
echo "data,query,threshold,answer,wall_s,user_s,peak_kib" >"$out"

measure() { # data, query name, threshold, SQL
  [ "$1" = generated ] || [ -f "$data/$1.parquet" ] || { echo "skipped: $1" >&2; return 0; }
  for _ in $(seq "$runs"); do
    /usr/bin/time -o /tmp/whole_command.$$ -f '%e,%U,%M' \
      "$simjoin" -q --format csv -c "$4" >/tmp/whole_command.$$.out
    answer=$(tail -n 1 /tmp/whole_command.$$.out)
    echo "$1,$2,$3,$answer,$(tail -n 1 /tmp/whole_command.$$)" | tee -a "$out"
  done
}

self_count() { # data, threshold
  measure "$1" self_join_count "$2" "SELECT count(*) FROM '$data/$1.parquet' a
    SIMJOIN '$data/$1.parquet' b ON jaccard(a.tokens, b.tokens) >= $2"
}

for t in 0.5 0.6 0.7 0.8 0.9; do
  for name in retail kosarak_36k tags_askubuntu dblp_coauthors; do
    self_count "$name" "$t"
  done
done
self_count accidents_15k 0.7
self_count imdb_reviews 0.8

pairs=/tmp/whole_command.$$.parquet
measure glottolog_refs pairs_to_parquet 0.8 "COPY (
    SELECT a.id AS a, b.id AS b, jaccard(qgrams(lower(a.text), 3), qgrams(lower(b.text), 3)) AS score
    FROM '$data/glottolog_refs.parquet' a SIMJOIN '$data/glottolog_refs.parquet' b
      ON jaccard(qgrams(lower(a.text), 3), qgrams(lower(b.text), 3)) >= 0.8 AND a.id < b.id
  ) TO '$pairs'"

first="(SELECT * FROM '$data/retail.parquet' WHERE id < 20000)"
measure retail join_20k 0.8 "SELECT count(*) FROM $first a SIMJOIN $first b
    ON jaccard(a.tokens, b.tokens) >= 0.8"
# The scalar function over 20,000 x 2,500 = 50 million pairs, one partition.
measure retail scalar_50m_pairs 0.8 "SET datafusion.execution.target_partitions = 1;
  SET simjoin.recognize_joins = false;
  SELECT count(*) FROM $first a JOIN (SELECT * FROM '$data/retail.parquet' WHERE id < 2500) b
    ON jaccard(a.tokens, b.tokens) >= 0.8"
# 100 million probe rows against 1,000 build rows.
measure generated stream_100m 0.9 "SELECT count(*) FROM
  (SELECT make_array(value, value + 10000, value + 20000) AS toks FROM generate_series(1, 1000)) a
  SIMJOIN (SELECT make_array(value % 5003, value % 2003 + 10000, value % 1009 + 20000) AS toks
           FROM generate_series(1, 100000000)) b ON jaccard(a.toks, b.toks) >= 0.9"
# The join of 20,000 rows as stock DataFusion runs it: a nested loop over 400 million pairs.
measure retail nested_loop_20k 0.8 "SET simjoin.recognize_joins = false;
  SELECT count(*) FROM $first a JOIN $first b ON jaccard(a.tokens, b.tokens) >= 0.8"

reserved=${out%.csv}.reserved.csv
echo "data,build_bytes,build_peak_bytes,probe_peak_bytes" >"$reserved"
for name in retail kosarak_36k tags_askubuntu dblp_coauthors accidents_15k imdb_reviews; do
  [ -f "$data/$name.parquet" ] || continue
  plan=$("$simjoin" -q --format csv -c "EXPLAIN ANALYZE SELECT count(*)
    FROM '$data/$name.parquet' a SIMJOIN '$data/$name.parquet' b
    ON jaccard(a.tokens, b.tokens) >= 0.8")
  value() { grep -o " $1=[^,]*" <<<"$plan" | cut -d= -f2; }
  echo "$name,$(value build_bytes),$(value build_peak_bytes),$(value probe_peak_bytes)" >>"$reserved"
done
rm -f /tmp/whole_command.$$ /tmp/whole_command.$$.out "$pairs"
