"""The C library behind the package: where it lies, its functions, its errors, its arrays.

Everything the package computes is computed by libbfm; this file only finds it, declares the
functions of include/bfm.h and turns a status into an exception with bfm_error()'s sentence.
"""
import ctypes
import importlib.util
import json
import operator
import os
from ctypes import (POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)
from numbers import Real
from pathlib import Path

import numpy as np

BAD_ARGUMENT = 2  # bfm_status of a value the caller gave


class Error(Exception):
  """A failed call. The message is one sentence, `status` the bfm_status of include/bfm.h."""

  __module__ = "bfm"  # in tracebacks

  def __init__(self, message, status=None):
    super().__init__(message)
    self.status = status


class ArgumentError(Error, ValueError):
  """A wrong argument: a shape, an option, a NaN, an expression."""

  __module__ = "bfm"

  def __init__(self, message, status=BAD_ARGUMENT):
    super().__init__(message, status)


# ---------------------------------- the library --------------------------------------------------


PACKAGE = Path(__file__).resolve().parent
INSTALLED = (PACKAGE / "libbfm.so").exists()  # from a wheel; otherwise this is a checkout
# a trained cheetah to try things with
SHIPPED_MODEL = str(PACKAGE / "shipped" / "cheetah.safetensors" if INSTALLED else
                    PACKAGE.parents[1] / "models" / "cheetah.safetensors")


def library_path():
  """$BFM_LIBRARY, or the wheel's library, or that in the checkout's build folder ($BFM_BUILD names
  another one)."""
  if os.environ.get("BFM_LIBRARY"):
    return Path(os.environ["BFM_LIBRARY"])
  if INSTALLED:
    return PACKAGE / "libbfm.so"
  return PACKAGE.parents[1] / os.environ.get("BFM_BUILD", "build") / "libbfm.so"


def load_mujoco():
  """Load MuJoCo's library from its own package, if that is not where libbfm looks: beside this one."""
  mujoco = importlib.util.find_spec("mujoco")
  if INSTALLED and mujoco and Path(mujoco.origin).parents[1] != PACKAGE.parent:
    for path in Path(mujoco.origin).parent.glob("libmujoco.so.*"):
      ctypes.CDLL(str(path))


def load_library():
  path = library_path()
  if not path.exists():
    raise ImportError(f"bfm: there is no library at {path}: run make, or set BFM_LIBRARY")
  try:
    load_mujoco()
    return ctypes.CDLL(str(path))
  except OSError as error:
    raise ImportError(f"bfm: {path} does not load: {error}") from None


lib = load_library()


INTEGERS = {c_int: (-2**31, 2**31 - 1), c_int64: (-2**63, 2**63 - 1), c_uint32: (0, 2**32 - 1),
            c_uint64: (0, 2**64 - 1)}


def check_integer(value, kind):
  """Refuse what C's integers of this kind do not have: ctypes would take it modulo their size."""
  low, high = INTEGERS[kind]
  try:
    fits = low <= operator.index(value) <= high
  except TypeError:
    fits = False
  if not fits:
    raise ArgumentError(f"{value!r} is not an integer from {low} to {high}")


def checked(function):
  """function, with its integers checked."""
  places = [(i, kind) for i, kind in enumerate(function.argtypes) if kind in INTEGERS]

  def call(*arguments):
    for i, kind in places:
      check_integer(arguments[i], kind)
    return function(*arguments)

  return call if places else function


def declare(functions):
  """Give each function its types; functions is {name: (result, argument, argument...)}."""
  for name, (result, *arguments) in functions.items():
    try:
      function = getattr(lib, name)
    except AttributeError:
      raise ImportError(f"bfm: {library_path()} has no {name}: it is of another version") from None
    function.restype = result
    function.argtypes = arguments
    setattr(lib, name, checked(function))


class Handle(c_void_p):
  """What C made. Copies of an object share it, and it is freed with the last of them.

  It cannot be pickled or deep-copied; the error says what to do instead.

  A child of fork has the memory and none of the threads, whose end would be waited for without end:
  it frees nothing of its parent's.
  """

  def __init__(self, free, unpicklable):
    super().__init__()
    self._free, self._process, self._unpicklable = free, os.getpid(), unpicklable

  def __reduce__(self):
    raise Error(self._unpicklable)

  def free(self, process=os.getpid):
    if self.value and self._process == process():
      self._free(self)
    self.value = None

  __del__ = free


class Sized(ctypes.Structure):
  """A struct of bfm.h whose first field is its size."""

  def __init__(self, **values):
    for name, kind in self._fields_:
      if kind in INTEGERS and name in values:
        check_integer(values[name], kind)
    super().__init__(size=ctypes.sizeof(self), **values)


