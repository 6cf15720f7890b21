"""bfm: behavioral foundation models. A thin layer over libbfm (include/bfm.h)."""
from importlib.util import find_spec

from ._lib import ArgumentError, Error, lib
from .agent import Agent, load

__all__ = ["Agent", "ArgumentError", "Error", "load"]
__version__ = lib.bfm_version().decode()

if find_spec(".env", __name__):
  from .env import Env, rewards

  __all__ += ["Env", "rewards"]
