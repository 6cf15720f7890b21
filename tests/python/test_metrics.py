"""Metrics of a step against numpy, computed from the networks' outputs just before the step."""
import numpy as np
import pytest

import bfm

OBS, ACT, N, D = 5, 2, 48, 12


def transitions(rng, groups):
  z = rng.standard_normal((groups, D)).repeat(N // groups, 0)
  arrays = {"obs": rng.standard_normal((N, OBS)), "act": rng.uniform(-1, 1, (N, ACT)),
            "next_obs": rng.standard_normal((N, OBS)),
            "z": z * np.sqrt(D) / np.linalg.norm(z, axis=1, keepdims=True),
            "noise_next": np.zeros((N, ACT)), "noise_pi": np.zeros((N, ACT))}
  return {name: x.astype(np.float32) for name, x in arrays.items()}


@pytest.mark.parametrize("algo, changes", [
    ("fb", {}), ("fb-aw", {"weights": "wis"}), ("fb-are", {"blocks": 3, "z_groups": 4}),
    ("fb-aware", {"blocks": 4}), ("lap", {}), ("lap-aw", {"f_norm": "on"})])
def test_metrics_describe_the_networks_before_the_step(algo, changes):
  agent = bfm.Agent(OBS, ACT, algo=algo, d=D, batch=N, hidden=24, feat=12, b_hidden=16, seed=3,
                    lr=1e-2, polyak=0.5, device="cpu", **changes)
  with pytest.raises(bfm.Error, match="no metrics before a training step"):
    agent.metrics()
  rng = np.random.default_rng(0)
  groups = changes.get("z_groups", 1 if "blocks" in changes else N)
  for _ in range(3):  # so that targets and networks differ
    agent.update(**transitions(rng, groups))
  x = transitions(rng, groups)
  a, z = (x[name].astype(np.float64) for name in ("act", "z"))
  mu = agent.pi(x["obs"], x["z"]).astype(np.float64)
  F, F_pi = (agent.F(x["obs"], act.astype(np.float32), x["z"]).astype(np.float64) for act in (a, mu))
  B = agent.B(x["next_obs"], x["z"]).astype(np.float64)
  tensors = agent.tensors()
  name = "psi" if algo.startswith("lap") else "F"
  target = bfm.Agent(OBS, ACT, **agent.options)  # has the targets in place of the networks
  target.set_tensors({key: tensors[key.replace(name + ".", name + "_target.")]
                      if key.startswith(name + ".") else value for key, value in tensors.items()})
  F_target = target.F(x["next_obs"], agent.pi(x["next_obs"], x["z"]), x["z"]).astype(np.float64)
  agent.update(**x)
  found = agent.metrics()

  norm = lambda v: np.linalg.norm(v, axis=-1).mean()
  eig = np.linalg.eigvalsh(B.T @ B / N)
  Q, Q_pi = (F * z).sum(-1), (F_pi * z).sum(-1)
  expected = {"F": norm(F), "F.target": norm(F_target), "B": norm(B), "B.eig.min": eig[0],
              "B.eig.max": eig[-1], "Q.data": Q.mean(), "Q.pi": Q_pi.mean(), "pi.dist": norm(a - mu)}
  if name == "psi":
    rename = {"F": "psi", "B": "phi"}
    expected = {".".join([rename.get(part, part) for part in key.split(".")]): value
                for key, value in expected.items()}
    expected["psi.norm"] = expected.pop("psi")  # the loss is called psi
  else:
    M = np.abs(np.einsum("mjd,kd->mjk", F, B))
    same = np.repeat(np.arange(groups), N // groups)
    pairs = same[:, None] == same[None, :] if "blocks" in changes else np.ones((N, N), bool)
    expected["M.max"] = M[:, pairs].max()
  if algo in ("fb-aw", "fb-aware", "lap-aw"):
    A = Q.mean(0) - Q_pi.min(0)
    w = np.exp(np.minimum(A / 10, 4.6))
    w /= w.sum()
    if changes.get("weights") != "wis":
      w /= 1 - w
      w /= w.sum()
    expected.update({"adv": A.mean(), "adv.std": A.std(), "ess": 1 / (N * (w ** 2).sum()),
                     "w.max": w.max()})
  assert found.keys() == expected.keys()
  assert not found.keys() & agent.update(**x).keys()  # both are keys of the same line of a log
  for key in expected:
    assert found[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-5), key


def test_metrics_of_replicas_are_arrays():
  rng = np.random.default_rng(1)
  data = [rng.standard_normal((100, OBS)), rng.uniform(-1, 1, (100, ACT)),
          rng.standard_normal((100, OBS))]
  common = {"algo": "fb-aware", "blocks": 2, "d": D, "batch": N, "hidden": 24, "feat": 12,
            "b_hidden": 16, "device": "cpu"}
  both = bfm.Agent(OBS, ACT, seed=5, seeds=2, **common)
  both.set_data(*data)
  both.train(4)
  together = both.metrics()
  for r in range(2):
    one = bfm.Agent(OBS, ACT, seed=5 + r, **common)
    one.set_data(*data)
    one.train(4)
    for key, value in one.metrics().items():
      assert together[key][r] == pytest.approx(value, rel=1e-4, abs=1e-5), key
