#!/usr/bin/env bash
# Measures what a change of structure must not make worse, and compares two such sets of figures.
#
#   benches/baseline.sh measure OUT.csv [RUNS]      seconds from a changed line to its test, and the binary's bytes
#   benches/baseline.sh compare OLD.csv NEW.csv [PERCENT]
#
# `measure` changes a line of a rule of sets, of the operator and of a table's printing, builds the tests
# of the changed crate and runs one of them; RUNS times each, after one build that is not counted. One line
# per figure: name,value. Lines of the same form from other benches may be added.
# `compare` gives the ratio NEW / OLD of the medians of each name, and ends with 1 where one of them is more
# than PERCENT (3) worse. All figures are better where they are less.
set -euo pipefail

# Changes the first line of a function's body, and times the test.
changed() { # name, file, pattern of the function's first line, cargo test's arguments...
  local name=$1 file=$2 function=$3
  shift 3
  cp "$file" "$kept/file"
  for run in $(seq 0 "$runs"); do
    cp "$kept/file" "$file"
    [ "$run" = 0 ] || sed -i "0,/$function/s//&\n        std::hint::black_box($run);/" "$file"
    begun=$(date +%s.%N)
    cargo test --quiet "$@" >"$kept/log" 2>&1 || { cat "$kept/log" >&2; cp "$kept/file" "$file"; exit 1; }
    ended=$(date +%s.%N)
    [ "$run" = 0 ] || echo "$name,$(awk "BEGIN { print $ended - $begun }")" | tee -a "$out"
  done
  cp "$kept/file" "$file"
}

measure() {
  out=$(realpath -m "$1") runs=${2:-3}
  kept=$(mktemp -d)
  trap 'rm -rf "$kept"' EXIT
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  all=(--workspace --exclude simjoin-python --features ballista)
  : >"$out"
  changed rule_of_sets crates/simjoin-core/src/set/measure.rs 'pub fn value(self.*{$' \
    -p simjoin-core --lib set::measure
  changed operator_node src/exec/node.rs 'pub fn join(&self).*{$' "${all[@]}" --lib exec::tests::modes
  changed table crates/simjoin-session/src/table.rs 'pub fn printed(&self).*{$' "${all[@]}" --lib table::tests
  cargo build --quiet --release
  echo "binary_bytes,$(stat -c %s target/release/simjoin)" | tee -a "$out"
}

compare() {
  awk -F, -v percent="${3:-3}" '
    { values[FILENAME == ARGV[1] ? "old" : "new", $1, ++count[FILENAME == ARGV[1], $1]] = $2; names[$1] }
    function median(set, name, n,   i, j, t, v) {
      for (i = 1; i <= n; i++) v[i] = values[set, name, i]
      for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    END {
      for (name in names) {
        if (!count[1, name] || !count[0, name]) { print name ",only in one"; worse = 1; continue }
        ratio = median("new", name, count[0, name]) / median("old", name, count[1, name])
        verdict = ratio > 1 + percent / 100 ? "worse" : ratio < 1 - percent / 100 ? "better" : "equal"
        printf "%s,%.3f,%s\n", name, ratio, verdict
        worse += verdict == "worse"
      }
      exit worse > 0
    }' "$1" "$2"
}

case "${1:-}" in
measure | compare) "$@" ;;
*) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "$0" >&2; exit 2 ;;
esac
