"""Writes tests/golden/agents.npz: the reference's results, in float64, for the golden cases.

Run it if the algorithm changes, not if the library does: python tests/oracle/make_golden.py
"""
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import cases
import reference


def results(case):
  """{name: array} of one case; losses and tensors in the order of their sorted names."""
  o = reference.Options(cases.OBS, cases.ACT, **cases.options(case))
  start = cases.parameters(reference.shapes(o))
  agent = reference.Agent(start, o, torch.float64)
  losses = [agent.update(**cases.transitions(case, step)) for step in range(cases.STEPS)]
  end, probes = agent.tensors(), cases.probes(case)
  obs, act, z, states = (probes[name] for name in ("obs", "act", "z", "states"))
  updates = {name: end[name] - start[name] for name in sorted(start)}
  return {
      "losses": [[step[name] for name in sorted(step)] for step in losses],
      "sizes": [np.linalg.norm(update) for update in updates.values()],
      "sketches": [cases.sketch(update, name) for name, update in updates.items()],
      "F": agent.F(obs, act, z), "B": agent.B(obs, z), "pi": agent.pi(obs, z),
      "goal": agent.prompt_states(states[:1]), "demo": agent.prompt_states(states),
      "reward": agent.prompt_reward(states, probes["reward"]),
      "softmax": agent.prompt_reward(states, probes["reward"], 0.5)}


if __name__ == "__main__":
  arrays = {f"{case}/{name}": np.asarray(x, np.float32)
            for case in cases.CASES for name, x in results(case).items()}
  np.savez_compressed(cases.FILE, **arrays)
  print(f"{cases.FILE}: {len(cases.CASES)} cases, {cases.FILE.stat().st_size / 1024:.0f} KiB")
