"""libbfm's single-task offline agents against PyTorch in float64, written from the papers: behavioral
cloning, TD3+BC (arXiv 2106.06860), IQL (2110.06169) and XQL (2301.02328). The same parameters, batches
and noise must give the same updates.

As in test_explorer: losses agree to 1e-4 of their size, and every parameter and target to 1% of the
size of its own update, or to twice the error of PyTorch's own float32 if that is more.
"""
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as nn

import bfm

OBS, ACT = 7, 3
COMMON = {"hidden": 48, "batch": 64, "device": "cpu", "seed": 3, "threads": 1}
DEFAULTS = {"lr": 3e-4, "tau": 0.05, "critics": 2, "delay": 2, "target_sigma": 0.2,
            "noise_clip": 0.5, "alpha": 2.5, "expectile": 0.7, "inverse_temperature": 3.0,
            "weight_clip": 100.0, "loss_temperature": 2.0, "exp_clip": 7.0, "anneal": 0}
TAKES = {"bc": "lr", "td3bc": "lr tau critics delay target_sigma noise_clip alpha",
         "iql": "lr tau critics expectile inverse_temperature weight_clip anneal",
         "xql": "lr tau critics inverse_temperature weight_clip loss_temperature exp_clip anneal"}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
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


def mlp(p, name, branch, x):
  """Two layers of ReLUs; where V has layer norms, they come before a tanh and a ReLU."""
  at = f"{name}.{branch}"
  x = linear(p, at + ".in", x)
  x = torch.tanh(layer_norm(p, at + ".norm", x)) if at + ".norm.weight" in p else nn.relu(x)
  x = linear(p, at + ".out", x)
  if at + ".out.norm.weight" in p:
    x = layer_norm(p, at + ".out.norm", x)
  return linear(p, name + ".trunk.0", nn.relu(x))


def net_Q(p, s, a, name="Q"):
  """[M, N]"""
  q = mlp(p, name, "sa", torch.cat([s, a], -1))[..., 0]
  return q if q.dim() == 2 else q[None]


def net_pi(p, s, name="pi"):
  return torch.tanh(mlp(p, name, "s", s))


def net_V(p, s):
  return mlp(p, "V", "s", s)[..., 0]


class Referee:
  """One policy."""

  def __init__(self, tensors, o, dtype):
    self.p = {name: torch.tensor(x, dtype=dtype) for name, x in tensors.items()}
    self.o, self.dtype, self.steps, self.actor, self.clone = o, dtype, 0, 0.0, 0.0
    self.learners = {}
    for net in ("Q", "pi", "V"):
      params = [x for name, x in self.p.items() if name.startswith(net + ".")]
      for x in params:
        x.requires_grad_(True)
      self.learners[net] = torch.optim.Adam(params, lr=o["lr"]) if params else None

  def descend(self, net, loss):
    params = self.learners[net].param_groups[0]["params"]
    for x, grad in zip(params, torch.autograd.grad(loss, params)):
      x.grad = grad
    self.learners[net].step()

  def follow(self):
    with torch.no_grad():
      for name, x in self.p.items():
        net, dot, rest = name.partition("_target.")
        if dot:
          x += self.o["tau"] * (self.p[f"{net}.{rest}"] - x)

  def learn_bc(self, s, a, *_):
    loss = nn.mse_loss(net_pi(self.p, s), a)
    self.descend("pi", loss)
    return {"actor": loss.item()}

  def learn_td3bc(self, s, a, r, gamma, s2, noise):
    p, o = self.p, self.o
    with torch.no_grad():
      noise = (o["target_sigma"] * noise).clamp(-o["noise_clip"], o["noise_clip"])
      a2 = (net_pi(p, s2, "pi_target") + noise).clamp(-1, 1)
      y = r + gamma * net_Q(p, s2, a2, "Q_target").amin(0)
    q = net_Q(p, s, a)
    loss = 0.5 * (q - y).pow(2).mean(-1).sum()
    found = {"critic": loss.item(), "q": q.mean().item()}
    self.descend("Q", loss)
    if self.steps % o["delay"] == 0:
      pi = net_pi(p, s)
      q = net_Q(p, s, pi)[0]
      value = -o["alpha"] / q.abs().mean().detach() * q.mean()
      clone = nn.mse_loss(pi, a)
      self.actor, self.clone = value.item(), clone.item()
      self.descend("pi", value + clone)
      self.follow()
    return {**found, "actor": self.actor, "clone": self.clone}

  def value_loss(self, e):
    o = self.o
    if o["algo"] == "iql":
      return ((o["expectile"] - (e < 0).to(e.dtype)).abs() * e.pow(2)).mean()
    z = (e / o["loss_temperature"]).clamp(max=o["exp_clip"])
    shift = z.max().clamp(min=-1).detach()
    return (torch.exp(z - shift) - z * torch.exp(-shift) - torch.exp(-shift)).mean()

  def learn_values(self, s, a, r, gamma, s2, _):
    p, o = self.p, self.o
    with torch.no_grad():
      best = net_Q(p, s, a, "Q_target").amin(0)
    value = self.value_loss(best - net_V(p, s))
    self.descend("V", value)
    with torch.no_grad():
      weight = torch.exp(o["inverse_temperature"] * (best - net_V(p, s))).clamp(max=o["weight_clip"])
      y = r + gamma * net_V(p, s2)
    log_sigma = p["pi.log_sigma"].clamp(-5, 2)
    policy = torch.distributions.Normal(net_pi(p, s), torch.exp(log_sigma))
    actor = -(weight * policy.log_prob(a).sum(-1)).mean()
    if o["anneal"]:
      self.learners["pi"].param_groups[0]["lr"] = (
          o["lr"] / 2 * (1 + math.cos(math.pi * min(self.steps - 1, o["anneal"]) / o["anneal"])))
    self.descend("pi", actor)
    q = net_Q(p, s, a)
    loss = nn.huber_loss if o["algo"] == "xql" else nn.mse_loss
    scale = {"delta": 20.0} if o["algo"] == "xql" else {}
    half = 1 if o["algo"] == "xql" else 0.5  # PyTorch's Huber loss has the half in it
    critic = half * sum(loss(one, y, **scale) for one in q)
    self.descend("Q", critic)
    self.follow()
    return {"critic": critic.item(), "q": q.mean().item(), "value": value.item(),
            "actor": actor.item()}

  def learn(self, obs, act, reward, discount, next_obs, noise):
    s, a, r, gamma, s2, noise = (torch.tensor(x, dtype=self.dtype)
                                 for x in (obs, act, reward, discount, next_obs, noise))
    self.steps += 1
    if "input.stats" in self.p:
      mean, var = self.p["input.stats"]
      s, s2 = ((x - mean) / torch.sqrt(var + 1e-5) for x in (s, s2))
    update = {"bc": self.learn_bc, "td3bc": self.learn_td3bc}.get(self.o["algo"], self.learn_values)
    return update(s, a, r, gamma, s2, noise)

  def tensors(self):
    return {name: x.detach().double().numpy().copy() for name, x in self.p.items()}


