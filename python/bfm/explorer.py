"""bfm.Explorer: the agents that make data, as include/bfm.h has them.

T agents, one per task, learn side by side, each from E environments of its own. Shapes are
[T, E, ·] for environments and [T, N, ·] for batches.
"""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from ._interrupt import Parts
from ._lib import (ArgumentError, Handle, Sized, array, check, declare, encode, lib, options_json,
                   path_bytes, pointer)


class Sizes(Sized):
  """bfm_explorer_sizes"""
  _fields_ = ([("size", c_size_t)] + [(name, c_int64) for name in ("obs_dim", "act_dim", "batch")] +
              [(name, c_int) for name in ("tasks", "envs")])


class Batch(Sized):
  """bfm_explorer_batch"""
  _fields_ = [("size", c_size_t), *((name, c_void_p) for name in (
      "obs", "act", "reward", "discount", "next_obs", "noise"))]


handle, handle_out, floats = c_void_p, POINTER(c_void_p), c_void_p

declare({
    "bfm_explorer_new": (c_int, handle_out, c_int64, c_int64, c_int, c_int, c_char_p),
    "bfm_explorer_free": (None, handle),
    "bfm_explorer_get_sizes": (None, handle, POINTER(Sizes)),
    "bfm_explorer_act": (c_int, handle, floats, c_int, c_uint64, floats),
    "bfm_explorer_add": (c_int, handle, floats),
    "bfm_explorer_update": (c_int, handle, c_int64),
    "bfm_explorer_step": (c_int64, handle),
    "bfm_explorer_learn": (c_int, handle, POINTER(Batch)),
    "bfm_explorer_loss_count": (c_int, handle),
    "bfm_explorer_loss_name": (c_char_p, handle, c_int),
    "bfm_explorer_losses": (c_int, handle, floats),
    "bfm_explorer_tensor_count": (c_int, handle),
    "bfm_explorer_tensor_info": (c_int, handle, c_int, POINTER(c_char_p), POINTER(c_int),
                                 c_int64 * 4),
    "bfm_explorer_get_tensor": (c_int, handle, c_int, c_char_p, floats, c_int64),
    "bfm_explorer_set_tensor": (c_int, handle, c_int, c_char_p, floats, c_int64),
    "bfm_explorer_save_model": (c_int, handle, c_int, c_char_p, c_char_p, c_char_p),
    "bfm_explorer_save_state": (c_int, handle, c_char_p),
    "bfm_explorer_load": (c_int, handle_out, c_char_p, c_int, c_char_p),
})


def new_handle():
  return Handle(lib.bfm_explorer_free, "an explorer cannot be pickled or deep-copied: write it to a "
                "file with save_state() and read it with bfm.Explorer.load()")