class Batch(Sized):
  """bfm_batch"""
  _fields_ = [("size", c_size_t), *((name, c_void_p) for name in (
      "obs", "act", "next_obs", "discount", "z", "noise_next", "noise_pi"))]


class Prompt(Sized):
  """bfm_prompt"""
  _fields_ = [("size", c_size_t), *((name, c_char_p) for name in ("reward", "goal", "demo", "file")),
              ("softmax", c_double)]


class Evaluation(Sized):
  """bfm_evaluation"""
  Each = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64, c_int64)
  _fields_ = [("size", c_size_t), ("tasks", POINTER(c_char_p)), ("task_count", c_int), ("z", c_void_p),
              ("episodes", c_int64), ("steps", c_int64), ("es", c_int), ("seed", c_uint64),
              ("softmax", c_double), ("threads", c_int), ("each", Each), ("context", c_void_p)]


agent, agent_out, floats, rows = c_void_p, POINTER(c_void_p), c_void_p, c_int64

declare({
    "bfm_error": (c_char_p,),
    "bfm_version": (c_char_p,),
    "bfm_agent_new": (c_int, agent_out, c_int64, c_int64, c_char_p),
    "bfm_agent_free": (None, agent),
    "bfm_agent_obs_dim": (c_int64, agent),
    "bfm_agent_act_dim": (c_int64, agent),
    "bfm_agent_d": (c_int64, agent),
    "bfm_agent_batch": (c_int64, agent),
    "bfm_agent_members": (c_int, agent),
    "bfm_agent_replicas": (c_int, agent),
    "bfm_agent_step": (c_int64, agent),
    "bfm_agent_options": (c_void_p, agent),
    "bfm_agent_tensor_count": (c_int, agent),
    "bfm_agent_tensor_info": (c_int, agent, c_int, POINTER(c_char_p), POINTER(c_int), c_int64 * 4),
    "bfm_agent_get_tensor": (c_int, agent, c_int, c_char_p, floats, c_int64),
    "bfm_agent_set_tensor": (c_int, agent, c_int, c_char_p, floats, c_int64),
    "bfm_agent_loss_count": (c_int, agent),
    "bfm_agent_loss_name": (c_char_p, agent, c_int),
    "bfm_agent_metric_count": (c_int, agent),
    "bfm_agent_metric_name": (c_char_p, agent, c_int),
    "bfm_agent_metrics": (c_int, agent, floats),
    "bfm_agent_update": (c_int, agent, POINTER(Batch), floats),
    "bfm_agent_set_data": (c_int, agent, rows, floats, floats, floats, floats),
    "bfm_agent_train": (c_int, agent, c_int64, floats),
    "bfm_agent_F": (c_int, agent, c_int, rows, floats, floats, floats, floats),
    "bfm_agent_B": (c_int, agent, c_int, rows, floats, floats, floats),
    "bfm_agent_pi": (c_int, agent, c_int, rows, floats, floats, floats),
    "bfm_agent_prompt_reward": (c_int, agent, c_int, rows, floats, floats, c_double, floats),
    "bfm_agent_prompt_states": (c_int, agent, c_int, rows, floats, floats),
    "bfm_agent_set_prompt": (c_int, agent, c_char_p, rows, floats, floats, floats, floats),
    "bfm_agent_env": (c_char_p, agent),
    "bfm_agent_prompt_count": (c_int64, agent),
    "bfm_agent_prompt": (c_int, agent, c_int, POINTER(Prompt), floats, c_char_p, c_size_t),
    "bfm_agent_prompt_warning": (c_int, agent, c_char_p, c_char_p, c_size_t),
    "bfm_agent_prompt_state": (c_int, agent, c_int, floats, floats, floats, floats),
    "bfm_agent_evaluate": (c_int, agent, POINTER(Evaluation), floats),
    "bfm_agent_act": (c_int, agent, c_int, rows, floats, floats, c_int, c_uint64, c_uint64, floats),
    "bfm_agent_save_model": (c_int, agent, c_int, c_char_p),
    "bfm_agent_save_state": (c_int, agent, c_char_p),
    "bfm_agent_export": (c_int, agent, c_int, c_char_p, c_int, c_int, c_int64),
    "bfm_agent_export_onnx": (c_int, agent, c_int, c_char_p, c_char_p, c_int, c_int),
    "bfm_agent_load": (c_int, agent_out, c_char_p, c_char_p),
    "bfm_random_uniform": (None, c_uint64, c_uint32, c_uint64, c_int64, floats),
    "bfm_random_normal": (None, c_uint64, c_uint32, c_uint64, c_int64, floats),
})

