"""bfm robot new and check, bfm info of robots, goals of descriptions, and every mistake that people make with a
robot of their own: one clear sentence with its place, and nothing half-written."""
import json

import pytest
from conftest import TINY, refused, run
from test_own_robot import XML, YAML, write_robot

LEG = """<mujoco>
  <option timestep=".004"/>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1"/>
    <body name="trunk" pos="0 0 .5"><freejoint/><geom name="box" size=".1" mass="1"/><site name="imu"/>
      <body name="leg" pos=".2 0 0"><joint name="hip" axis="0 1 0" range="-60 60"/><geom size=".05" mass=".2"/></body>
    </body>
  </worldbody>
  <actuator><motor name="pull" joint="hip" gear="3"/></actuator>
  <sensor><framepos name="where" objtype="site" objname="imu"/><gyro name="gyro" site="imu"/></sensor>
</mujoco>
"""


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "leg.xml").write_text(LEG)
  return tmp_path


def done(*arguments, **options):
  process = run(*arguments, **options)
  assert not process.returncode, process.stderr
  return process.stdout


# ---------------------------------- new ------------------------------------------------------------


def test_a_new_description_is_the_robot_itself(folder):
  """A start in the same folder and without changes is the robot that the model alone is."""
  text = done("robot", "new", "leg.xml", "-o", "leg.yaml", cwd=folder)
  assert "leg.yaml: 18 observations, 1 actions" in text
  start = (folder / "leg.yaml").read_text()
  assert "# physics steps of a control step: 5 × 0.004 s = 20 ms" in start and "\nsubsteps: 5\n" in start
  assert all(line.startswith(("#", " ")) or ":" in line for line in start.splitlines() if line)
  assert max(map(len, start.splitlines())) <= 100
  of_yaml, of_model = (json.loads(done("info", name, "--json", cwd=folder)) for name in ("leg.yaml", "leg.xml"))
  assert of_yaml["name"] == of_model["name"].replace(".xml", "")
  assert of_yaml["observed"] == of_model["observed"]
  assert done("robot", "check", "leg.yaml", cwd=folder) == done("info", "leg.yaml", cwd=folder)


def test_the_examples_of_a_start_work(folder):
  done("robot", "new", "leg.xml", "-o", "leg.yaml", cwd=folder)
  lines = (folder / "leg.yaml").read_text().splitlines()
  lines = [line[1:] if line[:1] == "#" and line[1:2] != " " or line[:3] == "#  " else line for line in lines]
  (folder / "leg.yaml").write_text("\n".join(lines) + "\n")
  info = json.loads(done("robot", "check", "leg.yaml", "--json", cwd=folder))
  assert info["problems"] == [] and len(info["tasks"]) == 3 and info["terminated"] and info["goal"] == ["joints"]
  done("collect", "leg.yaml", "--with", "mood", "--steps", 40, "--envs", 2, "-o", "d.h5", *TINY[:2], cwd=folder)


def test_a_description_elsewhere_finds_its_model(folder):
  (folder / "a/b").mkdir(parents=True)
  done("robot", "new", "leg.xml", "-o", "a/b/leg.yaml", cwd=folder)
  assert "\nmodel: ../../leg.xml\n" in (folder / "a/b/leg.yaml").read_text()
  done("robot", "check", "a/b/leg.yaml", cwd=folder)
  done("robot", "new", "../leg.xml", "-o", "leg.yaml", cwd=folder / "a")
  assert "\nmodel: ../leg.xml\n" in (folder / "a/leg.yaml").read_text()


URDF = """<robot name="pole">
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="pole"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="hip" type="revolute"><parent link="base"/><child link="pole"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="2" velocity="1"/></joint>
</robot>
"""


