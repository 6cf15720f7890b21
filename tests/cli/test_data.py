"""bfm data: datasets of every layout are read exactly, and bad ones are rejected."""
import json
import os
import resource
import zipfile

import h5py
import numpy as np
import pytest
from conftest import TINY, refused, run, write_dataset

RNG = np.random.default_rng(3)


def info(path):
  process = run("info", "--json", path)
  assert process.returncode == 0, process.stderr
  return json.loads(process.stdout)


def data(*arguments):
  process = run("data", *arguments)
  assert process.returncode == 0, process.stderr


def read(path):
  with h5py.File(path, "r") as file:
    return {name: file[name][:] for name in file if name != "infos"}


def everything(path):
  """Return all tables and attributes of a file."""
  tables = {}
  with h5py.File(path, "r") as file:
    file.visititems(lambda name, item: tables.update({name: item[:]})
                    if isinstance(item, h5py.Dataset) else None)
    return tables, dict(file.attrs)


def collected(path, *more, env="point_mass"):
  process = run("collect", env, "--envs", 2, "--threads", 1, "-o", path, *more)
  assert process.returncode == 0, process.stderr
  return path


def episodes(lengths, obs=5, act=2):
  """Make random episodes as dictionaries; every second one terminates."""
  return [{"obs": RNG.standard_normal((n + 1, obs)).astype("f4"),
           "act": RNG.uniform(-1, 1, (n, act)).astype("f4"),
           "reward": RNG.uniform(0, 1, n).astype("f4"),
           "terminal": np.arange(n) == (n - 1 if i % 2 else -1)} for i, n in enumerate(lengths)]


def expected(all_episodes):
  """Return the tables that a dataset of these episodes must have."""
  join = lambda part: np.concatenate([part(e) for e in all_episodes])
  terminals = join(lambda e: e["terminal"])
  ends = join(lambda e: np.arange(len(e["act"])) == len(e["act"]) - 1)
  return {"observations": join(lambda e: e["obs"][:-1]), "actions": join(lambda e: e["act"]),
          "next_observations": join(lambda e: e["obs"][1:]), "rewards": join(lambda e: e["reward"]),
          "terminals": terminals, "timeouts": ends & ~terminals}


def same(path, tables):
  stored = read(path)
  assert set(stored) == set(tables)
  for name, table in tables.items():
    np.testing.assert_array_equal(stored[name], table, name)


def write_minari(path, all_episodes, **changes):
  with h5py.File(path, "w") as file:
    for i, e in enumerate(all_episodes):
      n = len(e["act"])
      tables = {"observations": e["obs"].astype("f8"), "actions": e["act"], "rewards": e["reward"],
                "terminations": e["terminal"],
                "truncations": (np.arange(n) == n - 1) & ~e["terminal"], **changes}
      for name, table in tables.items():
        if table is not None:
          file[f"episode_{i}/{name}"] = table
  return path


def write_exorl(folder, all_episodes, save=np.savez, **changes):
  folder.mkdir()
  for i, e in enumerate(all_episodes):
    first = lambda x, dummy: np.concatenate([np.full_like(x[:1], dummy), x])
    arrays = {"observation": e["obs"], "action": first(e["act"], 7),
              "reward": first(e["reward"], 7)[:, None],
              "discount": 1 - first(e["terminal"].astype("f4"), 0)[:, None],
              "physics": RNG.standard_normal((len(e["obs"]), 18)), **changes}
    save(folder / f"episode_{i:06d}.npz", **arrays)
  return folder


def write_d4rl(path, all_episodes):
  """Write a file without next_observations, so that the last row of each episode has no successor."""
  whole = expected(all_episodes)
  with h5py.File(path, "w") as file:
    for name, table in whole.items():
      if name != "next_observations":
        file[name] = table
  return path


# ---------------------------------- layouts -------------------------------------------------------


