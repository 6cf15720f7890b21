"""The array script of scripts/slurm on a cluster of one node."""
import json

from conftest import ROOT

SCRIPT = ROOT / "scripts" / "slurm" / "sweep.sh"
SWEEP = """
collect:
  data: {{domain: point_mass, steps: 500, envs: 4, seed: [0, 1]}}
train:
  data: data
  algo: [fb, fb-aw]
  seed: 0..3
  steps: {steps}
  log-every: 10
  d: 4
  batch: 8
  hidden: 8
  feat: 8
  b-hidden: 8
  z-pool: 4
  eval-episodes: 1
  eval-steps: 2
  eval-tasks: reach_top_left
"""


def ledger(folder):
  return [json.loads(line) for path in folder.glob("out/ledger/*.jsonl")
          for line in path.read_text().splitlines()]


def test_the_tasks_of_an_array_share_a_sweep(cluster, tmp_path):
  (tmp_path / "sweep.yaml").write_text(SWEEP.format(steps=20))
  job = cluster.submit("--array=0-3", "--cpus-per-task=1", SCRIPT, "sweep.yaml", "out", cwd=tmp_path)
  cluster.wait_for(lambda: set(cluster.states(job)) <= {"COMPLETED"})
  logs = [path.read_text() for path in tmp_path.glob("bfm-sweep-*.log")]
  assert len(logs) == 4
  cells = [line["cell"] for line in ledger(tmp_path)]
  assert len(cells) == len(set(cells)) == 2 + 2 * 2 * 4
  assert sum(log.count("\ntrain  ") + log.startswith("train  ") for log in logs) == 16
  shown = cluster(cluster.env["BFM"], "sweep", "show", tmp_path / "out")
  assert len([line for line in shown.splitlines() if line.startswith("data seed=")]) == 4


def test_a_task_whose_time_is_up_saves_and_is_queued_again(cluster, tmp_path):
  (tmp_path / "sweep.yaml").write_text(SWEEP.format(steps="1M"))
  job = cluster.submit("--array=0", "--cpus-per-task=1", SCRIPT, "sweep.yaml", "out", cwd=tmp_path)
  logs = lambda: list(tmp_path.glob("out/train/*/log.jsonl"))
  cluster.wait_for(lambda: any(path.stat().st_size for path in logs()))
  cluster("scancel", "--batch", "--signal=USR1", f"{job}_0")  # as --signal sends it
  log = tmp_path / f"bfm-sweep-{job}_0.log"
  cluster.wait_for(lambda: "the time is up: this task is queued again" in log.read_text())
  (state,) = tmp_path.glob("out/train/*/state.safetensors")
  assert "stopped in the cell" in log.read_text()
  (claim,) = tmp_path.glob("out/ledger/data-fb-*.1.claim")
  assert json.loads(claim.read_text())["state"] == "free"
  cluster.wait_for(lambda: cluster.states(job) != ["COMPLETING"])
  assert cluster.states(job) == ["PENDING"]  # Slurm starts it again after two minutes
  cluster("scancel", job)
  assert state.exists() and not [line for line in ledger(tmp_path) if line["kind"] == "train"]
