"""bfm.Explorer from Python: shapes, files, errors; tests/oracle checks its numbers."""
import json

import numpy as np
import pytest
from safetensors import safe_open

import bfm

OBS, ACT, T, E = 4, 2, 2, 3


def make(**options):
  return bfm.Explorer(OBS, ACT, tasks=T, envs=E, hidden=16, batch=8, device="cpu", threads=1,
                      **options)


def rows(seed):
  rng = np.random.default_rng(seed)
  return {"obs": rng.standard_normal((T, E, OBS)), "act": rng.uniform(-1, 1, (T, E, ACT)),
          "reward": rng.random((T, E)), "discount": np.ones((T, E)),
          "next_obs": rng.standard_normal((T, E, OBS)), "last": np.zeros((T, E))}


@pytest.mark.parametrize("algo", ["td3", "rnd"])
def test_explorers_act_learn_save_and_load(algo, tmp_path):
  explorer = make(algo=algo)
  for i in range(5):
    explorer.add(**rows(i))
  explorer.update(6)
  assert explorer.step == 6
  losses = explorer.losses()
  assert list(losses) == ["critic", "actor", "q"] + (["rnd", "bonus"] if algo == "rnd" else [])
  assert all(x.shape == (T,) for x in losses.values())

  obs = rows(9)["obs"]
  act = explorer.act(obs)
  assert act.shape == (T, E, ACT) and not np.array_equal(act[0], act[1])
  explorer.save_state(tmp_path / "state.safetensors")
  again = bfm.Explorer.load(tmp_path / "state.safetensors", device="cpu")
  assert (again.step, again.tasks, again.envs) == (6, T, E)
  np.testing.assert_array_equal(again.act(obs), act)

  explorer.save(tmp_path / "policy.safetensors", task=1, env="walker", name="run")
  policy = bfm.Explorer.load(tmp_path / "policy.safetensors", envs=E, device="cpu")
  np.testing.assert_array_equal(policy.act(obs[1:]), act[1:])
  with pytest.raises(bfm.ArgumentError, match="can act but not learn"):
    policy.update()


def test_rnd_has_the_architecture_of_urlb(tmp_path):
  path = tmp_path / "policy.safetensors"
  bfm.Explorer(OBS, ACT, algo="rnd", device="cpu").save(path)
  with safe_open(path, "np") as file:
    options = json.loads(file.metadata()["config"])
  urlb = {"lr": 1e-4, "hidden": 1024, "rnd-dim": 512, "batch": 1024, "nstep": 3, "gamma": 0.99,
          "tau": 0.01, "critics": 2, "delay": 1, "sigma": 0.2, "target-sigma": 0.2,
          "noise-clip": 0.3}
  assert {name: options[name] for name in urlb} == urlb


@pytest.mark.parametrize("choice", ["off", "on"])
def test_normalization_of_old_states_follows_their_tensors(choice, tmp_path):
  explorer, path = make(obs_norm=choice, policy_norm=choice), tmp_path / "state.safetensors"
  explorer.add(**rows(0))
  explorer.update(2)
  explorer.save_state(path)
  content = path.read_bytes()
  for option in ("obs-norm", "policy-norm"):
    entry = rf'\"{option}\":\"{choice}\",'.encode()
    assert entry in content
    content = content.replace(entry, b" " * len(entry))
  path.write_bytes(content)
  again = bfm.Explorer.load(path, device="cpu")
  assert ("input.stats" in again.tensors()) == (choice == "on")
  obs = rows(9)["obs"]
  np.testing.assert_array_equal(again.act(obs), explorer.act(obs))


def test_tensors_can_be_set_by_name():
  explorer = make()
  tensors = explorer.tensors(1)
  assert tensors["Q.sa.in.weight"].shape == (2, 16, OBS + ACT)
  bias = np.full(ACT, 0.5)
  explorer.set_tensors({"pi.trunk.0.bias": bias, "pi.trunk.0.weight": np.zeros((ACT, 16))}, task=1)
  np.testing.assert_allclose(explorer.act(rows(0)["obs"])[1], np.tanh(0.5), atol=1e-6)


def test_mistakes_are_told():
  with pytest.raises(bfm.ArgumentError, match="td4"):
    make(algo="td4")
  explorer = make()
  with pytest.raises(bfm.ArgumentError, match="no transitions"):
    explorer.update()
  with pytest.raises(bfm.ArgumentError, match="updates must be 0 or more, not -1"):
    explorer.update(-1)
  with pytest.raises(bfm.ArgumentError, match="obs has shape"):
    explorer.act(np.zeros((T, E + 1, OBS)))
  with pytest.raises(bfm.ArgumentError, match="NaN in row 4, column 1"):
    wrong = rows(0)
    wrong["obs"][1, 1, 1] = np.nan
    explorer.add(**wrong)
  with pytest.raises(bfm.ArgumentError, match="task must be 0 to 1, not 2"):
    explorer.tensors(2)
  with pytest.raises(bfm.ArgumentError, match="no tensor"):
    explorer.set_tensors({"F.sa.in.weight": np.zeros(1)})
