"""Networks as ONNX graphs: checked by onnx, and equal to the library in onnxruntime."""
import json
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT

import bfm

OBS, ACT, D = 7, 3, 10
SMALL = dict(d=D, hidden=24, feat=16, b_hidden=20, batch=16, z_pool=4, device="cpu",
             precision="f32", threads=1)
AGENTS = {
    **{algo: {"algo": algo} for algo in ("fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw")},
    "uneven blocks": {"blocks": 3},  # 10, 16, 20 and 24 are not multiples of 3
    "layer norms": {"f_norm": True, "pi_norm": True},
    "goal space": {"goal": "1:4,6"},
    "one member": {"members": 1, "b_norm": False},
    "shared ensemble": {"ensemble": "shared", "members": 3},
    "advantage only": {"mbar": 5},
}


@pytest.fixture(scope="module", params=AGENTS)
def agent(request):
  """An agent after a few steps: biases and layer norms no longer have their initial values."""
  rng = np.random.default_rng(1)
  agent = bfm.Agent(OBS, ACT, **{**SMALL, "algo": "fb-aware", "lr": 0.02, "seed": 3,
                                 **AGENTS[request.param]})
  agent.set_data(rng.standard_normal((50, OBS)), rng.uniform(-1, 1, (50, ACT)),
                 rng.standard_normal((50, OBS)))
  agent.train(5)
  return agent


def session(agent, path, **options):
  """onnxruntime on the exported file, after onnx has checked it."""
  agent.export(path, **options)
  onnx.checker.check_model(str(path), full_check=True)
  return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def inputs(rows, seed=0, obs=OBS, act=ACT, d=D):
  rng = np.random.default_rng(seed)
  return {"obs": 2 * rng.standard_normal((rows, obs)).astype("f4"),
          "action": rng.uniform(-1, 1, (rows, act)).astype("f4"),
          "z": 3 * rng.standard_normal((rows, d)).astype("f4")}


def run(session, given, output=None):
  names = [put.name for put in session.get_inputs()]
  return session.run(output and [output], {name: given[name] for name in names})[0]


def assert_equal(found, expected):
  assert found.shape == expected.shape
  assert np.abs(found - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("half", [False, True])
def test_graphs_equal_the_library(agent, tmp_path, half):
  """With half, the library rounds the same parameters to bfloat16."""
  same = agent
  if half:
    agent.export(tmp_path / "half.safetensors", half=True)
    same = bfm.load(tmp_path / "half.safetensors", device="cpu", precision="f32", threads=1)
  graphs = {part: session(agent, tmp_path / f"{part}.onnx", part=part, half=half)
            for part in ("pi", "B", "F")}
  for rows in (1, 33):
    given = inputs(rows, seed=rows)
    obs, action, z = given["obs"], given["action"], given["z"]
    forward, unit = same.F(obs, action, z), z * np.sqrt(D) / np.linalg.norm(z, axis=1)[:, None]
    assert_equal(run(graphs["pi"], given), same.act(obs, z))
    assert_equal(run(graphs["B"], given), same.B(obs, z))
    assert_equal(run(graphs["F"], given), forward.reshape(agent.members, rows, D))
    assert_equal(run(graphs["F"], given, "Q"), (forward * unit).sum(-1).reshape(-1, rows))


def test_a_prompt_block_by_block(agent, tmp_path):
  """z = E[r B(s, z)], where each pass completes one more block; LAP then solves for z."""
  features = session(agent, tmp_path / "B.onnx", part="B")
  blocks = agent.options["blocks"]
  obs, reward = inputs(40, seed=5)["obs"], np.linspace(0, 1, 40, dtype="f4")
  z = np.zeros(D, "f4")
  for _ in range(blocks):
    given = {"obs": obs, "z": np.broadcast_to(z, (40, D)).copy()}
    b = run(features, given)
    z = (reward[:, None] * b).mean(0)
  if agent.options["algo"].startswith("lap"):
    z = np.linalg.lstsq(b.T @ b / 40, z, rcond=None)[0]
  expected = agent.prompt(reward=reward, obs=obs)
  cosine = z @ expected / np.linalg.norm(z) / np.linalg.norm(expected)
  assert cosine > 1 - 1e-5


def test_fewer_members(tmp_path):
  agent = bfm.Agent(OBS, ACT, **SMALL, members=3)
  given = inputs(4)
  graph = session(agent, tmp_path / "F.onnx", part="F", members=2)
  assert_equal(run(graph, given), agent.F(given["obs"], given["action"], given["z"])[:2])


def test_the_shipped_walker(tmp_path):
  """The paper's widths, and a robot whose names are in the metadata."""
  path, policy = ROOT / "models/walker.safetensors", tmp_path / "policy.onnx"
  model = bfm.load(path, device="cpu", precision="f32")
  subprocess.run([ROOT / "build/bfm", "export", path, "-o", policy], check=True)
  graph = onnxruntime.InferenceSession(str(policy), providers=["CPUExecutionProvider"])
  given = inputs(50, obs=24, act=6, d=64)
  assert_equal(run(graph, given), model.act(given["obs"], given["z"]))

  found = onnx.load(policy)
  meta = {entry.key: entry.value for entry in found.metadata_props}
  assert found.ir_version == 7 and found.opset_import[0].version == 13
  assert meta["env"] == "walker" and meta["part"] == "pi"
  signals = json.loads(meta["signals"])
  assert signals["control_dt"] == 0.025
  assert [row["part"] for row in signals["observations"]] == ["orientations"] * 14 + ["height"] + ["velocity"] * 9
  assert signals["actions"][0]["name"] == "right_hip" and len(signals["actions"]) == 6
  assert [int(meta[name]) for name in ("obs_dim", "act_dim", "d", "blocks")] == [24, 6, 64, 8]


def test_parameters_of_half_have_half_the_size(tmp_path):
  agent = bfm.Agent(OBS, ACT, **{**SMALL, "hidden": 256, "feat": 256})
  for name, half in (("f32", False), ("half", True)):
    agent.export(tmp_path / f"{name}.onnx", half=half)
  sizes = [(tmp_path / f"{name}.onnx").stat().st_size for name in ("f32", "half")]
  assert 0.5 < sizes[1] / sizes[0] < 0.51


def test_bad_exports_are_refused(tmp_path):
  agent = bfm.Agent(OBS, ACT, **SMALL)
  for words, options in [("not \"V\"", {"part": "V"}), ("members must be 1 to", {"members": 9}),
                         ("not int8", {"weights": "int8"}), ("prompt_states is 5", {"prompt_states": 5}),
                         ("no replica 2", {"replica": 2})]:
    with pytest.raises(bfm.ArgumentError, match=words):
      agent.export(tmp_path / "x.onnx", **options)
  with pytest.raises(bfm.ArgumentError, match="part is 'B'"):
    agent.export(tmp_path / "x.safetensors", part="B")
  with pytest.raises(bfm.Error, match="nowhere"):
    agent.export(tmp_path / "nowhere" / "x.onnx")
  assert not list(tmp_path.iterdir())
