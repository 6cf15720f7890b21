"""bfm.Env: many simulations of a domain on all cores, and rewards of its states.

Arrays are [num_envs, ·] and float64. `step` never resets by itself; `ended` says why an episode is
over. If the packages are installed, `Env.vector(task)` is a Gymnasium vector environment, and
`Env.dm_env(task)` a dm_env.Environment like dm_control's.
"""
import ctypes
import functools
import importlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from ._lib import (ArgumentError, Handle, Sized, array, check, declare, domain_bytes, encode, lib, path_bytes,
                   pointer, real_numbers)

TERMINATED, TIME, DIVERGED = 1, 2, 4  # bits of Env.ended


class Sizes(Sized):
  """bfm_env_sizes"""
  _fields_ = [("size", c_size_t), *((name, c_int) for name in ("count", "obs_dim", "act_dim", "nq", "nv", "na",
                                           "episode_steps")), ("control_dt", c_double)]


EachName = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p, c_char_p)

env = numbers = c_void_p

declare({
    "bfm_env_new": (c_int, POINTER(c_void_p), c_char_p, c_int, c_uint64, c_int),
    "bfm_env_free": (None, env),
    "bfm_env_get_sizes": (None, env, POINTER(Sizes)),
    "bfm_env_action_range": (None, env, numbers, numbers),
    "bfm_env_seed": (None, env, c_uint64),
    "bfm_env_reset": (c_int, env, c_void_p),
    "bfm_env_step": (c_int, env, numbers),
    "bfm_env_obs": (None, env, numbers),
    "bfm_env_end_reasons": (None, env, c_void_p),
    "bfm_env_diverged": (c_int64, env),
    "bfm_env_set_state": (c_int, env, numbers, numbers, numbers),
    "bfm_env_state": (None, env, numbers, numbers, numbers),
    "bfm_env_reward": (c_int, env, c_char_p, numbers),
    "bfm_env_names": (None, env, EachName, c_void_p),
    "bfm_domain_name": (c_char_p, c_int, POINTER(c_char_p)),
    "bfm_domain_task": (c_char_p, c_char_p, c_int, POINTER(c_char_p), POINTER(c_char_p)),
    "bfm_domain_render": (c_int, c_char_p, c_int64, numbers, c_int, c_int, c_int, c_char_p),
    "bfm_domain_rewards": (c_int, c_char_p, c_char_p, c_int64, numbers, numbers, numbers, c_int, numbers),
})


def domains():
  """Names of the domains."""
  result = []
  while name := lib.bfm_domain_name(len(result), None):
    result.append(name.decode())
  return result


def tasks(domain):
  """{name: expression} of a domain's tasks; None if the reward depends on more than the state."""
  result = {}
  expression = c_char_p()
  while name := lib.bfm_domain_task(domain_bytes(domain), len(result), None, ctypes.byref(expression)):
    result[name.decode()] = expression.value.decode() if expression.value else None
  return result