def test_a_start_says_whether_the_base_moves(folder):
  (folder / "pole.urdf").write_text(URDF)
  done("robot", "new", "pole.urdf", "-o", "pole.yaml", cwd=folder)
  start = (folder / "pole.yaml").read_text()
  assert "\nbase: free\n" in start and "#  speed: base.lvx\n" in start
  (folder / "fixed.yaml").write_text("model: pole.urdf\nbase: fixed\n")
  assert json.loads(done("info", "fixed.yaml", "--json", cwd=folder))["dofs"] == 1
  (folder / "pole.yaml").write_text(start.split("\nobserved:")[0].replace("base: free", "base: fixed"))
  assert json.loads(done("robot", "check", "pole.yaml", "--json", cwd=folder))["dofs"] == 1


def test_info_names_the_joint_of_an_unnamed_motor(folder):
  (folder / "leg.xml").write_text(LEG.replace('name="pull" ', ""))
  text = done("info", "leg.xml", cwd=folder)
  assert "actuator:0   -1 … 1, moves hip\n" in text and " 1 actuator, 2 sensors, " in text


def test_positions_of_joints_are_one_step(folder):
  (folder / "a.yaml").write_text("model: leg.xml\nreset:\n  - joints: {hip: 0.5}\n  - raise: 0.01\n")
  assert "  reset          joints: {hip: 0.5}, raise: 0.01\n" in done("info", "a.yaml", cwd=folder)


@pytest.mark.parametrize("arguments, sentence", [
    (["new", "leg.xml"], "name the file to write"),
    (["new", "leg.xml", "-o", "leg.txt"], "ends in .yaml"),
    (["new", "leg.xml", "-o", "there.yaml"], "there.yaml is there already"),
    (["new", "there.yaml", "-o", "b.yaml"], "there.yaml is no model"),
    (["new", "no.xml", "-o", "b.yaml"], "cannot open no.xml"),
    (["new", "leg.xml", "leg.xml", "-o", "b.yaml"], "name one model"),
    (["new", "leg.xml", "-o", "no/b.yaml"], "there is no folder no"),
    (["new"], "name a model"), (["check"], "name a robot"), ([], "name an action"),
    (["chek", "leg.xml"], "did you mean check?"), (["check", "walker"], "walker is no robot"),
])
def test_wrong_commands(folder, arguments, sentence):
  (folder / "there.yaml").write_text("model: leg.xml\n")
  assert sentence in refused("robot", *arguments, cwd=folder)
  assert sorted(path.name for path in folder.iterdir()) == ["leg.xml", "there.yaml"]


# ---------------------------------- check ----------------------------------------------------------

WRONG = """model: leg.xml
modle: x
substeps: 0
episode: many
camera: side
actions: rang
observed:
  joints: [qpos.7.., qvl]
  height: trunk.q
  good: trunk.z
  9bad: trunk.z
reset:
  - keyframe: home
  - jonts: random
  - raise: -1
  - noise: {qpos: unform 0.1}
terminated: trunk.z < 0.2 ||
aliases:
  up: trunk.zzz
  exp: trunk.z
  loop: pool + 1
  pool: loop
  empty: {help: nothing}
tasks:
  a: up
  b: {reward: speeed, kind: knwn}
  c: {help: x}
  d: {reward: "trunk.z > "}
  all: up
  fine: trunk.z
goal: [heigt]
edits:
  remove: [geom flor, sensr x]
  change:
    geom floor: {siz: 3}
    option: {timestep: fast}
tasks: {z: 1}
"""
PLACES = [(2, 1), (3, 11), (4, 10), (5, 9), (6, 10), (8, 22), (9, 11), (11, 3), (13, 15), (14, 5), (15, 12), (16, 19),
          (17, 29), (19, 7), (20, 3), (21, 9), (23, 10), (26, 15), (26, 29), (27, 6), (28, 26), (29, 3), (31, 8),
          (33, 17), (33, 23), (35, 18), (36, 24), (37, 1)]


