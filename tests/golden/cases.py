"""The inputs of the committed results (agents.npz): cases, parameters, transitions.

All inputs come from frozen random streams, so that only results are stored. Needs only numpy.
An update of a tensor is stored as a sketch: four sums with random signs. Their size is about the
norm of the update, and an error changes them by about the norm of the error.
"""
from pathlib import Path
from zlib import crc32

import numpy as np

FILE = Path(__file__).with_name("agents.npz")
OBS, ACT, STEPS, PROBES, STATES = 5, 2, 5, 4, 64

COMMON = {"d": 8, "batch": 16, "hidden": 24, "feat": 12, "b_hidden": 16, "beta": 1.0, "clip": 2.0,
          "ortho": 1.0, "gamma": 0.98, "lr": 1e-3, "polyak": 0.05, "sigma": 0.2}
CASES = {
    "fb": {"algo": "fb"},
    "fb-aw": {"algo": "fb-aw"},
    "fb-are": {"algo": "fb-are", "blocks": 4},
    "fb-aware": {"algo": "fb-aware", "blocks": 4},
    "lap": {"algo": "lap"},
    "lap-aw": {"algo": "lap-aw"},
    "lineage": {"algo": "lap", "target": "min", "ensemble": "shared", "ortho": 16.0, "b_lr": 5e-3},
    "vanilla": {"algo": "fb", "target": "min", "ensemble": "shared"},
    "groups": {"algo": "fb-aware", "blocks": 3, "d": 10, "z_groups": 4, "b_norm": "off"},
    "printed": {"algo": "fb-aw", "weights": "wis", "adv": "sum", "adv_base": "mean"},
    "extended": {"algo": "fb-aware", "blocks": 2, "goal": "0:2,4", "mbar": 3},
}


def options(case):
  return {**COMMON, **CASES[case]}


def stream(*key):
  """A frozen random stream for this key."""
  return np.random.RandomState(crc32("/".join(map(str, key)).encode()))


def parameters(shapes):
  """Values of tensors by name and shape; targets differ from their networks."""
  result = {}
  for name, shape in shapes.items():
    noise = stream("parameter", name).standard_normal(shape)
    if ".norm." in name or name.endswith(".bias"):
      result[name] = 0.1 * noise + (1.0 if name.endswith(".norm.weight") else 0.0)
    else:
      result[name] = noise / np.sqrt(shape[-1])
  return {name: x.astype(np.float32) for name, x in result.items()}


def transitions(case, step):
  """The batch of one step, as arguments of bfm.Agent.update."""
  o, rng = options(case), stream("batch", case, step)
  N, d = o["batch"], o["d"]
  groups = o.get("z_groups") or (1 if "blocks" in o else N)
  obs = rng.standard_normal((N, OBS))
  z = rng.standard_normal((groups, d)).repeat(N // groups, 0)
  batch = {"obs": obs, "act": rng.uniform(-1, 1, (N, ACT)),
           "next_obs": obs + 0.3 * rng.standard_normal((N, OBS)),
           "discount": rng.uniform(size=N) > 0.2,
           "z": z * np.sqrt(d) / np.linalg.norm(z, axis=1, keepdims=True),
           "noise_next": rng.standard_normal((N, ACT)),
           "noise_pi": rng.standard_normal((N, ACT))}
  return {name: x.astype(np.float32) for name, x in batch.items()}


def probes(case):
  """Inputs for the networks, and states and rewards for prompts."""
  rng = stream("probes", case)
  d = options(case)["d"]
  arrays = {"obs": rng.standard_normal((PROBES, OBS)), "act": rng.uniform(-1, 1, (PROBES, ACT)),
            "z": rng.standard_normal((PROBES, d)), "states": rng.standard_normal((STATES, OBS)),
            "reward": rng.uniform(size=STATES)}
  return {name: x.astype(np.float32) for name, x in arrays.items()}


def sketch(update, name):
  signs = stream("signs", name).choice([-1.0, 1.0], (4, update.size))
  return signs @ update.ravel().astype(np.float64)