class Env:
  """num_envs independent simulations of a domain, each in a random initial state.

  obs_dim, act_dim, episode_steps, control_dt (seconds), action_low and action_high describe the
  domain. threads = 0 means one per core; results are bit-identical for any number of threads.
  Arrays are [num_envs, ·] and float64.
  """

  def __init__(self, domain, num_envs=1, seed=0, threads=0):
    handle = Handle(lib.bfm_env_free, "an environment cannot be pickled or deep-copied: create it "
                    "again with bfm.Env(), and set_state() for the same states")
    check(lib.bfm_env_new(ctypes.byref(handle), domain_bytes(domain), num_envs, seed, threads))
    self._open = handle
    self.domain = domain
    self.num_envs = num_envs

    self._sizes = Sizes()
    lib.bfm_env_get_sizes(handle, ctypes.byref(self._sizes))
    self.obs_dim = self._sizes.obs_dim
    self.act_dim = self._sizes.act_dim
    self.episode_steps = self._sizes.episode_steps
    self.control_dt = self._sizes.control_dt
    self.action_low, self.action_high = np.empty(self.act_dim), np.empty(self.act_dim)
    lib.bfm_env_action_range(handle, pointer(self.action_low), pointer(self.action_high))

  @property
  def _handle(self):
    if not self._open:
      raise ArgumentError("this environment is closed")
    return self._open

  def close(self):
    """Free the simulations; the environment cannot be used afterwards."""
    self._open.free()

  def __repr__(self):
    return f"bfm.Env({self.domain!r}, num_envs={self.num_envs})"

  def _array(self, *shape):
    return np.empty((self.num_envs, *shape))

  # -------------------------------- names --------------------------------------------------------

  @property
  def tasks(self):
    """The names of the domain's tasks."""
    return list(tasks(self.domain))

  @property
  def names(self):
    """The names that a reward expression can use."""
    found = []
    each = EachName(lambda context, kind, name, help: found.append(name.decode()))
    lib.bfm_env_names(self._handle, each, None)
    return found

  # Gymnasium's spaces and dm_control's specs: of all environments, single_… of one

  @property
  def single_observation_space(self):
    return package("gymnasium").spaces.Box(-np.inf, np.inf, (self.obs_dim,), np.float64)

  @property
  def single_action_space(self):
    return package("gymnasium").spaces.Box(self.action_low, self.action_high, dtype=np.float64)

  @property
  def observation_space(self):
    batch_space = package("gymnasium").vector.utils.batch_space
    return batch_space(self.single_observation_space, self.num_envs)

  @property
  def action_space(self):
    batch_space = package("gymnasium").vector.utils.batch_space
    return batch_space(self.single_action_space, self.num_envs)

  def observation_spec(self):
    return observation_spec((self.num_envs, self.obs_dim))

  def action_spec(self):
    return action_spec((self.num_envs, self.act_dim), self.action_low, self.action_high)

  # -------------------------------- simulation ---------------------------------------------------

  def reset(self, which=None, seed=None):
    """Draw new initial states and return all observations.

    which [num_envs] selects the simulations to reset, by default all. With a seed, the random
    numbers restart as in a new environment with this seed.
    """
    if seed is not None:
      lib.bfm_env_seed(self._handle, seed)
    if which is not None:
      which = array(which, (self.num_envs,), "which", bool)
    check(lib.bfm_env_reset(self._handle, pointer(which)))
    return self.obs()

  def step(self, action):
    """Simulate one control step with actions [num_envs, act] and return the new observations."""
    action = array(action, (self.num_envs, self.act_dim), "action", np.float64)
    check(lib.bfm_env_step(self._handle, pointer(action)))
    return self.obs()

  def obs(self):
    """The observations of the present states."""
    obs = self._array(self.obs_dim)
    lib.bfm_env_obs(self._handle, pointer(obs))
    return obs

  @property
  def ended(self):
    """Why each episode is over: 1 terminated, 2 time limit, 4 diverged; 0 if it goes on."""
    ended = np.empty(self.num_envs, np.uint8)
    lib.bfm_env_end_reasons(self._handle, pointer(ended))
    return ended

  @property
  def diverged(self):
    """How often simulations of this environment have diverged so far."""
    return lib.bfm_env_diverged(self._handle)

  def set_state(self, qpos, qvel=None, act=None):
    """Set the states of all simulations; without qvel or act, these are zeros. An episode begins:
    time, controls and warm starts become zero."""
    sizes = self._sizes
    qpos = array(qpos, (self.num_envs, sizes.nq), "qpos", np.float64)
    if qvel is not None:
      qvel = array(qvel, (self.num_envs, sizes.nv), "qvel", np.float64)
    if act is not None:
      act = array(act, (self.num_envs, sizes.na), "act", np.float64)
    check(lib.bfm_env_set_state(self._handle, pointer(qpos), pointer(qvel), pointer(act)))

  def state(self):
    """The states of all simulations: qpos, qvel, act."""
    qpos, qvel, act = (self._array(n) for n in (self._sizes.nq, self._sizes.nv, self._sizes.na))
    lib.bfm_env_state(self._handle, pointer(qpos), pointer(qvel), pointer(act))
    return qpos, qvel, act

  def reward(self, task):
    """The rewards of the present states, for the name of a task or an expression."""
    rewards = self._array()
    check(lib.bfm_env_reward(self._handle, encode(task, "task"), pointer(rewards)))
    return rewards

  def vector(self, task):
    """A Gymnasium vector environment with this environment and a task; needs gymnasium."""
    return make_vector(self, task)

  def dm_env(self, task):
    """A dm_env.Environment with this environment (num_envs=1) and a task; needs dm_env."""
    return make_dm_env(self, task)