def test_all_problems_are_found_at_once(folder):
  (folder / "wrong.yaml").write_text(WRONG)
  process = run("robot", "check", "wrong.yaml", "--json", cwd=folder)
  problems = json.loads(process.stdout)["problems"]
  assert process.returncode == 3
  assert [(p["line"], p["column"]) for p in problems] == PLACES
  assert problems[0]["message"] == "unknown key 'modle'; did you mean model?"
  process = run("robot", "check", "wrong.yaml", "leg.xml", cwd=folder)
  assert process.returncode == 3 and process.stderr == "bfm: wrong.yaml has 28 problems\n"
  lines = process.stdout.splitlines()
  assert lines[0] == "wrong.yaml:2:1: unknown key 'modle'; did you mean model?"
  assert lines[28] == "leg.xml"  # the robot without problems is described


def test_problems_of_a_model_and_its_description(folder):
  (folder / "leg.xml").write_text(LEG.replace("axis=", "axes="))
  (folder / "b.yaml").write_text("model: leg.xml\nepisod: 3\n")
  process = run("robot", "check", "b.yaml", cwd=folder)
  first, second = process.stdout.splitlines()
  assert "unknown key 'episod'" in first + second and "leg.xml:6: " in first + second and process.returncode == 3


# ---------------------------------- bad input ------------------------------------------------------


def test_a_robot_is_no_model(folder):
  message = refused("play", "leg.xml", "--task", "stand", "-o", "x.png", cwd=folder)
  assert "leg.xml is a robot, not a model" in message, message


def joints(count, motors):
  bodies = "".join(f'<body pos="{i} 0 1"><joint name="j{i}" axis="0 1 0"/><geom size=".1"/></body>'
                   for i in range(count))
  acts = "".join(f'<motor joint="j{i}" ctrlrange="-1 1"/>' for i in range(motors))
  return f"<mujoco><worldbody>{bodies}</worldbody><actuator>{acts}</actuator></mujoco>"


MODELS = {
    "mesh": (XML, "r.xml:2: there is no file meshes/wedge.obj"),
    "include": (LEG.replace("<option", '<include file="no.xml"/><option'), "r.xml:2: cannot open no.xml"),
    "itself": (LEG.replace("<option", '<include file="r.xml"/><option'), "r.xml:2: r.xml is included a second time"),
    "actuators": (LEG.replace('<motor name="pull" joint="hip" gear="3"/>', ""), "r.xml: the model has no actuators"),
    "joints": ('<mujoco><worldbody><body><geom size=".1"/></body></worldbody></mujoco>',
               "r.xml: the model has no joints"),
    "large": (joints(500, 100), "more than 1024 numbers: choose fewer"),
    "controls": (joints(300, 300), "the model has 300 controls, but at most 256"),
    "nan": (LEG.replace('gear="3"', 'gear="nan"'), 'r.xml:9: gear="nan" contains NaN'),
    "default": (LEG.replace("<option", '<default><joint damping="NaN"/></default><option'),
                'r.xml:2: damping="NaN" contains NaN'),
    "position": (LEG.replace('pos="0 0 .5"', 'pos="0 0 nan"'), 'r.xml:5: pos="0 0 nan" contains NaN'),
    "timestep": (LEG.replace(".004", "0"), "the timestep is 0 s"),
    "attribute": (LEG.replace("gear", "gaer"), "r.xml:9: "),
    "syntax": (LEG.replace("</body>", "", 1), "r.xml:"),
    "empty": ("", "no XML"),
}


@pytest.mark.parametrize("case", MODELS)
def test_bad_models(tmp_path, case):
  text, sentence = MODELS[case]
  (tmp_path / "r.xml").write_text(text)
  message = refused("collect", "r.xml", "--steps", 50, "-o", "d.h5", cwd=tmp_path)
  assert sentence in message and message.count("\n") == 1, message
  process = run("robot", "check", "r.xml", cwd=tmp_path)
  assert process.returncode == 3 and process.stdout == message.removeprefix("bfm: ")
  assert sentence in refused("robot", "new", "r.xml", "-o", "r.yaml", cwd=tmp_path)
  assert [path.name for path in tmp_path.iterdir()] == ["r.xml"]


