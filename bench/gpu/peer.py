"""The PyTorch peer of `bfm bench step`: the training step of tests/oracle, compiled, in one CUDA graph.

Hidden layers in bf16 (autocast) or tf32, F·B and the losses in float32, Adam fused, targets updated
at once, batches gathered on the GPU. The pool of z is never refreshed, which favours the peer.
Usage: peer.py [--algo fb-aware] [--precision bf16|tf32] [--obs 24] [--act 6] [--d 64] [--seconds 3]
"""
import argparse
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "oracle"))
import reference  # noqa: E402


def arguments():
  parser = argparse.ArgumentParser()
  for name, default in {"algo": "fb-aware", "precision": "bf16", "obs": 24, "act": 6, "d": 64,
                        "blocks": 8, "batch": 1024, "seconds": 3.0}.items():
    parser.add_argument("--" + name, type=type(default), default=default)
  return parser.parse_args()


def keep_masks(o):
  """Masks and the bounds of blocks are constants: no step makes them or waits for them."""
  kept, make = {}, reference.mask
  reference.bounds = lambda n, K: [(-(-k * n // K), -(-(k + 1) * n // K)) for k in range(K)]

  def mask(*args, **kw):
    key = (*args, *kw.items())
    if key not in kept:
      kept[key] = make(*args, **kw)
    return kept[key]

  reference.mask = mask
  p = {name: value.cuda() for name, value in reference.initial(o).items()}
  with torch.no_grad():  # before anything is compiled
    reference.net_B(p, o, torch.randn(2, o.obs_dim), torch.randn(2, o.d), o.B)


def make_step(o, precision):
  """A function without arguments that does one training step on data drawn on the GPU."""
  torch.set_float32_matmul_precision("high")
  p = {name: value.cuda() for name, value in reference.initial(o).items()}
  learned = [name for name in p if "_target." not in name]
  targets = [name for name in p if "_target." in name]
  for name in learned:
    p[name].requires_grad_()
  adam = torch.optim.Adam([p[name] for name in learned], lr=o.lr, fused=True, capturable=True)

  rows, N = 20000, o.batch
  obs, act = torch.randn(rows, o.obs_dim), torch.rand(rows, o.act_dim) * 2 - 1
  next_obs, pool = torch.randn(rows, o.obs_dim), reference.project(torch.randn(N, o.d))
  discount = torch.ones(N)
  products = reference.pairs

  def pairs(x, y):
    with torch.autocast("cuda", enabled=False):
      return products(x.float(), y.float())

  reference.pairs = pairs

  def losses(s, a, s2, z, noise_next, noise_pi):
    with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
      return reference.losses(p, o, s, a, s2, discount, z, noise_next, noise_pi)[0]

  losses = torch.compile(losses, dynamic=False)

  def step():
    index = torch.randint(rows, (N,))
    noise = torch.randn(2, N, o.act_dim)
    z = pool[:1].expand(N, -1) if o.auto_regressive else pool
    total = losses(obs[index], act[index], next_obs[index], z, noise[0], noise[1])
    for name in learned:
      p[name].grad = None
    total.backward()
    adam.step()
    with torch.no_grad():
      torch._foreach_lerp_([p[name] for name in targets],
                           [p[name.replace("_target", "")] for name in targets], o.polyak)

  return step


def graphed(step):
  """step as one CUDA graph, after a warm-up on a side stream"""
  side = torch.cuda.Stream()
  side.wait_stream(torch.cuda.current_stream())
  with torch.cuda.stream(side):
    for _ in range(4):
      step()
  torch.cuda.current_stream().wait_stream(side)
  graph = torch.cuda.CUDAGraph()
  with torch.cuda.graph(graph):
    step()
  return graph.replay


def rate(step, seconds):
  """steps a second: double the number until they fill the time"""
  steps = 16
  while True:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
      step()
    torch.cuda.synchronize()
    took = time.perf_counter() - start
    if took >= seconds / 2:
      return steps / took
    steps *= 2


def main():
  a = arguments()
  torch.set_default_device("cuda")
  o = reference.Options(a.obs, a.act, algo=a.algo, d=a.d, blocks=a.blocks, batch=a.batch, clip=4.6)
  keep_masks(o)
  step = make_step(o, a.precision)
  result = rate(graphed(step), a.seconds)
  print(json.dumps({"bench": "peer", "steps_per_second": result, "algo": a.algo,
                    "precision": a.precision, "torch": torch.__version__,
                    "machine": torch.cuda.get_device_name()}))


if __name__ == "__main__":
  main()