@functools.cache
def sizes_of(domain):
  return Env(domain, 1, threads=1)._sizes


def rewards(domain, task, qpos, qvel=None, act=None, threads=0):
  """The rewards [n] of stored states qpos [n, nq], qvel [n, nv] and act [n, na], for the name of a
  task or an expression. threads = 0 means one per core."""
  sizes = sizes_of(domain)
  qpos = array(qpos, ("n", sizes.nq), "qpos", np.float64)
  count = len(qpos)
  if qvel is not None:
    qvel = array(qvel, (count, sizes.nv), "qvel", np.float64)
  if act is not None:
    act = array(act, (count, sizes.na), "act", np.float64)
  out = np.empty(count)
  check(lib.bfm_domain_rewards(domain_bytes(domain), encode(task, "task"), count, pointer(qpos), pointer(qvel),
                        pointer(act), threads, pointer(out)))
  return out


def pictures(domain, qpos, path, columns=8, width=320, height=240):
  """Draw states qpos [n, nq] into one PNG file, with so many columns of width x height pixels."""
  qpos = np.atleast_2d(real_numbers(qpos, "qpos"))
  qpos = array(qpos, ("n", sizes_of(domain).nq), "qpos", np.float64)
  check(lib.bfm_domain_render(domain_bytes(domain), len(qpos), pointer(qpos), columns, width, height,
                         path_bytes(path)))


# ---------------------------------- others' views ------------------------------------------------


def package(name):
  """Import an optional package."""
  try:
    return importlib.import_module(name)
  except ImportError:
    raise ArgumentError(f"this needs the {name} package") from None


def observation_spec(shape):
  return package("dm_env.specs").Array(shape, np.float64, "observation")


def action_spec(shape, low, high):
  return package("dm_env.specs").BoundedArray(shape, np.float64, low, high, "action")


def make_vector(env, task):
  gymnasium = package("gymnasium")

  class VectorEnv(gymnasium.vector.VectorEnv):
    """A bfm.Env for Gymnasium: the step after the end of an episode resets it."""
    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self):
      self.env, self.task, self.num_envs = env, task, env.num_envs
      self.single_observation_space = env.single_observation_space
      self.single_action_space = env.single_action_space
      self.observation_space, self.action_space = env.observation_space, env.action_space
      self._over = np.zeros(env.num_envs, bool)

    def reset(self, *, seed=None, options=None):
      super().reset(seed=seed)
      self._over[:] = False
      return env.reset(seed=seed), {}

    def step(self, actions):
      fresh = self._over.copy()
      env.step(actions)
      reward, ended = env.reward(task), env.ended
      if fresh.any():
        env.reset(fresh)
        reward[fresh], ended[fresh] = 0, 0
      terminated, truncated = (ended & TERMINATED) > 0, (ended & (TIME | DIVERGED)) > 0
      self._over = terminated | truncated
      return env.obs(), reward, terminated, truncated, {}

    def close(self, **kwargs):
      env.close()

  return VectorEnv()


def make_dm_env(env, task):
  dm_env = package("dm_env")
  if env.num_envs != 1:
    raise ArgumentError(f"Env.dm_env needs num_envs=1, not {env.num_envs}")

  class Environment(dm_env.Environment):
    """A bfm.Env for users of dm_control: the step after the last one of an episode resets it."""
    _over = True

    def reset(self):
      self._over = False
      return dm_env.restart(env.reset()[0])

    def step(self, action):
      if self._over:
        return self.reset()
      obs = env.step(real_numbers(action, "action")[None])[0]
      reward, ended = env.reward(task)[0], env.ended[0]
      self._over = ended != 0
      kind = (dm_env.termination if ended & TERMINATED else
              dm_env.truncation if ended else dm_env.transition)
      return kind(reward, obs)

    def observation_spec(self):
      return observation_spec((env.obs_dim,))

    def action_spec(self):
      return action_spec((env.act_dim,), env.action_low, env.action_high)

    def close(self):
      env.close()

  return Environment()