def test_minari(tmp_path):
  many = episodes([3, 1, 12, 2])
  path = write_minari(tmp_path / "minari.h5", many)
  data("convert", path, "-o", tmp_path / "out.h5")
  same(tmp_path / "out.h5", expected(many))
  assert (info(path)["transitions"], info(path)["episodes"], info(path)["terminations"]) == (18, 4, 2)
  (tmp_path / "folder" / "data").mkdir(parents=True)
  path.rename(tmp_path / "folder" / "data" / "main_data.hdf5")
  assert info(tmp_path / "folder")["transitions"] == 18


def test_minari_with_goals(tmp_path):
  many = episodes([3, 5])
  path = write_minari(tmp_path / "minari.h5", many, observations=None)
  with h5py.File(path, "a") as file:
    for i, e in enumerate(many):
      file[f"episode_{i}/observations/observation"] = e["obs"]
      file[f"episode_{i}/observations/desired_goal"] = np.zeros((len(e["obs"]), 2))
  data("convert", path, "-o", tmp_path / "out.h5")
  same(tmp_path / "out.h5", expected(many))
  with h5py.File(path, "a") as file:
    file.move("episode_1/observations/observation", "episode_1/observations/position")
  assert "episode_1" in refused("info", path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_exorl(save, tmp_path):
  many = episodes([4, 9, 1, 30])
  folder = write_exorl(tmp_path / "buffer", many, save)
  data("convert", folder, "-o", tmp_path / "out.h5")
  same(tmp_path / "out.h5", expected(many))
  assert info(folder)["episodes"] == 4
  assert info(folder / "episode_000001.npz")["transitions"] == 9


def as_exorl(folder, source, cut=None):
  """Write a collected file as episodes of ExORL. physics is qpos, qvel and act side by side, of which
  the first `cut` columns are kept."""
  tables, _ = everything(source)
  folder.mkdir()
  states = [tables[f"infos/{name}"] for name in ("qpos", "qvel", "act") if f"infos/{name}" in tables]
  physics = np.concatenate(states, axis=1)[:, :cut]
  ends = np.flatnonzero(tables["terminals"] | tables["timeouts"]) + 1
  for i, (a, b) in enumerate(zip([0, *ends], ends)):
    with_last = lambda rows, last: np.concatenate([rows[a:b], last])
    np.savez(folder / f"episode_{i:06d}.npz",
             observation=with_last(tables["observations"], tables["next_observations"][b - 1:b]),
             action=np.concatenate([tables["actions"][a:a + 1], tables["actions"][a:b]]),
             physics=with_last(physics, physics[b - 1:b]))
  return folder, physics


@pytest.mark.parametrize("env", ["point_mass", "quadruped"])
def test_models_of_exorl_data_are_prompted_by_its_physics(env, tmp_path):
  source = collected(tmp_path / "source.h5", "--steps", 60, env=env)
  buffer, physics = as_exorl(tmp_path / "buffer", source)
  data("convert", buffer, "-o", tmp_path / "converted.h5")
  np.testing.assert_array_equal(everything(tmp_path / "converted.h5")[0]["infos/physics"], physics)
  assert info(buffer)["states"] == {"physics": physics.shape[1]}
  asked = []
  for i, path in enumerate((source, buffer, tmp_path / "converted.h5")):
    process = run("train", path, *TINY, "--env", env, "--steps", 2, "-o", tmp_path / f"run{i}")
    assert process.returncode == 0 and "prompt 60 states" in process.stdout, process
    process = run("prompt", tmp_path / f"run{i}" / "model.safetensors", "--reward", "com.x", "--json")
    asked.append(json.loads(process.stdout)["z"])
  assert asked[0] == asked[1] == asked[2]


def test_physics_of_wrong_size(tmp_path):
  source = collected(tmp_path / "source.h5", "--steps", 40)
  whole, _ = as_exorl(tmp_path / "whole", source)
  short, _ = as_exorl(tmp_path / "short", source, cut=3)
  sentence = refused("train", short, *TINY, "--env", "point_mass", "--steps", 2, "-o", tmp_path / "run")
  assert "physics" in sentence and "3 numbers" in sentence and not (tmp_path / "run").exists()
  data("merge", whole, short, "-o", tmp_path / "both.h5")
  data("merge", whole, source, "-o", tmp_path / "mixed.h5")
  for name in ("both", "mixed"):
    assert not any("infos" in table for table in everything(tmp_path / f"{name}.h5")[0])


def test_d4rl_without_next_observations(tmp_path):
  many = episodes([4, 3, 5])
  data("convert", write_d4rl(tmp_path / "d4rl.h5", many), "-o", tmp_path / "out.h5")
  whole = expected(many)
  keep = ~(whole["terminals"] | whole["timeouts"])
  stored = read(tmp_path / "out.h5")
  for name in ("observations", "actions", "next_observations", "rewards"):
    np.testing.assert_array_equal(stored[name], whole[name][keep])
  assert list(np.flatnonzero(stored["timeouts"])) == [2, 4, 8] and not stored["terminals"].any()


def test_episodes_with_one_row_have_no_transition(tmp_path):
  """Half of the 40 episodes have only one row, whose successor is missing."""
  path = write_dataset(tmp_path / "data.h5", rows=60, next_observations=None,
                       timeouts=np.arange(60) % 3 != 1)
  found = info(path)
  assert (found["transitions"], found["episodes"]) == (20, 20)
  assert found["ranges"]["lengths"]["min"] == 1
  for seed in range(3):
    small = tmp_path / f"{seed}.h5"
    data("subsample", path, "--steps", 15, "--seed", seed, "-o", small)
    assert info(small)["episodes"] == 15


def test_all_layouts_merge_and_train(tmp_path):
  many = episodes([4, 9])
  exorl, minari = write_exorl(tmp_path / "a", many), write_minari(tmp_path / "b.h5", many)
  d4rl = write_dataset(tmp_path / "c.h5")
  data("merge", exorl, minari, d4rl, "-o", tmp_path / "out.h5")
  stored = read(tmp_path / "out.h5")
  assert len(stored["actions"]) == 226
  np.testing.assert_array_equal(stored["observations"][26:], read(d4rl)["observations"])
  process = run("train", exorl, minari, d4rl, *TINY, "--steps", 2, "-o", tmp_path / "run")
  assert process.returncode == 0 and "226 transitions in 8 episodes" in process.stdout


def test_a_table_missing_in_one_file_is_missing_in_the_merged_one(tmp_path):
  many = episodes([4, 9])
  bare = write_minari(tmp_path / "bare.h5", many, rewards=None)
  for order in ([bare, write_exorl(tmp_path / "a", many)], [tmp_path / "a", bare]):
    data("merge", *order, "-o", tmp_path / "out.h5")
    assert "rewards" not in read(tmp_path / "out.h5")
    (tmp_path / "out.h5").unlink()


def test_states_and_returns(tmp_path):
  path = tmp_path / "data.h5"
  assert run("collect", "quadruped", "--envs", 2, "--steps", 60, "--task", "stand", "-o",
             path).returncode == 0
  assert info(path)["states"] == {"qpos": 23, "qvel": 22, "act": 12}
  assert info(path)["ranges"]["lengths"]["mean"] == 30
  with h5py.File(path) as file:
    returns = file["rewards"][:].reshape(2, 30).sum(1)
  assert info(path)["ranges"]["returns"]["max"] == pytest.approx(returns.max(), rel=1e-5)
  data("merge", path, path, "-o", tmp_path / "out.h5")
  with h5py.File(path) as one, h5py.File(tmp_path / "out.h5") as two:
    assert two.attrs["env"] == "quadruped"
    for name in ("qpos", "qvel", "act"):
      np.testing.assert_array_equal(two["infos"][name][60:], one["infos"][name][:])


INFOS = {f"infos/{name}" for name in ("qpos", "qvel", "source", "task", "step", "episode")}


def test_infos_and_attributes_are_preserved(tmp_path):
  path = collected(tmp_path / "data.h5", "--steps", 3001, "--task", "easy")
  tables, notes = everything(path)
  assert INFOS < set(tables) and {"env", "collector", "options", "sources", "tasks"} < set(notes)

  data("convert", path, "-o", tmp_path / "copy.h5")
  copy, copy_notes = everything(tmp_path / "copy.h5")
  assert set(copy) == set(tables) and copy_notes == notes
  for name in tables:
    np.testing.assert_array_equal(copy[name], tables[name], name)
    assert copy[name].dtype == tables[name].dtype

  data("subsample", path, "--steps", 1700, "-o", tmp_path / "some.h5")
  some, some_notes = everything(tmp_path / "some.h5")
  assert some_notes == notes | {"planned_rows": 1700}
  rows = np.flatnonzero(np.isin(tables["infos/step"], some["infos/step"]))
  assert len(rows) == 1700
  for name in set(tables) - {"timeouts"}:
    np.testing.assert_array_equal(some[name], tables[name][rows], name)

  # a collection can be resumed in a copy, as in the original
  process = run("collect", "--resume", "--steps", 4000, "-o", tmp_path / "copy.h5")
  assert process.returncode == 0, process.stderr
  more, more_notes = everything(tmp_path / "copy.h5")
  assert more_notes == notes | {"planned_rows": 4000}
  assert len(np.unique(more["infos/step"])) == 4000


def test_sources_may_have_equal_names(tmp_path):
  path = collected(tmp_path / "a.h5", "--steps", 50)
  with h5py.File(path, "a") as file:
    file.attrs["sources"] = '["twin","twin"]'
    file["infos/source"][:] = np.arange(50) % 2
  data("convert", path, "-o", tmp_path / "out.h5")
  tables, notes = everything(tmp_path / "out.h5")
  assert notes["sources"] == '["twin","twin"]'
  assert (tables["infos/source"] == np.arange(50) % 2).all()


def test_merged_sources_keep_their_names(tmp_path):
  a = collected(tmp_path / "a.h5", "--steps", 50)
  b = collected(tmp_path / "b.h5", "--steps", 70, "--task", "easy")
  with h5py.File(b, "a") as file:
    file.attrs["collector"], file.attrs["sources"] = "rnd", '["rnd","random"]'
    file["infos/source"][:30] = 1
    file["infos/source"][30] = -1
  data("merge", a, b, "-o", tmp_path / "out.h5")
  tables, notes = everything(tmp_path / "out.h5")
  assert json.loads(notes["sources"]) == ["random", "rnd"]
  assert list(tables["infos/source"]) == [0] * 80 + [-1] + [1] * 39
  assert (tables["infos/task"][:50] == -1).all() and (tables["infos/task"][50:] == 0).all()
  assert notes["env"] == "point_mass" and notes["tasks"] == everything(a)[1]["tasks"]
  assert not {"collector", "options", "task"} & set(notes)
  assert "not made by bfm collect" in refused("collect", "--resume", "-o", tmp_path / "out.h5")

  bare = write_dataset(tmp_path / "bare.h5", obs=4, act=2, env="point_mass")
  data("merge", a, bare, "-o", tmp_path / "less.h5")
  tables, notes = everything(tmp_path / "less.h5")
  assert not INFOS & set(tables) and set(notes) == {"env", "bfm", "planned_rows"}


@pytest.mark.parametrize("change, part", [
    (lambda file: file["infos/source"].write_direct(np.full(50, 3, "i4")),
     "infos/source has 3 at row 0, but its list has 1 names"),
    (lambda file: file.attrs.__setitem__("tasks", "easy"), 'attribute "tasks" is not a JSON list of names: easy'),
])
def test_bad_infos(change, part, tmp_path):
  path = collected(tmp_path / "a.h5", "--steps", 50)
  with h5py.File(path, "a") as file:
    change(file)
  assert part in refused("data", "convert", path, "-o", tmp_path / "out.h5")
  assert list(tmp_path.iterdir()) == [path]


def test_an_empty_table_of_activations_is_accepted(tmp_path):
  path = write_d4rl(tmp_path / "data.h5", episodes([4, 4]))
  with h5py.File(path, "a") as file:
    file["infos/qpos"] = file["infos/qvel"] = np.zeros((8, 2))
  without = info(path)
  with h5py.File(path, "a") as file:
    file["infos/act"] = np.zeros((8, 0))
  assert info(path) == without and without["states"] == {"qpos": 2, "qvel": 2}
  with h5py.File(path, "a") as file:
    del file["infos/act"]
    file["infos/act"] = np.zeros((7, 0))
  assert "infos/act has 7 rows, but observations has 8" in refused("info", path)


def test_damaged_infos_are_not_treated_as_missing(tmp_path):
  path = write_d4rl(tmp_path / "data.h5", episodes([4, 4]))
  with h5py.File(path, "a") as file:
    file["infos/qpos"] = file["infos/qvel"] = np.zeros((8, 2))
    place = h5py.h5o.get_info(file["infos"].id).addr
  whole = path.read_bytes()
  path.write_bytes(whole[:place] + b"\xff" + whole[place + 1:])
  assert "is not a dataset, or is damaged" in refused("info", path)


def test_a_file_of_a_newer_hdf5_is_read_or_its_error_says_so(data):
  with h5py.File(data, "r") as file:
    tables = {name: file[name][()] for name in file}
  with h5py.File(data, "w", libver="v112") as file:
    for name, values in tables.items():
      file[name] = values
  process = run("info", data)
  assert process.returncode == 0 or "written for a newer HDF5 than" in process.stderr


def test_a_file_open_for_writing_is_not_reported_as_damaged(tmp_path):
  path = write_d4rl(tmp_path / "data.h5", episodes([4, 4]))
  with h5py.File(path, "a"):
    assert f"another process has {path} open for writing" in refused("info", path)
  assert info(path)["transitions"] == 6


def test_files_of_killed_writers(tmp_path):
  """If tables have different lengths, every command uses as many rows as the shortest has."""
  path = collected(tmp_path / "data.h5", "--steps", 100, env="walker")
  tables, _ = everything(path)
  with h5py.File(tmp_path / "cut.h5", "w") as file:
    for i, name in enumerate(tables):
      file[name] = tables[name][:60 + i]
    file.attrs["planned_rows"] = 100
  assert info(tmp_path / "cut.h5")["transitions"] == 60
  assert info(tmp_path / "cut.h5")["complete"] is False and "complete" not in info(path)
  data("convert", tmp_path / "cut.h5", "-o", tmp_path / "out.h5")
  for name, table in everything(tmp_path / "out.h5")[0].items():
    if name != "timeouts":
      np.testing.assert_array_equal(table, tables[name][:60], name)


@pytest.mark.parametrize("env", ["point_mass", "walker", "quadruped"])
def test_coverage(env, tmp_path):
  """Held actions reach more cells than actions that change in every step."""
  short = collected(tmp_path / "short.h5", "--steps", 800, env=env)
  far = collected(tmp_path / "far.h5", "--steps", 800, "--hold", 20, env=env)
  cells = [info(path)["coverage"]["cells"] for path in (short, far)]
  assert 3 < cells[0] < cells[1] <= 800, cells
  assert f"cells {cells[0]}, states 800, " in run("info", short).stdout.replace("\n", " ")


def test_coverage_samples_all_times_of_episodes(tmp_path):
  rows = 40000  # twice the sample
  qpos = np.zeros((rows, 2))
  qpos[1::2, 0] = 0.1
  path = write_dataset(tmp_path / "data.h5", rows, obs=4, env="point_mass",
                       **{"infos/qpos": qpos, "infos/qvel": np.zeros((rows, 2))})
  assert info(path)["coverage"]["cells"] == 2


def test_coverage_without_states(tmp_path):
  rng = np.random.default_rng(5)
  wide = rng.uniform(-1.6, 1.6, (200, 5))
  bits = [info(write_dataset(tmp_path / f"{k}.h5", observations=k * wide))["coverage"]["bits"]
          for k in (0, 1, 4)]
  assert bits[0] == 0 and 4.5 < bits[1] < 5 and bits[1] + 1 < bits[2] < 7
  # states whose size is not that of the named robot are ignored
  states = {"infos/qpos": np.zeros((200, 3)), "infos/qvel": np.zeros((200, 3))}
  assert "bits" in info(write_dataset(tmp_path / "odd.h5", **states))["coverage"]


def test_subsample(tmp_path):
  path = write_minari(tmp_path / "minari.h5", episodes([10] * 20))
  data("subsample", path, "--steps", 55, "-o", tmp_path / "a.h5")
  data("subsample", path, "--steps", 55, "--seed", 1, "-o", tmp_path / "b.h5")
  a, b = read(tmp_path / "a.h5"), read(tmp_path / "b.h5")
  assert len(a["actions"]) == 55 and (a["terminals"] | a["timeouts"]).sum() == 6
  assert (a["actions"] != b["actions"]).any()


# ---------------------------------- refusals ------------------------------------------------------


def test_existing_files_are_not_overwritten(tmp_path):
  path = write_dataset(tmp_path / "data.h5")
  before = path.read_bytes()
  assert f"{path} already exists" in refused("data", "merge", path, "-o", path)
  assert path.read_bytes() == before
  assert "did you mean merge?" in refused("data", "mrege", path, "-o", tmp_path / "x")
  assert "name a dataset" in refused("data", "merge", "-o", tmp_path / "x")
  assert "--steps 5 is for subsample" in refused("data", "merge", path, "--steps", 5, "-o", tmp_path / "x")
  assert "cannot create" in refused("data", "merge", path, "-o", tmp_path / "no" / "x")
  assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("changes, part", [
    ({"observations": np.zeros((4, 5))}, "episode_0: observations has 4 rows"),
    ({"actions": None}, "episode_0: there is no dataset \"actions\""),
    ({"observations": np.full((5, 5), np.nan)}, "episode_0: observations has NaN"),
    ({"terminations": np.zeros(3)}, "terminations has 3"),
    ({"actions": np.zeros((4, 0))}, "episode_0: actions has no columns"),
])
def test_bad_minari(changes, part, tmp_path):
  assert part in refused("info", write_minari(tmp_path / "x.h5", episodes([4]), **changes))


def test_a_missing_episode(tmp_path):
  path = write_minari(tmp_path / "x.h5", episodes([4, 4, 4]))
  with h5py.File(path, "a") as file:
    del file["episode_1"]
  assert "episode_1 is missing" in refused("info", path)


@pytest.mark.parametrize("changes, part", [
    ({"action": np.zeros((4, 2))}, "action is 4 x 2, but observation has 5 rows"),
    ({"observation": np.full((5, 5), np.inf)}, "observation has an infinity at row 0"),
    ({"observation": np.zeros((5, 5, 2))}, "more than 2 axes"),
    ({"observation": np.zeros((5, 5), "c8")}, "'<c8'"),
    ({"observation": np.asfortranarray(np.zeros((5, 5)))}, "column-major"),
    ({"observation": np.zeros((0, 5))}, "action is 5 x 2"),
])
def test_bad_exorl(changes, part, tmp_path):
  error = refused("info", write_exorl(tmp_path / "x", episodes([4]), **changes))
  assert part in error and "episode_000000.npz" in error


def test_folders_and_archives_without_episodes(tmp_path):
  assert "without .npz episodes" in refused("info", tmp_path)
  with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
    file.writestr("observation.npy", "hello, this is no array")
  assert "a member is not an array" in refused("info", tmp_path)


def test_a_pipe_among_archives_does_not_block(tmp_path):
  os.mkfifo(tmp_path / "a.npz")
  assert f"{tmp_path}/a.npz is a pipe, not a file" in refused("info", tmp_path)


@pytest.mark.parametrize("name", ["discount", "reward", "physics"])
def test_a_damaged_array_is_not_treated_as_missing(name, tmp_path):
  folder = write_exorl(tmp_path / "x", episodes([4, 4]))
  path = folder / "episode_000001.npz"
  whole = path.read_bytes()
  place = whole.rindex(name.encode() + b".npy") - 4  # the member's entry in the zip's directory
  path.write_bytes(whole[:place] + b"\xee\xee\xee\x0e" + whole[place + 4:])
  error = refused("info", folder)
  assert "a member is not where the directory says" in error and path.name in error


def test_damaged_archives(tmp_path):
  """Neither flipped bits nor cut files may crash the reader."""
  folder = write_exorl(tmp_path / "x", episodes([4]), np.savez_compressed)
  path = folder / "episode_000000.npz"
  whole = path.read_bytes()
  for size in range(0, len(whole), 97):
    path.write_bytes(whole[:size])
    assert "episode_000000.npz" in refused("info", folder)
  for at in RNG.integers(0, len(whole), 40):
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << RNG.integers(8)]) + whole[at + 1:])
    assert run("info", folder).returncode in (0, 3, 5)


