"""libbfm's explorers against PyTorch in float64: the same parameters, batches and noise must give
the same updates, and batches from the replay buffer must have the n-step returns of its episodes.

Over ten updates, losses agree to 1e-4 of their size, and every parameter and target to 1% of the
size of its own update, or to twice the error of PyTorch's own float32 if that is more.
"""
import numpy as np
import pytest
import torch
import torch.nn.functional as nn

import bfm
from draws import BATCH, EXPLORE, NOISE_NEXT, below, normal, uniform

OBS, ACT = 7, 3
COMMON = {"hidden": 48, "batch": 64, "rnd_dim": 20, "device": "cpu", "seed": 3, "threads": 1}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
  """Networks this small are slower on several threads."""
  before = torch.get_num_threads()
  torch.set_num_threads(1)
  yield
  torch.set_num_threads(before)


# ---------------------------------- the reference ------------------------------------------------


def linear(p, name, x):
  w, b = p[name + ".weight"], p[name + ".bias"]
  return torch.einsum("...ni,...oi->...no", x, w) + b[..., None, :]


def layer_norm(p, name, x):
  x = nn.layer_norm(x, x.shape[-1:])
  return x * p[name + ".weight"][..., None, :] + p[name + ".bias"][..., None, :]


def net_Q(p, s, a, name="Q"):
  """[M, N]"""
  x = torch.cat([s, a], -1)
  x = torch.tanh(layer_norm(p, name + ".sa.norm", linear(p, name + ".sa.in", x)))
  x = nn.relu(layer_norm(p, name + ".sa.out.norm", linear(p, name + ".sa.out", x)))
  q = linear(p, name + ".trunk.0", x)[..., 0]
  return q if q.dim() == 2 else q[None]


def net_pi(p, s, name="pi"):
  x = torch.tanh(layer_norm(p, name + ".s.norm", linear(p, name + ".s.in", s)))
  x = linear(p, name + ".s.out", x)
  if name + ".s.out.norm.weight" in p:
    x = layer_norm(p, name + ".s.out.norm", x)
  return torch.tanh(linear(p, name + ".trunk.0", nn.relu(x)))


def net_plain(p, s, name):
  return linear(p, name + ".trunk.0", nn.relu(linear(p, name + ".s.out", nn.relu(
      linear(p, name + ".s.in", s)))))


def normalized(s, mean, var):
  return ((s - mean) / torch.sqrt(var + 1e-5)).clamp(-5, 5)


class Running:
  """Mean and variance of all batches so far."""

  def __init__(self):
    self.seen = []

  def __call__(self, x):
    self.seen.append(x)
    everything = torch.cat(self.seen)
    return everything.mean(0), everything.var(0, unbiased=False)


class Referee:
  """One task's explorer."""

  def __init__(self, tensors, o, dtype):
    self.p = {name: torch.tensor(x, dtype=dtype) for name, x in tensors.items()}
    self.o, self.dtype, self.steps = o, dtype, 0
    self.input_stats, self.obs_stats, self.error_stats = Running(), Running(), Running()
    self.learners = {}
    for net in ("Q", "pi", "predictor"):
      params = [x for name, x in self.p.items() if name.startswith(net + ".")]
      for x in params:
        x.requires_grad_(True)
      self.learners[net] = torch.optim.Adam(params, lr=o["lr"]) if params else None

  def descend(self, net, loss):
    params = self.learners[net].param_groups[0]["params"]
    for x, grad in zip(params, torch.autograd.grad(loss, params)):
      x.grad = grad
    self.learners[net].step()

  def bonus(self, s):
    s = normalized(s, *self.obs_stats(s))
    error = (net_plain(self.p, s, "predictor") - net_plain(self.p, s, "random")).pow(2).mean(-1)
    _, var = self.error_stats(error.detach())
    return error, error.detach() / (var.sqrt() + 1e-8)

  def learn(self, obs, act, reward, discount, next_obs, noise):
    s, a, r, gamma, s2, noise = (torch.tensor(x, dtype=self.dtype)
                                 for x in (obs, act, reward, discount, next_obs, noise))
    o, p, found = self.o, self.p, {}
    self.steps += 1
    with_policy = self.steps % o["delay"] == 0
    if "input.stats" in p:
      p["input.stats"] = torch.stack(self.input_stats(s))
      s, s2 = (normalized(x, *p["input.stats"]) for x in (s, s2))
    if o["algo"] == "rnd":
      error, r = self.bonus(s)
      found["rnd"], found["bonus"] = error.mean().item(), r.mean().item()
      self.descend("predictor", error.mean())
    with torch.no_grad():
      noise = (o["target_sigma"] * noise).clamp(-o["noise_clip"], o["noise_clip"])
      a2 = (net_pi(p, s2, "pi_target") + noise).clamp(-1, 1)
      y = r + gamma * net_Q(p, s2, a2, "Q_target").amin(0)
    q = net_Q(p, s, a)
    loss = 0.5 * (q - y).pow(2).mean(-1).sum()
    found["critic"], found["q"] = loss.item(), q.mean().item()
    self.descend("Q", loss)
    if with_policy:
      loss = -net_Q(p, s, net_pi(p, s)).amin(0).mean()
      self.actor = loss.item()
      self.descend("pi", loss)
      with torch.no_grad():
        for name, x in p.items():
          net, dot, rest = name.partition("_target.")
          if dot:
            x += o["tau"] * (p[f"{net}.{rest}"] - x)
    found["actor"] = getattr(self, "actor", 0.0)
    return found

  def tensors(self):
    return {name: x.detach().double().numpy().copy() for name, x in self.p.items()}