libc = ctypes.CDLL(None)
libc.free.argtypes = [c_void_p]


def check(status):
  """Raise the error of a status that is not BFM_OK."""
  if status:
    message = lib.bfm_error().decode(errors="replace")
    raise (ArgumentError if status == BAD_ARGUMENT else Error)(message, status)


def text(pointer):
  """The malloc'ed string at pointer, which is freed."""
  if not pointer:
    raise Error("out of memory")
  try:
    return ctypes.string_at(pointer).decode()
  finally:
    libc.free(pointer)


# ---------------------------------- texts --------------------------------------------------------


def without_nul(value, name):
  """value, which C would cut at a NUL character."""
  if (b"\0" if isinstance(value, bytes) else "\0") in value:
    raise ArgumentError(f"{name} is {value!r}, which has a NUL character")
  return value


def encode(value, name):
  """A text as C gets it; None is NULL."""
  if value is None:
    return None
  if not isinstance(value, str):
    raise ArgumentError(f"{name} is {value!r}, but must be a text")
  try:
    return without_nul(value, name).encode()
  except UnicodeEncodeError as error:
    raise ArgumentError(f"{name} is {value!r}: {error}") from None


def domain_bytes(domain, name="domain"):
  """A domain's name, or the path of a robot's file, as C gets it."""
  return path_bytes(domain) if isinstance(domain, os.PathLike) else encode(domain, name)


def path_bytes(path):
  """A path as C gets it, with ~ expanded."""
  try:
    return os.fsencode(os.path.expanduser(without_nul(os.fspath(path), "a path")))
  except TypeError:
    raise ArgumentError(f"{path!r} is not a path") from None
  except UnicodeEncodeError as error:
    raise ArgumentError(f"a path is {path!r}: {error}") from None


def option_value(name, value):
  """An option's value as JSON has it: infinity is "inf"."""
  if isinstance(value, (np.generic, np.ndarray)):
    value = value.item() if value.size == 1 else value.tolist()
  if isinstance(value, str):
    return encode(value, f"option {name}").decode()
  if not isinstance(value, (int, float)):
    raise ArgumentError(f"option {name} is {value!r}, but must be a number, a text, True or False")
  return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def options_json(options):
  """Keyword arguments as the library's JSON: z_mix is "z-mix", with_ is "with"."""
  values = {}
  for name, value in options.items():
    name = encode(name.rstrip("_").replace("_", "-"), "the name of an option").decode()
    if name in values:
      raise ArgumentError(f"option {name} is given twice")
    values[name] = option_value(name, value)
  return json.dumps(values).encode()


# ---------------------------------- arrays -------------------------------------------------------


def real_numbers(values, name):
  """values as an array of numpy whose elements are numbers: real ones, and none of them masked."""
  parts = values if isinstance(values, (list, tuple)) else [values]
  if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
    raise ArgumentError(f"{name} has masked values: fill them or leave their rows out")
  try:
    result = np.asarray(values)
    if result.dtype == object and all(isinstance(x, (Real, np.bool_)) for x in result.flat):
      result = result.astype(np.float64)
  except Exception as error:  # numpy, and objects that convert themselves, raise any
    raise ArgumentError(f"{name} is not an array of numbers: {error}") from None
  if result.dtype.kind == "c":
    raise ArgumentError(f"{name} is complex: give real numbers")
  # other packages' numbers, such as bfloat16, are of kind V, too
  if result.dtype.kind not in "biufV" or result.dtype.type is np.void:
    raise ArgumentError(f"{name} is not an array of numbers: its type is {result.dtype}")
  return result


def array(values, shape, name, dtype=np.float32):
  """values as a contiguous array of this shape; a str in shape names a free length."""
  given = real_numbers(values, name)
  fits = given.ndim == len(shape) and all(
      isinstance(want, str) or want == have for want, have in zip(shape, given.shape))
  if not fits:
    expected = ", ".join(str(want) for want in shape)
    found = ", ".join(str(have) for have in given.shape)
    raise ArgumentError(f"{name} has shape [{found}], expected [{expected}]")
  try:
    with np.errstate(over="raise"):
      result = np.ascontiguousarray(given, dtype=dtype)
  except FloatingPointError:
    raise ArgumentError(f"{name} has a number beyond the range of {np.dtype(dtype)}") from None
  return result


def pointer(values):
  """What C sees of an array; None is NULL."""
  return None if values is None else values.ctypes.data
