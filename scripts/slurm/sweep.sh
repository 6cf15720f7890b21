#!/usr/bin/env bash
# An array job of workers of one sweep:
#
#   sbatch --array=0-7 scripts/slurm/sweep.sh sweep.yaml runs/sweep
#
# Every task of the array is one worker, and the workers share out the cells by themselves, so that the
# numbers of tasks and of cells are independent. Submit more tasks later to speed the sweep up. FOLDER
# must be on a file system that all nodes share. Further arguments go to bfm sweep; BFM names the program
# if it is not in PATH. Options of sbatch on the command line come before those below:
#
#   sbatch --array=0-15 --gres=gpu:1 --time=4:00:00 scripts/slurm/sweep.sh sweep.yaml runs/sweep
#
#SBATCH --job-name=bfm-sweep
#SBATCH --array=0-3
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=1:00:00
# USR1 two minutes before the time is up: the worker saves its cell, and the task starts again later
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=bfm-sweep-%A_%a.log
set -uo pipefail

if [ $# -lt 2 ]; then
  echo "usage: sbatch --array=0-7 $0 FILE FOLDER [OPTION...]" >&2
  exit 2
fi
file=$1 folder=$2
shift 2

# --no-wait: a worker leaves when every cell is taken, and its node is free for others
"${BFM:-bfm}" sweep "$file" -o "$folder" --threads "${SLURM_CPUS_PER_TASK:-1}" --no-wait "$@" &
worker=$!

# SIGTERM comes from scancel, USR1 from --signal: in both cases the worker saves and gives its cell back
time_is_up=0
trap 'time_is_up=1; kill -TERM $worker 2>/dev/null' USR1
trap 'kill -TERM $worker 2>/dev/null' TERM INT

status=0
wait $worker || status=$?
# a trap ends wait before the worker has ended
while kill -0 $worker 2>/dev/null; do
  wait $worker
  status=$?
done

if [ $time_is_up = 1 ] && [ $status = 143 ]; then
  echo "the time is up: this task is queued again"
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit $status
