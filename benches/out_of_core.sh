#!/usr/bin/env bash
# Times self-join counts in memory and from disk, turn about.
#
#   benches/out_of_core.sh OUT.csv RUNS FILE.parquet:THRESHOLD:LIMIT…
#
# Each file has columns `id` and `tokens`; LIMIT is a memory limit such as 28m. One line per run:
# data set, threshold, limit (none: in memory), answer, wall seconds, user seconds, peak resident
# KiB. Beside it OUT.explain.txt: for each file what EXPLAIN ANALYZE says of the join from disk.
set -euo pipefail
out=$(realpath -m "$1") runs=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
simjoin=${SIMJOIN:-target/release/simjoin}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$(dirname "$out")"
echo "data,threshold,limit,answer,wall_s,user_s,peak_kib" >"$out"
: >"${out%.csv}.explain.txt"

for case in "$@"; do
  IFS=: read -r file threshold limit <<<"$case"
  name=$(basename "$file" .parquet)
  join="FROM '$file' a SIMJOIN '$file' b ON jaccard(a.tokens, b.tokens) >= $threshold"
  measure() { # limit, flags
    /usr/bin/time -o "$scratch/time" -f '%e,%U,%M' \
      "$simjoin" -q --format csv "${@:2}" -c "SELECT count(*) $join" >"$scratch/out"
    echo "$name,$threshold,$1,$(tail -n 1 "$scratch/out"),$(tail -n 1 "$scratch/time")" | tee -a "$out"
  }
  for _ in $(seq "$runs"); do
    measure none
    measure "$limit" -m "$limit"
  done
  # What reading alone takes.
  /usr/bin/time -o "$scratch/time" -f '%e,%U,%M' \
    "$simjoin" -q --format csv -c "SELECT sum(cardinality(tokens)), max(id) FROM '$file'" >"$scratch/out"
  echo "$name,,reading,,$(tail -n 1 "$scratch/time")" | tee -a "$out"
  {
    echo "== $name >= $threshold, $limit"
    "$simjoin" -q -m "$limit" --format csv -c "EXPLAIN ANALYZE SELECT count(*) $join" >"$scratch/plan"
    # The choices of all pieces, then the counters of the disk.
    grep -oE 'chosen=[^[]*' "$scratch/plan" | sed 's/, metrics=$//' || true
    grep -oE '(spill|build_spilled|probe_spilled|build_bytes|build_peak)[a-z_]*=[^],]*' "$scratch/plan" || true
  } >>"${out%.csv}.explain.txt"
done