def learner_and(tasks=1, algo="iql", **changes):
  given = {name: DEFAULTS[name] for name in TAKES[algo].split()}
  given.update(algo=algo, **changes)
  learner = bfm.Explorer(OBS, ACT, tasks=tasks, **COMMON, **given)
  if "input.stats" in learner.tensors():
    for t in range(tasks):
      learner.set_tensors({"input.stats": np.stack([np.full(OBS, 1.0 + t),
                                                    np.geomspace(0.01, 25, OBS)])}, task=t)
  o = {**DEFAULTS, **given}
  make = lambda dtype: [Referee(learner.tensors(t), o, dtype) for t in range(tasks)]
  return learner, make(torch.float64), make(torch.float32)


def batch_of(learner, rng, reward):
  shape = (learner.tasks, learner.batch)
  scale = np.geomspace(0.1, 5, OBS)
  obs = 1 + rng.standard_normal(shape + (OBS,)) * scale
  found = {"obs": obs, "act": rng.uniform(-1.2, 1.2, shape + (ACT,)).clip(-1, 1),
           "reward": reward * (rng.random(shape) - 0.2), "discount": 0.97 * (rng.random(shape) > 0.1),
           "next_obs": obs + 0.3 * scale * rng.standard_normal(obs.shape),
           "noise": 2 * rng.standard_normal(shape + (ACT,))}
  return {name: x.astype(np.float32) for name, x in found.items()}


# ---------------------------------- updates ------------------------------------------------------

# rewards of 50 pass the limits of weights, exponents and Huber's loss
CASES = [{"algo": "bc"}, {"algo": "bc", "tasks": 2}, {"algo": "bc", "obs_norm": "on"},
         {"algo": "td3bc"}, {"algo": "td3bc", "alpha": 0.0}, {"algo": "td3bc", "alpha": 40.0},
         {"algo": "td3bc", "delay": 1, "critics": 1}, {"algo": "td3bc", "tasks": 3},
         {"algo": "td3bc", "obs_norm": "off"}, {"algo": "td3bc", "noise_clip": 0.1},
         {"algo": "iql"}, {"algo": "iql", "expectile": 0.9, "inverse_temperature": 10.0},
         {"algo": "iql", "tasks": 3}, {"algo": "iql", "critics": 1}, {"algo": "iql", "reward": 50.0},
         {"algo": "iql", "weight_clip": 1.0}, {"algo": "iql", "obs_norm": "on"},
         {"algo": "iql", "anneal": 8}, {"algo": "iql", "lr": 1e-3},
         {"algo": "xql"}, {"algo": "xql", "tasks": 2}, {"algo": "xql", "reward": 50.0},
         {"algo": "xql", "loss_temperature": 0.1}, {"algo": "xql", "exp_clip": 0.3,
                                                     "loss_temperature": 0.1},
         {"algo": "xql", "anneal": 8, "weight_clip": 1.0}]