def test_a_failed_write_names_the_file_and_its_size(tmp_path):
  """The file is first written under a temporary name, which means nothing to people."""
  def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
  path, source = tmp_path / "new.h5", write_dataset(tmp_path / "data.h5")
  error = refused("data", "merge", source, "-o", path, preexec_fn=limit)
  assert f"cannot create {path} for 200 rows, 7" in error and " kB: File too large" in error
  assert ".tmp" not in error and os.listdir(tmp_path) == ["data.h5"]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_damaged_datasets_are_read_without_leaks(tmp_path, compression):
  """In a sanitized build, a leak ends bfm with another status; LSAN_OPTIONS names HDF5's own."""
  sound, path = tmp_path / "sound.h5", tmp_path / "damaged.h5"
  with h5py.File(sound, "w") as file:
    for name, shape in (("observations", (50, 3)), ("actions", (50, 1)), ("terminals", (50,))):
      file.create_dataset(name, data=np.zeros(shape, "f4"), compression=compression)
    file.attrs["env"], file.attrs["sources"] = "walker", '["a"]'
  whole = sound.read_bytes()
  rng = np.random.default_rng(0)
  for case in range(30):
    damaged = bytearray(whole)
    for at in rng.choice(np.flatnonzero(np.frombuffer(whole, "u1")), 1 + case % 4):
      damaged[at] ^= 1 << rng.integers(8)
    path.write_bytes(damaged[:len(whole) - 100 * (case % 3)])
    process = run("info", path)
    assert process.returncode in (0, 3), process.stderr


def test_long_lists_of_names(tmp_path):
  """The time grows linearly with the list; it once exceeded the limit for damaged files."""
  names = [[f"policy {k} of {file}" for k in range(20000)] for file in "ab"]
  for file, list_of_file in zip("ab", names):
    path = write_dataset(tmp_path / f"{file}.h5", **{"infos/source": np.arange(200)})
    with h5py.File(path, "a") as written:
      written.attrs["sources"] = json.dumps(list_of_file)
  process = run("data", "merge", tmp_path / "a.h5", tmp_path / "b.h5", "-o", tmp_path / "all.h5")
  assert process.returncode == 0, process.stderr
  with h5py.File(tmp_path / "all.h5") as file:
    assert json.loads(file.attrs["sources"]) == names[0] + names[1]
    assert np.array_equal(file["infos/source"], np.r_[np.arange(200), 20000 + np.arange(200)])
