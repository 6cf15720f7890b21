"""The policy runtime beside onnxruntime and the main library, on one core, in one run.

    make policy && scripts/deps.sh bench
    BFM=build/bfm BFM_BUILD=build PYTHONPATH=python .venv-bench/bin/python bench/policy.py [--model FILE] [--json]

The model is exported as float32, bfloat16 and int8, and its policy is built as an ONNX graph. Each peer acts
in turns of 50 calls on a random observation and z, so that all see the same machine; the table has the median
and the 99th percentile of all calls. Loading is the median of 9 times; memory is what the process has more in
RAM after loading and acting, over the size of the file.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import bfm

TURN = 50
BUILD = Path(os.environ.get("BFM_BUILD", "build"))


class How(ctypes.Structure):
  _fields_ = [("samples", ctypes.c_int), ("base", ctypes.c_int), ("want_q", ctypes.c_int),
              ("seed", ctypes.c_uint64), ("step", ctypes.c_uint64)]


def address(array):
  return ctypes.c_void_p(array.ctypes.data)


def aligned(size):
  """Memory at a multiple of 64 bytes; keep the array."""
  room = np.zeros(size + 64, np.uint8)
  return room, ctypes.c_void_p((room.ctypes.data + 63) // 64 * 64)


class Runtime:
  """A model in the policy runtime."""
  lib = ctypes.CDLL(str(BUILD / "libbfm_policy.so"))
  lib.bfm_policy_work_bytes.restype = ctypes.c_size_t

  def __init__(self, path, samples=32):
    self.policy, self.work, self.error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(256)
    start = time.perf_counter()
    self.check(self.lib.bfm_policy_open(ctypes.byref(self.policy), str(path).encode(), self.error))
    self.load_seconds = time.perf_counter() - start
    size = self.lib.bfm_policy_work_bytes(self.policy, samples)
    self.room, at = aligned(size)
    self.check(self.lib.bfm_policy_work_init(ctypes.byref(self.work), self.policy, samples, at, ctypes.c_size_t(size),
                                             self.error))

  def check(self, status):
    if status:
      raise RuntimeError(self.error.raw[4:].split(b"\0")[0].decode())

  def action(self, obs, z, act, samples=0):
    """A function without arguments that acts."""
    how = How(samples, 0, 0, 1, 2)
    arguments = [self.policy, self.work, address(obs), address(z), ctypes.byref(how), address(act), None, self.error]
    return lambda: self.check(self.lib.bfm_policy_act(*arguments))

  def close(self):
    self.lib.bfm_policy_close(self.policy)


def onnx_policy(agent):
  """The graph of pi(obs, z), as a serialized ONNX model."""
  tensors = {k: v for k, v in agent.tensors().items() if k.startswith("pi.")}
  nodes, weights = [], []

  def constant(name, value):
    weights.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
    return name

  def node(op, inputs, name, **attributes):
    nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
    return name

  def linear(x, part):
    return node("Gemm", [x, constant(f"{part}.w", tensors[f"{part}.weight"]),
                         constant(f"{part}.b", tensors[f"{part}.bias"])], f"{part}.y", transB=1)

  def norm(x, part):
    return node("LayerNormalization", [x, constant(f"{part}.w", tensors[f"{part}.weight"]),
                                       constant(f"{part}.b", tensors[f"{part}.bias"])], f"{part}.y", epsilon=1e-5)

  d = agent.d
  norm_z = node("ReduceL2", ["z"], "z.norm", keepdims=1)
  unit = node("Mul", [node("Div", ["z", norm_z], "z.unit"), constant("root", np.sqrt(d))], "z.sphere")
  both = node("Concat", ["obs", unit], "obs_z", axis=1)
  branches = []
  for branch, x in (("s", "obs"), ("sz", both)):
    x = node("Tanh", [norm(linear(x, f"pi.{branch}.in"), f"pi.{branch}.norm")], f"{branch}.tanh")
    branches.append(node("Relu", [linear(x, f"pi.{branch}.out")], f"{branch}.relu"))
  x = node("Concat", branches, "trunk", axis=1)
  for i in range(5):
    x = linear(x, f"pi.trunk.{i}")
    if i < 4:
      if f"pi.trunk.{i}.norm.weight" in tensors:
        x = norm(x, f"pi.trunk.{i}.norm")
      x = node("Relu", [x], f"trunk.{i}.relu")
  node("Tanh", [x], "action")
  f32 = TensorProto.FLOAT
  graph = helper.make_graph(nodes, "pi", [helper.make_tensor_value_info("obs", f32, [1, agent.obs_dim]),
                                          helper.make_tensor_value_info("z", f32, [1, d])],
                            [helper.make_tensor_value_info("action", f32, [1, agent.act_dim])], weights)
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
  model.ir_version = 8
  onnx.checker.check_model(model)
  return model.SerializeToString()


def session(model):
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = options.inter_op_num_threads = 1
  return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def resident():
  for line in open("/proc/self/status"):
    if line.startswith("VmRSS"):
      return 1024 * int(line.split()[1])


MEASURE_MEMORY = """
import sys; sys.path.insert(0, "bench")
import numpy as np, policy
obs, z, act = (np.ones(n, np.float32) for n in (4096, 4096, 1024))
before = policy.resident()
runtime = policy.Runtime(sys.argv[1], 0)
runtime.action(obs, z, act)()
print(policy.resident() - before)
"""


def memory_of(path):
  """RAM that a process has more after loading and acting, over the size of the file."""
  out = subprocess.run([os.sys.executable, "-c", MEASURE_MEMORY, str(path)], check=True, capture_output=True, text=True)
  return int(out.stdout) / path.stat().st_size


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--model", default="models/walker.safetensors")
  parser.add_argument("--rounds", type=int, default=30)
  parser.add_argument("--cpu-time", action="store_true", help="count the thread's CPU time: for a machine with other work")
  parser.add_argument("--json", action="store_true")
  args = parser.parse_args()
  clock = time.thread_time if args.cpu_time else time.perf_counter
  rng = np.random.default_rng(0)
  with tempfile.TemporaryDirectory() as folder:
    paths = {w: Path(folder) / f"{w}.safetensors" for w in ("f32", "bf16", "int8")}
    agent = bfm.load(args.model, device="cpu", precision="f32", threads=1)
    for weights, path in paths.items():
      agent.export(path, members=1, weights=weights)
    obs = rng.standard_normal(agent.obs_dim, dtype=np.float32)
    z = rng.standard_normal(agent.d, dtype=np.float32)
    runtimes = {w: Runtime(p) for w, p in paths.items()}
    acts = {w: np.zeros(agent.act_dim, np.float32) for w in paths}
    peer = session(onnx_policy(bfm.load(paths["f32"], device="cpu", precision="f32", threads=1)))
    inputs = {"obs": obs[None], "z": z[None]}
    calls = {"onnxruntime f32": lambda: peer.run(None, inputs),
             "main library f32": lambda: agent.act(obs, z)}
    calls |= {f"runtime {w}": r.action(obs, z, acts[w]) for w, r in runtimes.items()}
    best = {w: np.zeros(agent.act_dim, np.float32) for w in paths}
    calls |= {f"runtime {w}, best of 32": r.action(obs, z, best[w], 32) for w, r in runtimes.items()}
    calls["main library, best of 32"] = lambda: agent.act(obs, z, es=32)

    times = {name: [] for name in calls}
    for _ in range(args.rounds):
      for name, call in calls.items():
        for _ in range(3):
          call()
        for _ in range(TURN // 5 if "best" in name else TURN):
          start = clock()
          call()
          times[name].append(1e3 * (clock() - start))
    apart = float(np.abs(peer.run(None, inputs)[0][0] - acts["f32"]).max())
    base = statistics.median(times["onnxruntime f32"])
    rows = [{"what": name, "ms": statistics.median(t), "p99_ms": sorted(t)[len(t) * 99 // 100],
             "of_onnxruntime": statistics.median(t) / base} for name, t in times.items()]
    loads = {w: 1e3 * statistics.median(Runtime(p, 0).load_seconds for _ in range(9)) for w, p in paths.items()}
    memory = {w: memory_of(p) for w, p in paths.items()}
    if args.json:
      print(json.dumps({"bench": "policy", "rows": rows, "load_ms": loads, "memory_of_file": memory,
                        "apart_from_onnxruntime": apart}))
      return
    print(f"{'one action':28} {'median':>8} {'p99':>8}   of onnxruntime's median")
    for row in rows:
      print(f"{row['what']:28} {row['ms']:5.3f} ms {row['p99_ms']:5.3f} ms   {row['of_onnxruntime']:.2f}")
    for weights, path in paths.items():
      print(f"{weights:5} loads in {loads[weights]:.1f} ms and takes {memory[weights]:.2f} times the file's "
            f"{path.stat().st_size / 1e6:.1f} MB in RAM")
    print(f"the actions of float32 differ from onnxruntime's by {apart:.1e}")


if __name__ == "__main__":
  main()
