"""bfm.Agent: F, B and pi, their training step, prompting and files, as include/bfm.h has them.

Shapes use the paper's letters: N rows, d the length of z, M members of F, R replicas. Options are
those of `bfm train --help` with underscores: z_mix=0.5 is --z-mix 0.5.
"""
import ctypes
import json
import os
import warnings

import numpy as np

from ._interrupt import Parts, call_stoppably
from ._lib import (ArgumentError, Batch, Evaluation, Handle, Prompt, array, check, check_integer,
                   encode, lib, options_json, path_bytes, pointer, real_numbers, text)
from .env import sizes_of


def new_handle():
  return Handle(lib.bfm_agent_free, "an agent cannot be pickled or deep-copied: write it to a file "
                "with save(), or save_state() to train on, and read it with bfm.load()")


class Agent:
  """An agent to train, or a trained one to prompt and to act with.

  obs_dim, act_dim, d, batch, members and replicas are its sizes. Options are those of
  `bfm help train`, with underscores: z_mix=0.5 is --z-mix 0.5. `bfm.load` creates an agent from a
  file.
  """

  def __init__(self, obs_dim, act_dim, **options):
    handle = new_handle()
    check(lib.bfm_agent_new(ctypes.byref(handle), obs_dim, act_dim, options_json(options)))
    self._bind(handle)

  def _bind(self, handle):
    self._handle, self._parts = handle, Parts()
    self.obs_dim = lib.bfm_agent_obs_dim(handle)
    self.act_dim = lib.bfm_agent_act_dim(handle)
    self.d = lib.bfm_agent_d(handle)
    self.batch = lib.bfm_agent_batch(handle)
    self.members = lib.bfm_agent_members(handle)
    self.replicas = lib.bfm_agent_replicas(handle)
    self._losses = [lib.bfm_agent_loss_name(handle, i).decode()
                    for i in range(lib.bfm_agent_loss_count(handle))]

  @property
  def step(self):
    """The number of training steps done."""
    return lib.bfm_agent_step(self._handle)

  @property
  def options(self):
    """Every option and its value."""
    return json.loads(text(lib.bfm_agent_options(self._handle)))

  # ---------------------------------- parameters -------------------------------------------------

  def _shapes(self):
    """{name: shape} of every tensor, in the library's order."""
    shapes = {}
    name, dims, shape = ctypes.c_char_p(), ctypes.c_int(), (ctypes.c_int64 * 4)()
    for i in range(lib.bfm_agent_tensor_count(self._handle)):
      check(lib.bfm_agent_tensor_info(self._handle, i, ctypes.byref(name), ctypes.byref(dims),
                                      shape))
      shapes[name.value.decode()] = tuple(shape[:dims.value])
    return shapes

  def tensors(self, replica=0):
    """Copies of the parameters of one replica, by name ("F.sa.in.weight")."""
    result = {}
    for name, shape in self._shapes().items():
      out = np.empty(shape, np.float32)
      check(lib.bfm_agent_get_tensor(self._handle, replica, name.encode(), pointer(out), out.size))
      result[name] = out
    return result

  def set_tensors(self, tensors, replica=0):
    """Overwrite parameters of one replica; tensors is {name: array}."""
    shapes = self._shapes()
    for name in tensors:
      if name not in shapes:
        raise ArgumentError(f'there is no tensor "{name}" in this agent')
    arrays = {name: array(values, shapes[name], name) for name, values in tensors.items()}
    for name, values in arrays.items():
      check(lib.bfm_agent_set_tensor(self._handle, replica, name.encode(), pointer(values),
                                     values.size))

  # ---------------------------------- training ---------------------------------------------------

  def update(self, obs, act, next_obs, discount=None, z=None, noise_next=None, noise_pi=None):
    """Do one training step on these transitions and return the losses by name.

    Arrays are [N, ·] with N the agent's batch, or [R, N, ·] with several replicas. The agent draws
    what you leave out: z [N, d], and noise_next and noise_pi [N, act], which are standard normal.
    discount [N] multiplies gamma: 0 where the episode terminated, else 1.
    """
    rows = (self.batch,) if self.replicas == 1 else (self.replicas, self.batch)
    widths = {"obs": (self.obs_dim,), "act": (self.act_dim,), "next_obs": (self.obs_dim,),
              "discount": (), "z": (self.d,), "noise_next": (self.act_dim,),
              "noise_pi": (self.act_dim,)}
    given = {"obs": obs, "act": act, "next_obs": next_obs, "discount": discount, "z": z,
             "noise_next": noise_next, "noise_pi": noise_pi}
    arrays = {name: None if values is None and name not in ("obs", "act", "next_obs") else
              array(values, rows + widths[name], name) for name, values in given.items()}
    batch = Batch(**{name: pointer(values) for name, values in arrays.items()})
    losses = np.empty((self.replicas, len(self._losses)), np.float32)
    check(lib.bfm_agent_update(self._handle, ctypes.byref(batch), pointer(losses)))
    return self._named(self._losses, losses)

  def set_data(self, obs, act, next_obs, discount=None):
    """Copy the transitions that train() will sample from: [rows, ·], discount [rows]."""
    obs = array(obs, ("rows", self.obs_dim), "obs")
    rows = len(obs)
    act = array(act, (rows, self.act_dim), "act")
    next_obs = array(next_obs, (rows, self.obs_dim), "next_obs")
    discount = None if discount is None else array(discount, (rows,), "discount")
    check(lib.bfm_agent_set_data(self._handle, rows, pointer(obs), pointer(act), pointer(next_obs),
                                 pointer(discount)))

  def train(self, steps):
    """Do some training steps and return the losses of the last one, NaN if steps is 0.

    Ctrl-C raises KeyboardInterrupt after whole steps: `step` says how many were done, and the agent
    can be trained further or saved.
    """
    losses = np.full((self.replicas, len(self._losses)), np.nan, np.float32)
    self._parts.run(lambda n: check(lib.bfm_agent_train(self._handle, n, pointer(losses))), steps)
    return self._named(self._losses, losses)

  def metrics(self):
    """The metrics of the last training step by name, as include/bfm.h lists them."""
    names = [lib.bfm_agent_metric_name(self._handle, i).decode()
             for i in range(lib.bfm_agent_metric_count(self._handle))]
    values = np.empty((self.replicas, len(names)), np.float32)
    check(lib.bfm_agent_metrics(self._handle, pointer(values)))
    return self._named(names, values)

  def _named(self, names, values):
    if self.replicas == 1:
      return {name: float(values[0, i]) for i, name in enumerate(names)}
    return {name: values[:, i].copy() for i, name in enumerate(names)}

  # ---------------------------------- networks ---------------------------------------------------

  def _obs(self, obs):
    """obs as [N, obs], and the shape of its rows: (N,), or () for one observation."""
    obs = real_numbers(obs, "obs")
    obs = array(obs, (self.obs_dim,) if obs.ndim == 1 else ("N", self.obs_dim), "obs")
    return obs.reshape(-1, self.obs_dim), obs.shape[:-1]

  def _z(self, z, rows):
    """z as [rows, d]; one z serves every row."""
    z = real_numbers(z, "z")
    z = array(z, (self.d,) if z.ndim == 1 else (rows, self.d), "z")
    return np.ascontiguousarray(np.broadcast_to(z, (rows, self.d)))

  def F(self, obs, act, z, replica=0):
    """F(s, a, z) of every member as [M, N, d], or [M, d] for one observation."""
    obs, lead = self._obs(obs)
    z = self._z(z, len(obs))
    act = array(act, (*lead, self.act_dim), "act")
    out = np.empty((self.members, *lead, self.d), np.float32)
    check(lib.bfm_agent_F(self._handle, replica, len(obs), pointer(obs), pointer(act), pointer(z),
                          pointer(out)))
    return out

  def B(self, obs, z=None, replica=0):
    """B(s, z) as [N, d], or [d] for one observation. With one block, B needs no z."""
    obs, lead = self._obs(obs)
    z = None if z is None else self._z(z, len(obs))
    out = np.empty((*lead, self.d), np.float32)
    check(lib.bfm_agent_B(self._handle, replica, len(obs), pointer(obs), pointer(z), pointer(out)))
    return out

  def pi(self, obs, z, replica=0):
    """The policy's mean as [N, act], or [act] for one observation."""
    obs, lead = self._obs(obs)
    z = self._z(z, len(obs))
    out = np.empty((*lead, self.act_dim), np.float32)
    check(lib.bfm_agent_pi(self._handle, replica, len(obs), pointer(obs), pointer(z), pointer(out)))
    return out

  # ---------------------------------- prompting --------------------------------------------------

  @property
  def env(self):
    """The name of the domain of the prompt states, empty when it is not known."""
    return lib.bfm_agent_env(self._handle).decode()

  @property
  def prompt_states(self):
    """The number of prompt states that the model carries."""
    return lib.bfm_agent_prompt_count(self._handle)

  def set_prompt(self, env, obs=None, qpos=None, qvel=None, act=None):
    """Give the agent the name of its domain and prompt states: observations obs [rows, obs] and
    their states qpos, qvel and act. Without obs, the agent gets only the name."""
    if obs is None:
      check(lib.bfm_agent_set_prompt(self._handle, encode(env, "env"), 0, None, None, None, None))
      return
    sizes, obs = sizes_of(env), array(obs, ("rows", self.obs_dim), "obs")
    rows = len(obs)
    qpos = array(qpos, (rows, sizes.nq), "qpos", np.float64)
    qvel = None if qvel is None else array(qvel, (rows, sizes.nv), "qvel", np.float64)
    act = None if act is None else array(act, (rows, sizes.na), "act", np.float64)
    check(lib.bfm_agent_set_prompt(self._handle, encode(env, "env"), rows, pointer(obs), pointer(qpos),
                                   pointer(qvel), pointer(act)))

  def prompt(self, *, reward=None, task=None, goal=None, demo=None, z=None, obs=None, softmax=0.0,
             replica=0, report=False):
    """Compute z [d] from one of the following.

    - reward: an expression ("torso.z > 1.2") or the name of a task, computed on the prompt states;
      or numbers [rows] together with their observations, obs [rows, obs]
    - task: the name of a task ("run")
    - goal: named values ("torso.z = 1.3, speed = 0"), which select the nearest prompt state; the
      path of a JSON file with a state; an observation [obs]; or a state,
      {"qpos": ..., "qvel": ..., "act": ...}
    - demo: observations [rows, obs], or the path of a dataset
    - z: the path of a file that `bfm prompt -o` wrote with this model

    An expression that changes with something that the observations do not show, such as x, y or the
    heading, gets a warning.

    With softmax > 0, states are weighted by softmax(reward / softmax) instead of by the reward.
    With report=True, returns (z, text): the text describes the reward over the prompt states, or the
    state that was chosen for a goal. A prompt that says nothing raises an ArgumentError.
    """
    given = [x for x in (reward, task, goal, demo, z) if x is not None]
    if len(given) != 1:
      raise ArgumentError("a prompt is one of reward=, task=, goal=, demo= and z=")
    out, line = np.empty(self.d, np.float32), ctypes.create_string_buffer(4096)
    reward = task if reward is None else reward
    softmax = array(softmax, (), "softmax", np.float64).item()
    if softmax and reward is None:
      raise ArgumentError("softmax weighs rewards: it goes with reward= or task=")
    words = {"reward": encode(reward, "reward") if isinstance(reward, str) else None,
             "goal": encode(goal, "goal") if isinstance(goal, str) else
                     path_bytes(goal) if isinstance(goal, os.PathLike) else None,
             "demo": path_bytes(demo) if isinstance(demo, (str, os.PathLike)) else None,
             "file": None if z is None else path_bytes(z)}
    if any(word is not None for word in words.values()):
      prompt = Prompt(**words, softmax=softmax)
      check(lib.bfm_agent_prompt(self._handle, replica, ctypes.byref(prompt), pointer(out), line,
                                 len(line)))
      if words["reward"]:
        self._warn(words["reward"])
    elif reward is not None:
      if obs is None:
        raise ArgumentError("a reward in numbers needs the states it was given at: obs=")
      obs, _ = self._obs(obs)
      reward = array(reward, (len(obs),), "reward")
      check(lib.bfm_agent_prompt_reward(self._handle, replica, len(obs), pointer(obs),
                                        pointer(reward), softmax, pointer(out)))
    elif isinstance(goal, dict):
      self._prompt_state(goal, replica, out)
    else:
      states = (array(goal, (self.obs_dim,), "goal").reshape(1, -1) if goal is not None else
                array(demo, ("rows", self.obs_dim), "demo"))
      check(lib.bfm_agent_prompt_states(self._handle, replica, len(states), pointer(states),
                                        pointer(out)))
    return (out, line.value.decode()) if report else out

  def _warn(self, reward):
    """Warn about a reward that depends on what the observations do not show."""
    warning = ctypes.create_string_buffer(1024)
    check(lib.bfm_agent_prompt_warning(self._handle, reward, warning, len(warning)))
    if warning.value:
      warnings.warn(f"{reward.decode()}: {warning.value.decode()}", stacklevel=3)

  def _prompt_state(self, goal, replica, z):
    sizes = sizes_of(self.env)
    lengths = {"qpos": sizes.nq, "qvel": sizes.nv, "act": sizes.na}
    if "qpos" not in goal or set(goal) - set(lengths):
      raise ArgumentError("a goal state has qpos and may have qvel and act, not "
                          + ", ".join(map(str, goal)))
    parts = {name: array(goal[name], (lengths[name],), name, np.float64) for name in goal}
    check(lib.bfm_agent_prompt_state(self._handle, replica,
                                     *(pointer(parts.get(name)) for name in lengths), pointer(z)))

  def act(self, obs, z, es=0, seed=0, step=0, replica=0):
    """Actions [N, act], or [act] for one observation; z is [d] or [N, d].

    With es = 0 these are the policy's means. With es > 0 each is the best of es samples by F·z,
    which depend on seed and step only. The agent's option es_base says how the members of F are
    combined: bfm.load(path, es_base="gain") replaces a model's own.
    """
    obs, lead = self._obs(obs)
    z = self._z(z, len(obs))
    out = np.empty((*lead, self.act_dim), np.float32)
    check(lib.bfm_agent_act(self._handle, replica, len(obs), pointer(obs), pointer(z), es, seed,
                            step, pointer(out)))
    return out

  def evaluate(self, tasks, episodes=100, steps=0, es=0, seed=0, z=None, softmax=0.0, threads=0):
    """Run whole episodes and return {task: returns}, with returns [episodes], or [R, episodes]
    with several replicas.

    tasks are names or expressions. If z [tasks, d] ([R, tasks, d]) is given, the agent acts on it
    instead of on the tasks' prompts. steps = 0 means the domain's episode length. Ctrl-C stops
    after the current step of the episodes.
    """
    tasks = [tasks] if isinstance(tasks, str) else list(tasks)
    check_integer(episodes, ctypes.c_int64)
    if episodes < 1:
      raise ArgumentError(f"episodes must be 1 or more, not {episodes}")
    if z is not None:
      lead = () if self.replicas == 1 else (self.replicas,)
      z = array(z, (*lead, len(tasks), self.d), "z")
    softmax = array(softmax, (), "softmax", np.float64).item()
    returns = np.empty((self.replicas, len(tasks), episodes))
    plan = Evaluation(tasks=(ctypes.c_char_p * len(tasks))(*(encode(task, "task") for task in tasks)),
                      task_count=len(tasks), z=pointer(z), episodes=episodes, steps=steps, es=es,
                      seed=seed, softmax=softmax, threads=threads)

    def call(callback):
      plan.each = Evaluation.Each(callback)
      return lib.bfm_agent_evaluate(self._handle, ctypes.byref(plan), pointer(returns))

    call_stoppably(call)
    return {task: returns[0, i] if self.replicas == 1 else returns[:, i]
            for i, task in enumerate(tasks)}

  # ---------------------------------- files ------------------------------------------------------

  def save(self, path, replica=0):
    """Write the model of one replica: parameters, options and prompt states."""
    check(lib.bfm_agent_save_model(self._handle, replica, path_bytes(path)))

  def export(self, path, members=0, half=False, prompt_states=-1, replica=0, weights=None, part=None):
    """Write a smaller model: only some members of F (0 keeps all), only some prompt states (-1 keeps
    all), weights as "f32", "bf16" or "int8" (None: as they are); half is the same as "bf16".

    A path that ends in .onnx gets one network as an ONNX graph: part="pi", the default, "B" or "F".
    """
    kinds = (None, "bf16", "int8", "f32")
    if weights not in kinds:
      raise ArgumentError(f"weights must be f32, bf16 or int8, not {weights!r}")
    kind = kinds.index(weights or ("bf16" if half else None))
    path = path_bytes(path)
    if path.endswith(b".onnx"):
      if prompt_states != -1:
        raise ArgumentError(f"prompt_states is {prompt_states!r}, but an ONNX file has none")
      check(lib.bfm_agent_export_onnx(self._handle, replica, path, encode(part, "part"), members,
                                      kind))
      return
    if part is not None:
      raise ArgumentError(f"part is {part!r}, but only a file whose name ends in .onnx has a part")
    check(lib.bfm_agent_export(self._handle, replica, path, members, kind, prompt_states))

  def save_state(self, path):
    """Write everything needed to resume training: all replicas, the optimizer, the counters."""
    check(lib.bfm_agent_save_state(self._handle, path_bytes(path)))


def load(path, **options):
  """Create an Agent from a file of save(), export() or save_state(); options override its own."""
  handle = new_handle()
  check(lib.bfm_agent_load(ctypes.byref(handle), path_bytes(path), options_json(options)))
  agent = Agent.__new__(Agent)
  agent._bind(handle)
  return agent
