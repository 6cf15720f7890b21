"""Agents, environments and explorers are handles of this process: no pickles, no deep copies."""
import copy
import multiprocessing
import pickle

import pytest

import bfm

MADE = {
    "agent": (lambda: bfm.Agent(5, 2, preset="small", device="cpu"), r"save\(\).* bfm\.load\(\)"),
    "environment": (lambda: bfm.Env("point_mass"), r"create it again with bfm\.Env\(\)"),
    "explorer": (lambda: bfm.Explorer(5, 2, hidden=16, device="cpu"),
                 r"save_state\(\).* bfm\.Explorer\.load\(\)")}


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("call", [
    copy.deepcopy, *(lambda made, protocol=protocol: pickle.dumps(made, protocol)
                     for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
    lambda made: multiprocessing.get_context("spawn").Process(target=print, args=(made,)).start()])
def test_the_error_says_what_to_do(what, call):
  make, words = MADE[what]
  made = make()
  for given in (made, {"in": [made]}, copy.copy(made)):
    with pytest.raises(bfm.Error, match=f"^an {what} cannot be pickled or deep-copied: .*{words}"):
      call(given)


def test_errors_can_be_pickled():
  """A worker process sends its errors to its parent like that."""
  for error in (bfm.Error("lost", 4), bfm.ArgumentError("wrong")):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status) == (type(error), str(error), error.status)
