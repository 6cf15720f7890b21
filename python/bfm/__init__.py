"""bfm: behavioral foundation models. A thin layer over libbfm (include/bfm.h)."""
from ._lib import SHIPPED_MODEL, ArgumentError, Error, lib
from .agent import Agent, load
from .env import Env, pictures, rewards
from .explorer import Explorer
from .runs import collect, train

__all__ = ["Agent", "ArgumentError", "Env", "Error", "Explorer", "SHIPPED_MODEL", "collect", "load", "pictures",
           "rewards", "train"]
__version__ = lib.bfm_version().decode()