DESCRIPTIONS = {
    "observed": ("observed: {a: [qpos, trnk.z]}", "r.yaml:2:22: the model has nothing called 'trnk.z' (did you mean "
                 "'trunk.z'?)"),
    "always": ("terminated: trunk.z < 100", "r.yaml:2:13: terminated is true in all of 16 initial states"),
    "constant": ("terminated: 1", "r.yaml:2:13: terminated is true"),
    "cycle": ("aliases:\n  a: b\n  b: 2 * a", "r.yaml:3:6: the alias 'a' refers to itself"),
    "behind": ("aliases:\n  x: a\n  a: b\n  b: a", "r.yaml:4:6: the alias 'a' refers to itself"),
    "size": ("size: 7", "r.yaml:2:7: the observation has 18 numbers, not 7"),
    "camera": ("camera: side", "r.yaml:2:9: the model has no camera 'side'"),
    "goal": ("goal: heigt", "r.yaml:2:7: 'heigt' is no part of the observation; did you mean height?"),
    "never": ("reset:\n  - keyframe: up", "r.yaml:3:15: the model has no keyframe 'up'"),
    "touches": ("edits: {change: {body trunk: {pos: 0 0 0}}}\nreset:\n  - redraw",
                "r.yaml:4:5: no episode can start: no initial state without a collision"),
    "slow": ("edits: {change: {body trunk: {pos: 0 0 0}}}\nreset:\n  - settle: 100000\n  - redraw",
             "r.yaml:5:5: no episode can start: no initial state without a collision in 2 draws, each of which takes "
             "100000 physics steps: settle for fewer"),
    "assets": ("assets: none", "r.yaml:2:9: there is no folder none"),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_bad_descriptions(folder, case):
  text, sentence = DESCRIPTIONS[case]
  (folder / "r.yaml").write_text(f"model: leg.xml\n{text}\n")
  message = refused("collect", "r.yaml", "--steps", 50, "-o", "d.h5", cwd=folder)
  assert sentence in message and message.count("\n") == 1, message
  process = run("robot", "check", "r.yaml", cwd=folder)
  assert process.returncode == 3 and process.stdout == message.removeprefix("bfm: ")
  assert sorted(path.name for path in folder.iterdir()) == ["leg.xml", "r.yaml"]


def test_an_expression_that_reads_too_much(folder):
  free = '<body pos="0 0 1"><freejoint/><geom size=".1" contype="0" conaffinity="0"/></body>' * 1200
  (folder / "leg.xml").write_text(LEG.replace("</worldbody>", free + "</worldbody>"))
  (folder / "r.yaml").write_text("model: leg.xml\nobserved: {a: hip}\nreset: []\ntasks: {t: norm(qpos)}\n")
  process = run("robot", "check", "r.yaml", cwd=folder)
  assert process.stdout == "r.yaml:4:17: the expression reads more than 8192 numbers of the model\n"


def test_unnamed_elements_work(tmp_path):
  text = LEG
  for name in ("trunk", "leg", "floor", "box", "pull", "where", "gyro"):
    text = text.replace(f' name="{name}"', "")
  (tmp_path / "r.xml").write_text(text)
  info = json.loads(done("info", "r.xml", "--json", cwd=tmp_path))
  assert info["observed"][1] == {"name": "height", "count": 1, "items": ["body:1.z"]}
  assert info["actions"][0]["name"] == "actuator:0"
  done("collect", "r.xml", "--steps", 50, "--envs", 2, "-o", "d.h5", cwd=tmp_path)


def test_many_joints_work(tmp_path):
  (tmp_path / "r.xml").write_text(joints(200, 200))
  done("collect", "r.xml", "--steps", 4, "--envs", 2, "-o", "d.h5", cwd=tmp_path)


def test_collectors_say_what_a_robot_lacks(folder):
  for collector, sentence in (("mood", "has none: write some"), ("td3", "has no tasks of its own")):
    message = refused("collect", "leg.xml", "--with", collector, "--steps", 50, "-o", "d.h5", cwd=folder)
    assert sentence in message and "leg#" in message
  assert [path.name for path in folder.iterdir()] == ["leg.xml"]


# ---------------------------------- info -----------------------------------------------------------


def test_info_shows_everything_that_was_chosen(folder):
  text = done("info", "leg.xml", cwd=folder)
  for line in ("control step   20 ms: 5 physics steps of 4 ms", "episode        1000 control steps, 20 s",
               "observed       18 numbers", "    height       1: trunk.z", "    up           3: trunk.zx, trunk.zy, trunk.zz",
               "    sensors      6: where, gyro", "actions        1, of which ±1 is an end of the control's range",
               "    pull         -1 … 1", "reset          joints: random, raise: 0.01",
               "terminated     never: only the time limit ends an episode",
               "these sensors depend on where the robot is or faces in the world: where", "1 of 1 controls have no range"):
    assert line in text, text
  info = json.loads(done("info", "leg.xml", "--json", cwd=folder))
  assert (info["kind"], info["obs_dim"], info["act_dim"], info["control_step_ms"]) == ("robot", 18, 1, 20)
  assert sum(part["count"] for part in info["observed"]) == 18 and info["reset"] == ["joints: random", "raise: 0.01"]
  assert info["terminated"] is None and info["scaling"] == "range" and len(info["notes"]) == 2


def test_info_of_a_description(tmp_path):
  write_robot(tmp_path)
  (tmp_path / "cart.yaml").write_text(YAML + "terminated: upright < 0\nactions: raw\nhelp: a cart\n")
  text = done("info", "cart.yaml", cwd=tmp_path)
  for line in ("help           a cart", "which are the controls", "terminated     upright < 0", "aliases        upright = pole.zz",
               "tasks          balance (known) keep the pole up", "far (new) go far"):
    assert line in text, text
  assert refused("info", "none.yaml", cwd=tmp_path).startswith("bfm: cannot open none.yaml")


# ---------------------------------- goals ----------------------------------------------------------


def test_the_goal_of_a_description_is_what_training_takes(folder):
  (folder / "leg.yaml").write_text("model: leg.xml\ngoal: [height, up]\n")
  done("collect", "leg.yaml", "--steps", 200, "--envs", 4, "-o", "d.h5", cwd=folder)
  for given, goal in (([], "1:2,2:5"), (["--goal", "joints"], "0:1"), (["--goal", ""], "")):
    done("train", "d.h5", "--steps", 2, *TINY, *given, "-o", f"run{len(given)}{goal}", cwd=folder)
    model = f"run{len(given)}{goal}/model.safetensors"
    config = json.loads(done("info", model, "--json", cwd=folder))
    assert config["config"]["goal"] == goal
  done("train", "d.h5", "--resume", "--steps", 4, "-o", "run01:2,2:5", cwd=folder)
  done("prompt", "run01:2,2:5/model.safetensors", "--goal", "trunk.z = 0.3, trunk.zz = 1", cwd=folder)


def test_a_goal_leaves_out_what_is_not_named(folder):
  """With the goal `height`, z of a state depends on its height alone."""
  (folder / "leg.yaml").write_text("model: leg.xml\ngoal: height\n")
  done("collect", "leg.yaml", "--steps", 200, "--envs", 4, "-o", "d.h5", cwd=folder)
  done("train", "d.h5", "--steps", 2, *TINY, "-o", "run", cwd=folder)

  def z(height, hip, name):
    (folder / "goal.json").write_text(json.dumps({"qpos": [3, 0, height, 1, 0, 0, 0, hip]}))
    done("prompt", "run/model.safetensors", "--goal", "goal.json", "-o", name, cwd=folder)
    return json.loads((folder / name).read_text())["z"]
  assert z(0.4, 0, "a.json") == z(0.4, 0.5, "b.json") != z(0.6, 0, "c.json")
