#!/usr/bin/env bash
# Times statements on clusters of one and of two executors with one core each, on this machine.
#
#   benches/cluster.sh OUT.csv RUNS LEFT.parquet[,RIGHT.parquet]:THRESHOLD:DISTRIBUTION…
#
# Each file has columns `id` and `tokens`; what is counted is the join of two files, or of one with
# itself. SIMJOIN names a binary with the feature ballista. One line per run: executors, data set,
# threshold, distribution, answer, wall seconds of the client.
set -euo pipefail
out=$(realpath -m "$1") runs=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
simjoin=$(realpath "${SIMJOIN:-target/release/simjoin}")
scratch=$(mktemp -d)
processes=()
stop() {
  [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
  wait
  processes=()
}
trap 'stop; rm -rf "$scratch"' EXIT
mkdir -p "$(dirname "$out")"
echo "executors,data,threshold,distribution,answer,wall_s" >"$out"
port=${PORT:-50950}

for executors in 1 2; do
  "$simjoin" scheduler --bind-port "$port" --log-level warn >"$scratch/scheduler.log" 2>&1 &
  processes+=($!)
  sleep 2
  for i in $(seq "$executors"); do
    mkdir -p "$scratch/work$i"
    "$simjoin" executor --scheduler "localhost:$port" --cores 1 --work-dir "$scratch/work$i" \
      >"$scratch/executor$i.log" 2>&1 &
    processes+=($!)
  done
  sleep 4
  for case in "$@"; do
    IFS=: read -r files threshold distribution <<<"$case"
    IFS=, read -r left right <<<"$files"
    name=$(basename "$left" .parquet)${right:+ $(basename "$right" .parquet)}
    for _ in $(seq "$runs"); do
      /usr/bin/time -o "$scratch/time" -f '%e' "$simjoin" --scheduler "localhost:$port" -q \
        --format csv -c "SET simjoin.distribution = '$distribution'" -c "SELECT count(*)
          FROM '$left' a SIMJOIN '${right:-$left}' b
          ON jaccard(a.tokens, b.tokens) >= $threshold" >"$scratch/out"
      echo "$executors,$name,$threshold,$distribution,$(tail -n 1 "$scratch/out"),$(tail -n 1 "$scratch/time")" | tee -a "$out"
    done
  done
  stop
  port=$((port + 10))
done
