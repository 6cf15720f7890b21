#!/bin/bash
# Run bfm commands on a machine with a GPU for a given number of minutes: the lines of one or more files
# (without the word bfm; # begins a comment), two at a time, file after file. When the time is over, the
# running commands are asked to stop. All of bfm's long commands then save what they have, and continue
# when this script is called again. Put collecting in a first file of its own: collectors run one by one,
# because they are hardly faster side by side, and a collector beside a training run halves the speed of
# both. Logs go to the folder logs.
#   bench/gpu/visit.sh MINUTES FILE...
#   BFM=build/bfm TOGETHER=2 bench/gpu/visit.sh 25 bench/gpu/data.txt bench/gpu/tables.txt
set -u

bfm=${BFM:-build/bfm}
together=${TOGETHER:-2}
end=$((SECONDS + $1 * 60))
shift
mkdir -p data logs

say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }

# one command line; the shell splits it into words
work() {
  local log begin=$SECONDS
  log=logs/$(echo "$1" | tr -cs 'A-Za-z0-9' - | cut -c 1-120).txt
  say "begin  $1"
  eval "set -- $1"
  "$bfm" "$@" >>"$log" 2>&1 </dev/null &
  local job=$!
  trap 'kill -INT $job 2>/dev/null' TERM
  while ! wait $job && kill -0 $job 2>/dev/null; do :; done
  wait $job
  say "end    status $?, $((SECONDS - begin)) s: $*"
}

# if NVIDIA's MPS is installed and not running yet, start it, so that programs share the GPU
if command -v nvidia-cuda-mps-control >/dev/null; then
  nvidia-cuda-mps-control -d >/dev/null 2>&1 && trap 'echo quit | nvidia-cuda-mps-control' EXIT
fi

over() { [ $SECONDS -ge $end ]; }

for file in "$@"; do
  while read -r line; do
    case $line in collect*) beside=1 ;; *) beside=$together ;; esac
    while [ "$(jobs -rp | wc -l)" -ge "$beside" ] && ! over; do sleep 0.5; done
    over && break
    work "$line" &
  done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$file")
  while [ -n "$(jobs -rp)" ] && ! over; do sleep 0.5; done
done
for job in $(jobs -rp); do kill -TERM "$job"; done
wait
say "all commands have stopped"
