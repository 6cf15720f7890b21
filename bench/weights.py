"""Bias of the policy's weighted gradient: WIS and IWIS against the whole population, for a fixed F.

    PYTHONPATH=python .venv/bin/python bench/weights.py MODEL DATA.h5 [--json]

A population is a pool of transitions of the data with fixed z, F and policy, so every advantage A is
a fixed number. Its gradient g* weighs all transitions by exp(min(A / beta, clip)). A batch of N
transitions, drawn from the pool with replacement, gives the gradient g of training; w is normalized
within the batch, and this makes g biased. The gradients are those of the policy's last layer, its
parameters that numpy can follow exactly; the weights are checked against the library's own step.

Most of the error of g has mean zero: the unnormalized estimate of the same batch, which is unbiased,
has nearly the same. Its difference to g has the bias as its mean and little variance. The squared norm
of the bias is a U-statistic over blocks of batches, so its noise does not add up; the intervals are
bootstrapped over the blocks (95%).
"""
import argparse
import json

import h5py
import numpy as np

import bfm

BLOCKS = 32  # of batches, for the intervals
SIGMA_ROWS = 128  # batches whose own error is measured


# ---------------------------------- estimates ----------------------------------------------------


def batch_weights(e, iwis):
  """Weights of batches whose exponentials are e [batches, N], as ops.h defines aw_weights."""
  w = e / e.sum(1, keepdims=True)
  if iwis:
    w = w / np.maximum(1 - w, 1e-6)
    w /= w.sum(1, keepdims=True)
  return w


def population_gradient(dx, h, e):
  """Sum of dx_j h_j^T over the population with weights e_j / sum(e), [act, H]."""
  return (dx * (e / e.sum())[:, None]).T @ h


