#!/bin/bash
# Measure for a minute on a machine with a GPU: the speed of a step, with the settings that a user could
# choose instead, then prompting, acting and the comparison with the CPU. It needs the archive of
# `make bundle`. JSON lines go to $OUT/quick.jsonl, a table to the screen.
#   bench/gpu/quick.sh [archive]
set -u

. "$(dirname "$0")/unpack.sh"
: >"$out/quick.jsonl"

# name, settings as VARIABLE=value words or "", then arguments of bfm bench
measure() {
  name=$1 settings=$2
  shift 2
  result=$(env $settings timeout 30 "$bfm" bench "$@" --device cuda --json 2>"$work/error") ||
    result="\"$(tail -1 "$work/error" | tr -d '"\\')\""
  echo "$result" | while read -r line; do
    echo "{\"name\": \"$name\", \"settings\": \"$settings\", \"result\": $line}"
  done | tee -a "$out/quick.jsonl" | sed -E 's/, "machine".*//; s/[{}"]//g; s/(name|result|bench): //g'
}

step="step --precision bf16 --seconds 0.6"
for seeds in 1 5; do
  for settings in "" BFM_CUDA_URGENT=0; do
    measure "fb-aware R $seeds" "$settings" $step --seeds $seeds
  done
done
measure "humanoid R 1" "" $step --obs 67 --act 21
for settings in "" BFM_CUDA_TIMED=0; do
  measure prompt "$settings" prompt --seconds 0.5
  measure act "$settings" act --seconds 0.5
done

timeout 100 "$bundle/test_cuda" >"$out/check.txt" 2>&1
echo "test_cuda: exit $?, $(grep -c 'OK \]' "$out/check.txt") tests good"
grep -E 'ERROR|FAILED|skipped' "$out/check.txt" | head -20
rm -rf "$work"