def explorer_and(tasks=1, envs=1, **changes):
  o = {"algo": "td3", "lr": 3e-4, "delay": 2, "tau": 0.05, "critics": 2, "target_sigma": 0.2,
       "noise_clip": 0.5, **changes}
  explorer = bfm.Explorer(OBS, ACT, tasks=tasks, envs=envs, **COMMON, **o)
  make = lambda dtype: [Referee(explorer.tensors(t), o, dtype) for t in range(tasks)]
  return explorer, make(torch.float64), make(torch.float32)


def batch_of(explorer, rng):
  shape = (explorer.tasks, explorer.batch)
  scale = np.geomspace(0.1, 5, OBS)
  obs = 1 + rng.standard_normal(shape + (OBS,)) * scale
  found = {"obs": obs, "act": rng.uniform(-1.2, 1.2, shape + (ACT,)).clip(-1, 1),
           "reward": rng.random(shape), "discount": 0.97 * (rng.random(shape) > 0.1),
           "next_obs": obs + 0.3 * scale * rng.standard_normal(obs.shape),
           "noise": 2 * rng.standard_normal(shape + (ACT,))}
  return {name: x.astype(np.float32) for name, x in found.items()}


# ---------------------------------- updates ------------------------------------------------------

CASES = [{}, {"critics": 1}, {"delay": 1}, {"delay": 3}, {"noise_clip": 0.1}, {"target_sigma": 0.0},
         {"tau": 0.5}, {"lr": 1e-3}, {"algo": "rnd", "delay": 1}, {"algo": "rnd", "critics": 1},
         {"tasks": 3}, {"algo": "rnd", "tasks": 2}, {"obs_norm": "off"}, {"policy_norm": "off"},
         {"obs_norm": "off", "policy_norm": "off"},
         {"algo": "rnd", "obs_norm": "on", "policy_norm": "on"}]


@pytest.mark.parametrize("changes", CASES, ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()))
def test_ten_updates(changes):
  for seed in range(3):  # a ReLU may flip in float32 by chance; a wrong formula fails all seeds
    explorer, truth, float32 = explorer_and(**changes)
    rng = np.random.default_rng(seed)
    start = [referee.tensors() for referee in truth]
    runs = []
    for _ in range(10):
      batch = batch_of(explorer, rng)
      runs.append((explorer.learn(**batch), *(
          [referee.learn(**{name: x[t] for name, x in batch.items()})
           for t, referee in enumerate(referees)] for referees in (truth, float32))))
    far = {}
    for t in range(explorer.tasks):
      for name in runs[0][0]:
        true = np.array([run[1][t][name] for run in runs])
        ours = np.array([run[0][name][t] for run in runs])
        theirs = np.array([run[2][t][name] for run in runs])
        size = np.abs(true).max()
        if np.abs(ours - true).max() > max(1e-4 * size, 2 * np.abs(theirs - true).max()):
          far[t, name] = ours, true
      end, ours, theirs = truth[t].tensors(), explorer.tensors(t), float32[t].tensors()
      assert ours.keys() == end.keys()
      for name in end:
        moved = np.linalg.norm(end[name] - start[t][name])
        assert (moved > 0) == (not name.startswith("random.")), name
        net = name.split(".")[0].replace("_target", "")
        peers = [n for n in end if n.split(".")[0].replace("_target", "") == net and moved]
        lost = max((np.linalg.norm(theirs[n] - end[n]) / np.linalg.norm(end[n] - start[t][n])
                    for n in peers), default=0)
        if np.linalg.norm(ours[name] - end[name]) > max(0.01, min(2 * lost, 0.1)) * moved:
          far[t, name] = np.linalg.norm(ours[name] - end[name]) / moved
    if not far:
      return
  pytest.fail(f"too far in each of three draws: {far}")