def check_updates(changes, updates, seeds=range(3)):
  for seed in seeds:  # a ReLU may flip in float32 by chance; a wrong formula fails all seeds
    changes = dict(changes)
    reward = changes.get("reward", 1.0)
    learner, truth, float32 = learner_and(**{k: v for k, v in changes.items() if k != "reward"})
    rng = np.random.default_rng(seed)
    start = [referee.tensors() for referee in truth]
    runs = []
    for _ in range(updates):
      batch = batch_of(learner, rng, reward)
      runs.append((learner.learn(**batch), *(
          [referee.learn(**{name: x[t] for name, x in batch.items()})
           for t, referee in enumerate(referees)] for referees in (truth, float32))))
    far = {}
    for t in range(learner.tasks):
      assert runs[0][0].keys() == runs[0][1][t].keys()
      for name in runs[0][0]:
        true = np.array([run[1][t][name] for run in runs])
        ours = np.array([run[0][name][t] for run in runs])
        theirs = np.array([run[2][t][name] for run in runs])
        size = np.abs(true).max()
        if np.abs(ours - true).max() > max(1e-4 * size, 2 * np.abs(theirs - true).max()):
          far[t, name] = ours, true
      end, ours, theirs = truth[t].tensors(), learner.tensors(t), float32[t].tensors()
      assert ours.keys() == end.keys()
      for name in end:
        moved = np.linalg.norm(end[name] - start[t][name])
        assert (moved > 0) == (name != "input.stats"), name
        net = name.split(".")[0].replace("_target", "")
        peers = [n for n in end if n.split(".")[0].replace("_target", "") == net and moved]
        lost = max((np.linalg.norm(theirs[n] - end[n]) / np.linalg.norm(end[n] - start[t][n])
                    for n in peers), default=0)
        if np.linalg.norm(ours[name] - end[name]) > max(0.01, min(2 * lost, 0.1)) * moved:
          far[t, name] = np.linalg.norm(ours[name] - end[name]) / moved
    if not far:
      return
  pytest.fail(f"too far in each of three draws: {far}")


IDS = lambda c: ",".join(f"{k}={v}" for k, v in c.items())


@pytest.mark.parametrize("algo", TAKES)
def test_one_update(algo):
  check_updates({"algo": algo, "delay": 1} if algo == "td3bc" else {"algo": algo}, 1)


@pytest.mark.parametrize("changes", CASES, ids=IDS)
def test_ten_updates(changes):
  check_updates(changes, 10)


@pytest.mark.parametrize("algo", TAKES)
def test_a_hundred_updates(algo):
  check_updates({"algo": algo}, 100)


def test_update_options_reach_their_limits():
  """The cases above pass the limits of weights, exponents and Huber's loss."""
  rng = np.random.default_rng(0)
  learner, (truth,), _ = learner_and(algo="xql", loss_temperature=0.1)
  batch = {name: torch.tensor(x[0], dtype=torch.float64)
           for name, x in batch_of(learner, rng, 50.0).items()}
  p, s, a = truth.p, batch["obs"], batch["act"]
  e = batch["reward"] + batch["discount"] * net_V(p, batch["next_obs"]) - net_Q(p, s, a)
  assert (e.abs() > 20).any() and (e.abs() < 20).any()
  for _ in range(10):
    truth.learn(**{name: x[0] for name, x in batch_of(learner, rng, 1.0).items()})
  e = net_Q(p, s, a, "Q_target").amin(0) - net_V(p, s)
  assert (e / 0.1 > 0.3).any() and (e / 0.1 < 0.3).any()
  assert (torch.exp(3 * e) > 1).any() and (torch.exp(3 * e) < 1).any()


def test_policies_act_by_their_mean_and_share_seeds():
  learner, truth, _ = learner_and(tasks=2, algo="td3bc")
  obs = np.random.default_rng(0).standard_normal((2, 1, OBS)).astype(np.float32)
  act = learner.act(obs)
  for t in range(2):
    mean, var = truth[t].p["input.stats"]
    s = (torch.tensor(obs[t], dtype=torch.float64) - mean) / torch.sqrt(var + 1e-5)
    np.testing.assert_allclose(act[t], net_pi(truth[t].p, s).detach().numpy(), atol=1e-5)
  both = bfm.Explorer(OBS, ACT, tasks=4, algo="iql", seeds=2, **COMMON)
  for name, x in both.tensors(0).items():
    np.testing.assert_array_equal(x, both.tensors(2)[name])
  assert np.abs(both.tensors(0)["Q.sa.in.weight"] - both.tensors(1)["Q.sa.in.weight"]).max() > 0.1
