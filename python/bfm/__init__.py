"""bfm: behavioral foundation models. A thin layer over libbfm (include/bfm.h)."""
from ._lib import ArgumentError, Error, lib
from .agent import Agent, load
from .env import Env, pictures, rewards
from .explorer import Explorer

__all__ = ["Agent", "ArgumentError", "Env", "Error", "Explorer", "load", "pictures", "rewards"]
__version__ = lib.bfm_version().decode()