class Explorer:
  """Agents that learn the reward of a task (algo="td3") or seek new states (algo="rnd").

  T agents, one per task, learn side by side, each from E environments of its own. obs_dim, act_dim,
  batch, tasks and envs are their sizes. Options are those of `bfm help collect`, with underscores.
  """

  def __init__(self, obs_dim, act_dim, tasks=1, envs=1, **options):
    made = new_handle()
    check(lib.bfm_explorer_new(ctypes.byref(made), obs_dim, act_dim, tasks, envs,
                               options_json(options)))
    self._bind(made)

  @classmethod
  def load(cls, path, envs=0, **options):
    """Create an Explorer from a file of save() or save_state(); envs 0 keeps its number of them."""
    made = new_handle()
    check(lib.bfm_explorer_load(ctypes.byref(made), path_bytes(path), envs, options_json(options)))
    explorer = cls.__new__(cls)
    explorer._bind(made)
    return explorer

  def _bind(self, made):
    self._handle, self._parts = made, Parts()
    sizes = Sizes()
    lib.bfm_explorer_get_sizes(made, ctypes.byref(sizes))
    for name, _ in Sizes._fields_[1:]:
      setattr(self, name, getattr(sizes, name))
    self._losses = [lib.bfm_explorer_loss_name(made, i).decode()
                    for i in range(lib.bfm_explorer_loss_count(made))]

  @property
  def step(self):
    """The number of updates done."""
    return lib.bfm_explorer_step(self._handle)

  # ---------------------------------- acting and learning ----------------------------------------

  def act(self, obs, explore=False, step=0):
    """Actions [T, E, act] for obs [T, E, obs]. With explore they have noise, which depends on the
    explorer's seed and on step."""
    obs = array(obs, (self.tasks, self.envs, self.obs_dim), "obs")
    out = np.empty((self.tasks, self.envs, self.act_dim), np.float32)
    check(lib.bfm_explorer_act(self._handle, pointer(obs), bool(explore), step, pointer(out)))
    return out

  def add(self, obs, act, reward, discount, next_obs, last):
    """Add one transition of every environment: arrays [T, E, ·]. discount is 0 where the episode
    terminated, else 1; last is 1 where the episode ended."""
    parts = {"obs": (obs, self.obs_dim), "act": (act, self.act_dim), "reward": (reward, 0),
             "discount": (discount, 0), "next_obs": (next_obs, self.obs_dim), "last": (last, 0)}
    rows = []
    for name, (values, width) in parts.items():
      values = array(values, (self.tasks, self.envs) + ((width,) if width else ()), name)
      rows.append(values.reshape(self.tasks, self.envs, -1))
    rows = np.ascontiguousarray(np.concatenate(rows, axis=-1))
    check(lib.bfm_explorer_add(self._handle, pointer(rows)))

  def update(self, updates=1):
    """Do so many updates on drawn batches. On a GPU the call returns while they run.

    Ctrl-C raises KeyboardInterrupt after whole updates: `step` says how many were done.
    """
    self._parts.run(lambda n: check(lib.bfm_explorer_update(self._handle, n)), updates)

  def learn(self, obs, act, reward, discount, next_obs, noise=None):
    """Do one update on transitions [T, N, ·] of n-step returns and discounts; return the losses."""
    widths = {"obs": (self.obs_dim,), "act": (self.act_dim,), "reward": (), "discount": (),
              "next_obs": (self.obs_dim,), "noise": (self.act_dim,)}
    given = {"obs": obs, "act": act, "reward": reward, "discount": discount, "next_obs": next_obs,
             "noise": noise}
    arrays = {name: None if values is None else
              array(values, (self.tasks, self.batch) + widths[name], name)
              for name, values in given.items()}
    batch = Batch(**{name: pointer(values) for name, values in arrays.items()})
    check(lib.bfm_explorer_learn(self._handle, ctypes.byref(batch)))
    return self.losses()

  def losses(self):
    """Wait for the last update and return its losses by name, [T] each."""
    out = np.empty((self.tasks, len(self._losses)), np.float32)
    check(lib.bfm_explorer_losses(self._handle, pointer(out)))
    return {name: out[:, i].copy() for i, name in enumerate(self._losses)}

  # ---------------------------------- parameters and files ---------------------------------------

  def _shapes(self):
    """{name: shape} of every tensor of one task, in the library's order."""
    shapes = {}
    name, dims, shape = c_char_p(), c_int(), (c_int64 * 4)()
    for i in range(lib.bfm_explorer_tensor_count(self._handle)):
      check(lib.bfm_explorer_tensor_info(self._handle, i, ctypes.byref(name), ctypes.byref(dims),
                                         shape))
      shapes[name.value.decode()] = tuple(shape[:dims.value])
    return shapes

  def tensors(self, task=0):
    """Copies of the parameters of one task, by name ("Q.sa.in.weight")."""
    result = {}
    for name, shape in self._shapes().items():
      out = np.empty(shape, np.float32)
      check(lib.bfm_explorer_get_tensor(self._handle, task, name.encode(), pointer(out), out.size))
      result[name] = out
    return result

  def set_tensors(self, tensors, task=0):
    """Overwrite parameters of one task; tensors is {name: array}."""
    shapes = self._shapes()
    for name in tensors:
      if name not in shapes:
        raise ArgumentError(f'there is no tensor "{name}" in this explorer')
    arrays = {name: array(values, shapes[name], name) for name, values in tensors.items()}
    for name, values in arrays.items():
      check(lib.bfm_explorer_set_tensor(self._handle, task, name.encode(), pointer(values),
                                        values.size))

  def save(self, path, task=0, env=None, name=None):
    """Write the policy of one task, with the names of the domain and of the task."""
    check(lib.bfm_explorer_save_model(self._handle, task, encode(env, "env"),
                                      encode(name, "name"), path_bytes(path)))

  def save_state(self, path):
    """Write everything learned, to resume from. The file has no transitions: add them again."""
    check(lib.bfm_explorer_save_state(self._handle, path_bytes(path)))