def test_policies_start_near_zero_and_act_as_the_referee():
  explorer, truth, _ = explorer_and(tasks=2, envs=5)
  obs = np.random.default_rng(0).standard_normal((2, 5, OBS)).astype(np.float32)
  stats = np.stack([np.full(OBS, 0.3), np.geomspace(0.01, 4, OBS)])  # some are clipped
  for t in range(2):
    explorer.set_tensors({"input.stats": stats * (t + 1)}, task=t)
  act = explorer.act(obs)
  for t in range(2):
    seen = normalized(torch.tensor(obs[t], dtype=torch.float64), *torch.tensor(stats * (t + 1)))
    expected = net_pi(truth[t].p, seen).detach().numpy()
    np.testing.assert_allclose(act[t], expected, atol=1e-5)
  assert np.abs(act).max() < 0.5
  drawn = lambda draw, step: np.stack([draw(COMMON["seed"] + t, EXPLORE, step, 5 * ACT)
                                       for t in range(2)]).reshape(act.shape)
  noisy = explorer.act(obs, explore=True, step=10_000)
  np.testing.assert_allclose(noisy, (act + 0.2 * drawn(normal, 10_000)).clip(-1, 1), atol=1e-5)
  first = explorer.act(obs, explore=True, step=3)
  np.testing.assert_allclose(first, 2 * drawn(uniform, 3) - 1, atol=1e-6)


# ---------------------------------- the replay buffer --------------------------------------------

T, E, SLOTS = 2, 3, 40


def episodes(rng):
  """SLOTS transitions per environment, split into episodes, some of which terminate."""
  obs = rng.standard_normal((SLOTS + 1, T, E, OBS)).astype(np.float32)
  rows = []
  for i in range(SLOTS):
    last = rng.random((T, E)) < 0.2
    rows.append({"obs": obs[i], "act": rng.uniform(-1, 1, (T, E, ACT)).astype(np.float32),
                 "reward": rng.random((T, E)).astype(np.float32),
                 "discount": 1.0 - (last & (rng.random((T, E)) < 0.5)),
                 "next_obs": obs[i] + 100, "last": last.astype(np.float32)})
  return rows


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("replay", [E * 100, E * 11])
def test_update_equals_learn_on_n_step_returns(nstep, replay):
  """update() equals learn() on batches that are assembled here."""
  make = lambda: bfm.Explorer(OBS, ACT, tasks=T, envs=E, nstep=nstep, gamma=0.9, replay=replay,
                              **COMMON)
  rows, drawn, given = episodes(np.random.default_rng(1)), make(), make()
  for row in rows:
    drawn.add(**row)
  kept = rows[-(replay // E):]
  for step in range(4):
    drawn.update()
    N = drawn.batch
    shapes = {"obs": (OBS,), "act": (ACT,), "reward": (), "discount": (), "next_obs": (OBS,),
              "noise": (ACT,)}
    batch = {name: np.zeros((T, N) + shape, np.float32) for name, shape in shapes.items()}
    for t in range(T):
      batch["noise"][t] = normal(COMMON["seed"] + t, NOISE_NEXT, step, N * ACT).reshape(N, ACT)
      for i, draw in enumerate(below(COMMON["seed"] + t, BATCH, step, N, len(kept) * E)):
        first, env = divmod(int(draw), E)
        reward, discount = 0.0, 1.0
        for k in range(first, min(first + nstep, len(kept))):
          row = kept[k]
          reward += discount * row["reward"][t, env]
          discount *= 0.9 * row["discount"][t, env]
          if row["last"][t, env]:
            break
        batch["obs"][t, i], batch["act"][t, i] = (kept[first][x][t, env] for x in ("obs", "act"))
        batch["reward"][t, i], batch["discount"][t, i] = reward, discount
        batch["next_obs"][t, i] = row["next_obs"][t, env]
    given.learn(**batch)
  for t in range(T):
    ours, expected = drawn.tensors(t), given.tensors(t)
    for name in expected:
      np.testing.assert_allclose(ours[name], expected[name], atol=2e-6, err_msg=name)
