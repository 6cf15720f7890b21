#!/bin/bash
# Measure everything on a machine with a GPU: correctness against the CPU, the sanitizers, the speed of
# a step beside its products alone and beside PyTorch. It needs the archive of `make bundle`, a driver
# and CUDA 13's libraries, and for the peer Python with PyTorch. Long logs go to the folder $OUT; a
# short table comes last.
#   bench/gpu/all.sh [archive] [parts: check step act resume peer sanitize kernels]
set -u

here=$(cd "$(dirname "$0")" && pwd)
. "$here/unpack.sh"
shift
parts=${*:-check step act resume peer sanitize kernels}
table=$out/table.txt
: >"$table"

nvidia-smi --query-gpu=name,driver_version,clocks.sm,memory.used --format=csv,noheader |
  tee -a "$table"

check() {
  timeout 200 "$bundle/test_cuda" >"$out/check.txt" 2>&1
  echo "check: exit $?, $(grep -c 'OK \]' "$out/check.txt") tests good" | tee -a "$table"
  grep -E 'ERROR|FAILED|skipped' "$out/check.txt" | head -20 | tee -a "$table"
}

# one test under one tool of compute-sanitizer; a line "tool test: what it said"
examine() {
  tool=$1 name=$2 log=$out/$1-$2.txt
  shift 2
  BFM_CUDA_TIMED=0 timeout 120 compute-sanitizer --tool "$tool" --report-api-errors no "$@" \
    "$bundle/test_cuda" "$name" >"$log" 2>&1
  status=$?
  said=$(grep -h 'SUMMARY' "$log" | tail -1)
  grep -q 'Internal Sanitizer Error' "$log" && said="the tool fails itself"
  echo "$tool $name: exit $status, ${said#========= }"
}

# Every test except whole steps, which would take too long; four tests at a time. initcheck has to see
# all kernels, also cuBLASLt's. The other tools only look at ours, whose names end in _kernel.
sanitize() {
  names=$("$bundle/test_cuda" 2>&1 | sed -n 's/^\[ RUN *\] \(test_[a-z_]*\)$/\1/p' | sort -u | grep -v test_steps)
  for tool in memcheck synccheck racecheck initcheck; do
    ours="--kernel-name kernel_substring=_kernel"
    [ $tool = initcheck ] && ours=
    for name in $names; do
      while [ "$(jobs -rp | wc -l)" -ge 4 ]; do sleep 0.2; done
      examine $tool "$name" $ours &
    done
  done >"$out/sanitize.txt"
  wait
  for tool in memcheck synccheck racecheck initcheck; do
    echo "$tool: $(grep -c "^$tool .*exit 0.* 0 \(errors\|hazards\)" "$out/sanitize.txt") of $(echo $names | wc -w) tests clean"
  done | tee -a "$table"
  grep -v ' 0 errors\| 0 hazards' "$out/sanitize.txt" | tee -a "$table"
}

# name, then options of bfm bench step
measure() {
  name=$1
  shift
  timeout 100 "$bfm" bench step --device cuda --seconds 2 --json "$@" >"$work/one" 2>&1
  cat "$work/one" >>"$out/step.jsonl"
  python3 - "$name" "$work/one" <<'END' | tee -a "$table"
import json, sys
try:
  r = json.loads(open(sys.argv[2]).read().strip().splitlines()[-1])
  rate, model = r["steps_per_second"], r["model_steps_per_second"]
  alone = r.get("products_steps_per_second", float("nan"))
  print(f"{sys.argv[1]:28s} {rate:8.0f} steps/s {model:8.0f} model-steps/s {r['tflops']:6.0f} TFLOP/s"
        f"  products alone {alone:6.0f} ({100 * rate / alone:.0f}%)")
except Exception:
  print(f"{sys.argv[1]:28s} {open(sys.argv[2]).read().strip()[-300:]}")
END
}

step() {
  for precision in bf16 tf32; do
    for seeds in 1 5; do
      measure "fb-aware $precision R $seeds" --precision $precision --seeds $seeds
    done
  done
  measure "fb-aware bf16 humanoid" --obs 67 --act 21
  measure "fb-aware bf16 humanoid R 5" --obs 67 --act 21 --seeds 5
  measure "fb-aware bf16 d 256" --d 256
  for algo in fb fb-aw fb-are lap lap-aw; do measure "$algo bf16" --algo $algo; done
}

peer() {
  for precision in bf16 tf32; do
    timeout 200 python3 "$here/peer.py" --precision $precision >"$out/peer-$precision.txt" 2>&1
    echo "PyTorch $precision: $(tail -1 "$out/peer-$precision.txt" | cut -c 1-200)" | tee -a "$table"
  done
}

# prompting and acting
act() {
  for device in cuda cpu; do
    { echo "$device"; "$bfm" bench prompt --device $device --seconds 2
      "$bfm" bench act --device $device --seconds 2; } 2>&1 | tee -a "$table"
  done
}

# a run's files: two runs on the GPU are bit-identical, and a run moves from GPU to CPU and back
resume() {
  cd "$work" || return
  "$bfm" collect walker --with random --steps 20k -o data.h5 >resume.txt 2>&1
  for run in a b; do
    BFM_CUDA_TIMED=0 "$bfm" train data.h5 --device cuda --preset small --steps 400 -o $run
  done >>resume.txt 2>&1
  cmp a/model.safetensors b/model.safetensors && echo "two runs on the GPU: the same bits" | tee -a "$table"
  { "$bfm" train --resume -o a --device cpu --steps 410 &&
    "$bfm" train --resume -o a --device cuda --steps 800; } >>resume.txt 2>&1
  echo "GPU, then CPU, then GPU: exit $?, $(tail -1 a/log.jsonl | cut -c 1-150)" | tee -a "$table"
  cp resume.txt "$out"
  cd - >/dev/null || return
}

# one step of the graph, kernel by kernel (the planning before it launches no graph with our kernels)
kernels() {
  BFM_CUDA_TIMED=0 timeout 150 ncu --graph-profiling node --clock-control none --csv \
    --metrics gpu__time_duration.sum --launch-skip 600 --launch-count 164 \
    "$bfm" bench step --device cuda --precision bf16 --seconds 0.01 >"$out/ncu.csv" 2>"$out/ncu.txt"
  python3 "$here/kernels.py" <"$out/ncu.csv" | tee "$out/kernels.txt" | head -24 | tee -a "$table"
}

for part in $parts; do "$part"; done
rm -rf "$work"
echo "---- table ----"
cat "$table"
