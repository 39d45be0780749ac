#!/usr/bin/env bash
# Times joins of vectors some of which are far from most, have norms of many magnitudes or NaN, by programs and
# devices in turn, and holds all counts against each other.
#
#   benches/outliers.sh OUT.csv ROWS DEVICES PROGRAM [PROGRAM ...]
#
# DEVICES: `cpu`, or `cpu,cuda`; ROWS: of 128 dimensions. Each program makes the same tables and joins each three
# times in one process. A line for each: program, device, table, function, count, seconds. It fails where
# two counts of one join differ.
set -euo pipefail
out=$1 rows=$2 devices=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Uniform within 1 of the origin, the same on every machine.
number="2 * abs((value * 7919 + k * 104729 + value * k % 7907 * 31) * 2654435761 % 1000003 / 1000003.0) - 1"
table() { # name, factor of a row, number of a row and dimension
  echo "CREATE TABLE $1 AS SELECT value AS id, array_agg(CAST($2 * ($3) AS DOUBLE) ORDER BY k) AS v
    FROM generate_series(1, $rows) CROSS JOIN generate_series(1, 128) d(k) GROUP BY value;"
}
tables() {
  table usual 1.0 "$number"
  table one "CASE value WHEN 7 THEN 1e9 ELSE 1.0 END" "$number"
  table thousandth "CASE value % 1000 WHEN 7 THEN 1e9 ELSE 1.0 END" "$number"
  table hundredth "CASE value % 100 WHEN 7 THEN 1e9 ELSE 1.0 END" "$number"
  table norms "power(10.0, value * 7919 % 60001 / 1e4)" "$number"
  table nan 1.0 "CASE WHEN value % 5 = 2 AND k = value % 128 + 1 THEN 'NaN'::double ELSE $number END"
}
joins() {
  for of in usual one thousandth hundredth nan; do
    echo "$of array_distance array_distance(a.v,b.v)<=6.5"
  done
  for of in usual one thousandth hundredth; do
    echo "$of inner_product inner_product(a.v,b.v)>=22"
  done
  echo "norms inner_product inner_product(a.v,b.v)>=1e9"
  echo "usual cosine_distance cosine_distance(a.v,b.v)<=0.5"
  echo "nan cosine_distance cosine_distance(a.v,b.v)<=0.5"
}
echo "program,device,table,function,count,seconds" >"$out"
for program in "$@"; do
  tables >"$work/sql"
  for device in ${devices//,/ }; do
    echo "SET simjoin.device = '$device';"
    while read -r of _ condition; do
      for _ in 1 2 3; do
        echo "SELECT count(*) AS c FROM $of a SIMJOIN $of b ON $condition AND a.id < b.id;"
      done
    done < <(joins)
  done >>"$work/sql"
  "$program" --format csv -f "$work/sql" >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
  # A count stands below its name, a time somewhere behind.
  awk '/^c$/ { getline; count = $1 } /Elapsed/ && count != "" {
    for (i = 1; i < NF; ++i) if ($i == "Elapsed") print count "," $(i + 1); count = "" }' "$work/out" >"$work/times"
  for device in ${devices//,/ }; do
    joins | while read -r of function _; do
      for _ in 1 2 3; do echo "$(basename "$program"),$device,$of,$function"; done
    done
  done | paste -d, - "$work/times" | tee -a "$out"
done
awk -F, 'NR > 1 && !($3 "," $4 in count) { count[$3 "," $4] = $5 }
  NR > 1 && count[$3 "," $4] != $5 { print "differs: " $0; failed = 1 } END { exit failed }' "$out"
