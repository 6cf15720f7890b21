"""bfm.collect and bfm.train: whole runs, the same as the commands `bfm collect` and `bfm train`."""
import ctypes
import json
import os
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

from ._interrupt import call_stoppably
from ._lib import Sized, declare, domain_bytes, lib, options_json, path_bytes

# ---------------------------------- structs of bfm.h ---------------------------------------------


class Progress(ctypes.Structure):
  """bfm_progress"""
  _fields_ = [("size", c_size_t), ("stage", c_char_p), ("unit", c_char_p), ("first", c_int64),
              ("done", c_int64), ("total", c_int64), ("seconds", c_double), ("note", c_char_p)]


ProgressCallback = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Progress))


class Collection(Sized):
  """bfm_collection"""
  _fields_ = [("size", c_size_t), ("env", c_char_p), ("output", c_char_p), ("options", c_char_p),
              ("resume", c_int), ("progress", ProgressCallback), ("context", c_void_p)]


class Training(Sized):
  """bfm_training"""
  _fields_ = [("size", c_size_t), ("data", POINTER(c_char_p)), ("data_count", c_int),
              ("output", c_char_p), ("options", c_char_p), ("resume", c_int),
              ("progress", ProgressCallback), ("context", c_void_p)]


declare({
    "bfm_collect": (c_int, POINTER(Collection)),
    "bfm_train": (c_int, POINTER(Training)),
})


# ---------------------------------- progress -----------------------------------------------------


def print_progress(progress):
  """One line on standard error that rewrites itself: progress=True."""
  if not progress["total"]:
    return
  done, total, seconds = progress["done"], progress["total"], progress["seconds"]
  rate = (done - progress["first"]) / seconds if seconds > 0 else 0
  print(f"\r{progress['stage']} {done:,}/{total:,} {progress['unit']}  {rate:,.0f}/s  "
        f"{progress['note']}\033[K", end="\n" if done == total else "", file=sys.stderr, flush=True)


def run(function, plan, progress):
  """Call function(plan); Ctrl-C and exceptions of progress() stop it and are raised afterwards."""
  report = print_progress if progress is True else progress

  def stop(now):
    now = {name: getattr(now.contents, name) for name, _ in Progress._fields_[1:]}
    texts = {name: now[name].decode() for name in ("stage", "unit", "note")}
    return report(now | texts)

  def call(callback):
    plan.progress = ProgressCallback(callback)
    return function(ctypes.byref(plan))

  call_stoppably(call, stop if report else None)


# ---------------------------------- runs ---------------------------------------------------------


def collect(env=None, *, output, resume=False, progress=None, **options):
  """Collect a dataset of a domain into the file `output`, and return its path.

  The options are those of `bfm help collect` with underscores; --with is with_:

      bfm.collect("walker", with_="mood", steps=4_000_000, output="mood.h5")

  resume=True continues a file, which names its domain and options itself. progress=True prints a
  progress line; a function gets a dict (stage, unit, first, done, total, seconds, note) a few times a
  second, and a true result stops the run. A stopped run has saved everything and raises bfm.Error,
  Ctrl-C KeyboardInterrupt, and an exception of the function is raised again.
  """
  run(lib.bfm_collect, Collection(env=domain_bytes(env, "env"), output=path_bytes(output),
                                  options=options_json(options), resume=bool(resume)), progress)
  return Path(os.path.expanduser(os.fsdecode(output)))


def seeds_of(state):
  """The number of seeds of a training state: its safetensors header has the options."""
  with open(state, "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
  return int(json.loads(header["__metadata__"]["config"])["seeds"])


def train(data=None, *, output, resume=False, progress=None, **options):
  """Train an agent on a dataset, or a list of them, in the folder `output`.

  Returns the path of the model, or with several seeds the list of their paths. The options are those
  of `bfm help train` with underscores:

      model = bfm.train("mood.h5", algo="fb-aware", steps=175_000, output="runs/walker")
      agent = bfm.load(model)

  resume=True continues the run in the folder, which names its data and options itself. progress and
  stopping are as in bfm.collect.
  """
  names = [] if data is None else [data] if isinstance(data, (str, bytes, os.PathLike)) else list(data)
  files = (c_char_p * len(names))(*(path_bytes(name) for name in names))
  run(lib.bfm_train, Training(data=files, data_count=len(names), output=path_bytes(output),
                              options=options_json(options), resume=bool(resume)), progress)
  folder = Path(os.path.expanduser(os.fsdecode(output)))
  seeds = seeds_of(folder / "state.safetensors")
  if seeds == 1:
    return folder / "model.safetensors"
  return [folder / f"model.{i}.safetensors" for i in range(seeds)]
