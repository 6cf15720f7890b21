"""Robots of one's own in Python: wherever a domain's name is accepted, so is the path of a robot's file."""
import numpy as np
import pytest

import bfm

XML = """<mujoco><worldbody><light pos="0 0 3"/><geom type="plane" size="9 9 1"/>
  <body name="trunk" pos="0 0 .4"><freejoint/><geom size=".1" mass="1"/>
    <body name="leg" pos=".2 0 0"><joint name="hip" axis="0 1 0" range="-60 60"/><geom size=".05" mass=".2"/></body>
  </body></worldbody><actuator><motor joint="hip" ctrlrange="-2 2"/></actuator></mujoco>"""
URDF = """<robot name="arm"><link name="world"/>
  <link name="a"><inertial><origin xyz="0 0 .2"/><mass value="1"/>
    <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="revolute"><parent link="world"/><child link="a"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="3"/></joint></robot>"""
YAML = """model: hop.xml
episode: 40
tasks: {up: trunk.zz}
goal: [height]
"""
TINY = {"d": 4, "blocks": 2, "batch": 8, "hidden": 8, "feat": 4, "b_hidden": 8, "z_pool": 4,
        "device": "cpu", "threads": 1}


@pytest.fixture
def folder(tmp_path):
  for name, text in {"hop.xml": XML, "arm.urdf": URDF, "hop.yaml": YAML}.items():
    (tmp_path / name).write_text(text)
  return tmp_path


@pytest.mark.parametrize("name, obs, act", [("hop.xml", 12, 1), ("arm.urdf", 2, 1), ("hop.yaml", 12, 1)])
def test_environments_and_rewards(folder, name, obs, act):
  env = bfm.Env(folder / name, num_envs=3)
  assert (env.obs_dim, env.act_dim) == (obs, act) and env.control_dt == pytest.approx(0.02)
  assert env.reset().shape == (3, obs)
  env.step(np.zeros((3, act)))
  qpos, qvel, _ = env.state()
  joint = qpos[:, -1]
  np.testing.assert_array_equal(bfm.rewards(str(folder / name), "qpos.%d" % (qpos.shape[1] - 1), qpos, qvel), joint)
  np.testing.assert_array_equal(env.reward("qpos.%d" % (qpos.shape[1] - 1)), joint)


def test_tasks_of_a_description(folder):
  env = bfm.Env(folder / "hop.yaml", num_envs=4)
  assert list(env.tasks) == ["up"] and not list(bfm.Env(folder / "hop.xml").tasks)
  env.reset()
  qpos, qvel, _ = env.state()
  w, x, y, z = qpos[:, 3:7].T
  np.testing.assert_allclose(bfm.rewards(folder / "hop.yaml", "up", qpos, qvel), 1 - 2 * (x * x + y * y), atol=1e-6)
  assert env.episode_steps == 40


def test_from_a_path_to_a_model(folder):
  data = bfm.collect(folder / "hop.yaml", output=folder / "d.h5", steps=120, envs=4, threads=1)
  model = bfm.train(data, output=folder / "run", steps=2, **TINY)
  for name in ("hop.yaml", "hop.xml"):
    (folder / name).unlink()
  agent = bfm.load(model, device="cpu")
  z = agent.prompt(task="up")
  assert agent.act(np.zeros((1, 12), np.float32), z).shape == (1, 1)
  assert agent.prompt(goal="trunk.z = 0.3").shape == z.shape


def test_errors_name_the_file(folder):
  (folder / "bad.yaml").write_text("model: hop.xml\nobserved: {a: trnk.z}\n")
  with pytest.raises(bfm.Error, match=r"bad\.yaml:2:15: .*'trunk\.z'"):
    bfm.Env(folder / "bad.yaml")
  with pytest.raises(bfm.Error, match="cannot open .*none.xml"):
    bfm.Env(folder / "none.xml")
