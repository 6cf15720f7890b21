"""Ctrl-C and other signals during calls of the library.

Python runs a signal's handler only between its own instructions, so a long call of C delays it.
Such a call is split into parts (Parts), or it calls back and can be stopped (call_stoppably).
"""
import contextlib
import ctypes
import operator
import signal
import threading
import time
from ctypes import c_int, c_int64, c_size_t, c_void_p

from ._lib import check, check_integer, lib, libc

# ---------------------------------- the stack of signal handlers ---------------------------------


class Stack(ctypes.Structure):
  """stack_t of <signal.h>"""
  _fields_ = [("sp", c_void_p), ("flags", c_int), ("size", c_size_t)]


DISABLED, STACK_SIZE = 2, 1 << 16  # SS_DISABLE of <signal.h>; bytes

libc.malloc.restype, libc.malloc.argtypes = c_void_p, [c_size_t]
libc.sigaltstack.argtypes = [c_void_p, c_void_p]


def use_signal_stack():
  """Give signal handlers of the main thread a stack of their own, unless they have one.

  oneDNN's kernels keep values below the stack pointer. A handler on their stack overwrites these
  values, even if it only sets a flag as Python's do: results are wrong, or memory is corrupted.
  Python's handlers use the thread's alternate stack (SA_ONSTACK) if there is one. It must outlive
  the interpreter, so it is never freed.
  """
  if threading.current_thread() is not threading.main_thread():
    return
  now = Stack()
  libc.sigaltstack(None, ctypes.byref(now))
  if now.flags & DISABLED:
    own = Stack(libc.malloc(STACK_SIZE), 0, STACK_SIZE)
    if own.sp:
      libc.sigaltstack(ctypes.byref(own), None)


use_signal_stack()

# ---------------------------------- calls in parts -----------------------------------------------

SHORTEST, LONGEST = 0.1, 0.2  # seconds of a part


class Parts:
  """Does many steps in calls of 0.1 to 0.2 seconds; Python notices Ctrl-C between them.

  The size of a part is kept for the next call, so that a loop of short calls is not split.
  """

  def __init__(self):
    self.size = 1

  def run(self, call, steps):
    """call(n) for parts n of the steps; 0 and negative numbers of steps are one part."""
    check_integer(steps, c_int64)
    steps = operator.index(steps)
    use_signal_stack()
    while True:
      part, start = min(self.size, steps), time.monotonic()
      call(part)
      seconds = time.monotonic() - start
      if seconds > LONGEST and part > 1:
        self.size = max(self.size // 2, 1)
      elif seconds < SHORTEST and part == self.size:
        self.size *= 2
      steps -= part
      if steps <= 0:
        return


# ---------------------------------- calls with a callback ----------------------------------------


@contextlib.contextmanager
def deferred_interrupt():
  """Ctrl-C sets a flag, which is yielded, instead of raising KeyboardInterrupt at once.

  Python drops an exception that is raised before a callback's first line. A handler that is not
  Python's own stays as it is.
  """
  interrupted = threading.Event()
  if (threading.current_thread() is not threading.main_thread() or
      signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
    yield interrupted
    return
  signal.signal(signal.SIGINT, lambda number, frame: interrupted.set())
  try:
    yield interrupted
  finally:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def call_stoppably(function, stop=None):
  """Call function(callback) and raise the error of its status.

  C calls callback(context, ...) now and then. A true result of stop(...), its exceptions and Ctrl-C
  stop the function; exceptions and KeyboardInterrupt are raised after it has returned.
  """
  raised = []

  def callback(context, *arguments):
    try:
      if stop and stop(*arguments):
        return 1
    except BaseException as error:
      raised.append(error)
    return int(bool(raised) or interrupted.is_set())

  use_signal_stack()
  with deferred_interrupt() as interrupted:
    status = function(callback)
    message = lib.bfm_error().decode(errors="replace") if status else ""
  if raised:
    raise raised[0]
  if interrupted.is_set():
    raise KeyboardInterrupt(message)
  check(status)