def bias_of_blocks(dx, h, e, N, iwis, batches, rng):
  """The mean of g - g* over each of BLOCKS blocks of batches, [BLOCKS, act H], without the error
  whose mean is known to be zero."""
  P, act = dx.shape
  target, mean = population_gradient(dx, h, e), e.mean()
  coefficients, rests = np.empty((BLOCKS, P)), np.empty(BLOCKS)
  for block in range(BLOCKS):
    rows = rng.integers(P, size=(batches // BLOCKS, N))
    own = e[rows]
    unnormalized = own / (N * mean)
    extra = batch_weights(own, iwis) - unnormalized
    coefficients[block] = np.bincount(rows.ravel(), extra.ravel(), P) / len(rows)
    rests[block] = 1 - unnormalized.sum(1).mean()
  found = np.einsum("bp,pa->bap", coefficients, dx).reshape(BLOCKS * act, P) @ h
  return found.reshape(BLOCKS, -1) - rests[:, None] * target.ravel()


def squared_norm(blocks, rng, times=2000):
  """|mean|^2 of independent estimates [BLOCKS, D] without bias, and its bootstrap sample."""
  gram = blocks @ blocks.T

  def estimate(pick):
    other = pick[:, None] != pick[None]  # a block times itself is noise
    return (gram[np.ix_(pick, pick)] * other).sum() / other.sum()

  n = len(blocks)
  return estimate(np.arange(n)), np.array([estimate(rng.integers(n, size=n)) for _ in range(times)])


def single_batches(dx, h, e, N, iwis, rng):
  """Root mean square of g - g* over single batches, and the mean of their largest weights."""
  target, square, largest = population_gradient(dx, h, e), 0, 0
  for _ in range(SIGMA_ROWS):
    rows = rng.integers(len(e), size=N)
    w = batch_weights(e[rows][None], iwis)[0]
    square += (((dx[rows] * w[:, None]).T @ h[rows] - target) ** 2).sum() / SIGMA_ROWS
    largest += w.max() / SIGMA_ROWS
  return np.sqrt(square), largest


# ---------------------------------- populations --------------------------------------------------


def last_hidden(tensors, obs, z):
  """The last hidden layer of the policy with a column of ones, [N, H + 1]."""
  linear = lambda name, x: x @ tensors[name + ".weight"].T + tensors[name + ".bias"]

  def norm(name, x):
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return x * tensors[name + ".weight"] + tensors[name + ".bias"]

  def branch(name, x):
    return np.maximum(linear(name + ".out", np.tanh(norm(name + ".norm", linear(name + ".in", x)))), 0)

  d = z.shape[1]
  z = z * np.sqrt(d) / np.linalg.norm(z, axis=1, keepdims=True)
  x = np.concatenate([branch("pi.s", obs), branch("pi.sz", np.concatenate([obs, z], 1))], 1)
  for i in range(4):
    x = linear(f"pi.trunk.{i}", x)
    if f"pi.trunk.{i}.norm.weight" in tensors:
      x = norm(f"pi.trunk.{i}.norm", x)
    x = np.maximum(x, 0)
  return np.concatenate([x, np.ones((len(x), 1), np.float32)], 1)


def policy_actions(mu, noise, options):
  shift = np.clip(options["sigma"] * noise, -options["noise-clip"], options["noise-clip"])
  return np.clip(mu + shift, -1, 1).astype(np.float32)


def advantages(model, obs, act, z, mu, noise):
  q = (model.F(obs, act, z) * z).sum(-1)
  q_pi = (model.F(obs, policy_actions(mu, noise, model.options), z) * z).sum(-1)
  o = model.options
  value = q.sum(0) if o["adv"] == "sum" else q.mean(0)
  return (value - (q_pi.min(0) if o["adv-base"] == "min" else q_pi.mean(0))).astype(np.float64)


def draw_z(model, obs, rng, one):
  """z as training draws it: one for all rows, or one for each; B of a state or Gaussian."""
  rows, d = len(obs), model.d
  gaussian = rng.standard_normal((1 if one else rows, d)).astype(np.float32)
  if one:
    state = rng.random() < model.options["z-mix"]
    z = model.prompt(goal=obs[rng.integers(rows)])[None] if state else gaussian
  else:
    of_states = model.B(obs[rng.permutation(rows)], gaussian)
    z = np.where(rng.random((rows, 1)) < model.options["z-mix"], of_states, gaussian)
  z = z * np.sqrt(d) / np.linalg.norm(z, axis=1, keepdims=True)
  return np.ascontiguousarray(np.broadcast_to(z, (rows, d)), np.float32)


class Population:
  """Advantages, and the gradient of -log pi by the policy's last layer: dx_j h_j^T for transition j."""

  def __init__(self, model, data, size, one_z, rng):
    rows = np.sort(rng.choice(len(data["obs"]), size, replace=False))
    self.obs, self.act = data["obs"][rows], data["act"][rows]
    self.next_obs = data["next_obs"][rows]
    self.z = draw_z(model, self.next_obs, rng, one_z)
    self.noise = rng.standard_normal(self.act.shape).astype(np.float32)
    tensors = model.tensors()
    parts = []
    for at in range(0, size, 4096):
      obs, z, act, noise = (x[at:at + 4096] for x in (self.obs, self.z, self.act, self.noise))
      mu = model.pi(obs, z)
      h = last_hidden(tensors, obs, z)
      last = np.concatenate([tensors["pi.trunk.4.weight"], tensors["pi.trunk.4.bias"][:, None]], 1)
      if np.abs(np.tanh(h @ last.T) - mu).max() > 1e-3:
        raise SystemExit("numpy's policy is not the library's")
      dx = (mu - act) * (1 - mu ** 2) / model.options["sigma"] ** 2
      parts.append((h, dx, advantages(model, obs, act, z, mu, noise)))
    self.h, self.dx, self.A = (np.concatenate(x) for x in zip(*parts))


def check_weights(path, population, rows=256):
  """The library's own step must have the same advantages, weights and actor's loss."""
  model = bfm.load(path, device="cpu", precision="f32")  # a model may have been trained in bf16
  for weights in ("wis", "iwis"):
    for clip in (4.6, np.inf):
      beta = population.A.std() / 2  # so that the weights differ from each other
      agent = bfm.load(path, device="cpu", batch=rows, beta=beta, clip=clip, weights=weights, ess=0,
                       z_groups=0, precision="f32")
      x = {name: getattr(population, name)[:rows] for name in ("obs", "act", "next_obs", "z")}
      x["z"] = np.broadcast_to(x["z"][:1], x["z"].shape).copy()  # an auto-regressive group has one z
      noise = population.noise[:rows]
      mu = model.pi(x["obs"], x["z"])
      A = advantages(model, x["obs"], x["act"], x["z"], mu, noise)
      w = batch_weights(np.exp(np.minimum(A / beta, clip))[None], weights == "iwis")[0]
      loss = (w * ((x["act"] - mu) ** 2).sum(1)).sum() / (2 * model.options["sigma"] ** 2)
      found = agent.update(**x, noise_pi=noise) | agent.metrics()
      for name, value in (("actor", loss), ("adv.std", A.std()), ("w.max", w.max()),
                          ("ess", 1 / (rows * (w ** 2).sum()))):
        if abs(found[name] - value) > 1e-3 * abs(value):
          raise SystemExit(f"{name} is {value} here and {found[name]} in the library")


# ---------------------------------- the measurement ----------------------------------------------


def measure(populations, beta, clip, N, weights, draws, rng):
  """Relative bias and error of single batches, as root mean squares over the populations."""
  squares, samples, errors, largest = [], [], [], []
  for p in populations:
    e = np.exp(np.minimum(p.A / beta, clip) - min(p.A.max() / beta, clip))
    g = (population_gradient(p.dx, p.h, e) ** 2).sum()
    blocks = bias_of_blocks(p.dx, p.h, e, N, weights == "iwis", draws // N, rng)
    square, sample = squared_norm(blocks, rng)
    squares.append(square / g)
    samples.append(sample / g)
    error, most = single_batches(p.dx, p.h, e, N, weights == "iwis", rng)
    errors.append(error ** 2 / g)
    largest.append(most)
  root = lambda x: float(np.sqrt(max(np.mean(x), 0)))
  low, high = np.percentile(np.mean(samples, 0), [2.5, 97.5])
  return {"beta": beta, "clip": clip, "N": N, "weights": weights, "bias": root(squares),
          "low": root(low), "high": root(high), "rmse": root(errors), "w.max": float(np.mean(largest))}


def describe(populations, beta, clip):
  """Of the population: effective sample size, the share that the clip cuts, and what the clip moves."""
  found = []
  for p in populations:
    free = np.exp(p.A / beta - p.A.max() / beta)
    e = np.exp(np.minimum(p.A / beta, clip) - min(p.A.max() / beta, clip))
    g, g_free = (population_gradient(p.dx, p.h, x) for x in (e, free))
    found.append((p.A.std(), e.sum() ** 2 / (e ** 2).sum(), (p.A / beta > clip).mean(),
                  np.linalg.norm(g - g_free) / np.linalg.norm(g_free)))
  names = ("adv.std", "effective", "clipped", "moved")
  return {"beta": beta, "clip": clip, **dict(zip(names, np.mean(found, 0).tolist()))}


def numbers(kind):
  return lambda text: [kind(x) for x in text.split(",")]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("model")
  parser.add_argument("data")
  parser.add_argument("--pool", type=int, default=2**17, help="transitions of a population")
  parser.add_argument("--populations", type=int, default=4)
  parser.add_argument("--beta", type=numbers(float), default=[30, 10, 3])
  parser.add_argument("--clip", type=numbers(float), default=[4.6, np.inf])
  parser.add_argument("--batch", type=numbers(int), default=[64, 256, 1024])
  parser.add_argument("--draws", type=int, default=2**24, help="transitions drawn for each bias")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--json", action="store_true")
  o = parser.parse_args()
  with h5py.File(o.data) as file:
    data = {short: file[name][:].astype(np.float32) for short, name in (
        ("obs", "observations"), ("act", "actions"), ("next_obs", "next_observations"))}
  model = bfm.load(o.model, device="cpu", precision="f32")
  one_z = model.options["z-groups"] == 1
  rng = np.random.default_rng(o.seed)
  populations = [Population(model, data, min(o.pool, len(data["obs"])), one_z, rng)
                 for _ in range(o.populations)]
  check_weights(o.model, populations[0])
  if not o.json:
    print(f"{o.model}: {o.populations} populations of {len(populations[0].A)} transitions, "
          f"{'one z each' if one_z else 'one z per transition'}")
  for beta in o.beta:
    for clip in o.clip:
      about = describe(populations, beta, clip)
      print(json.dumps(about) if o.json else
            f"\nbeta {beta:g}, clip {clip:g}: std of A / beta {about['adv.std'] / beta:.2f}, effective "
            f"transitions {about['effective']:.0f}, clipped {about['clipped']:.2%}; the clip moves the "
            f"population's gradient by {about['moved']:.1%}\n"
            f"{'N':>6} {'weights':>8} {'bias':>9} {'95% interval':>19} {'error of a batch':>17} {'w.max':>7}",
            flush=True)
      for N in o.batch:
        for weights in ("wis", "iwis"):
          line = measure(populations, beta, clip, N, weights, o.draws, np.random.default_rng(o.seed + N))
          print(json.dumps(line) if o.json else
                f"{N:6d} {weights:>8} {line['bias']:9.3%} {line['low']:9.3%} {line['high']:9.3%} "
                f"{line['rmse']:16.1%} {line['w.max']:7.3f}", flush=True)


if __name__ == "__main__":
  main()
