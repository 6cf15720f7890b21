"""The reference: networks, training step and prompting of bfm's six algorithms in plain PyTorch.

It is written only from the paper ("Finer Behavioral Foundation Models via Auto-Regressive Features
and Advantage Weighting", Section 3 and Appendices A-C): autograd for the gradients, torch.optim.Adam
for the updates, masks as zeros. Parameters are a dict of tensors with bfm's names.
Letters: N batch, I groups of equal z, d, K blocks, M members, [..] shapes.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as nn

AUTO_REGRESSIVE = ("fb-are", "fb-aware")
ADVANTAGE_WEIGHTED = ("fb-aw", "fb-aware", "lap-aw")
LAPLACIAN = ("lap", "lap-aw")
PRESETS = {"paper": (1024, 512, 256), "small": (256, 128, 128)}  # hidden, feat, b_hidden


@dataclass
class Options:
  """The options of `bfm train` that change what a step computes, with bfm's names."""
  obs_dim: int
  act_dim: int
  algo: str = "fb-aware"
  d: int = 64
  blocks: int = 8
  batch: int = 1024
  preset: str = "paper"
  hidden: int = 0  # 0: the preset's, also for feat and b_hidden
  feat: int = 0
  b_hidden: int = 0
  z_groups: int = 0  # 0: 1 for auto-regressive features, the batch otherwise
  weights: str = "iwis"
  target: str = "mean"
  ensemble: str = "parallel"
  members: int = 2
  b_norm: bool = True
  f_norm: bool = False
  pi_norm: bool = False
  adv: str = "mean"
  adv_base: str = "min"
  beta: float = 10.0
  clip: float = math.inf
  ess: float = 0.0
  gamma: float = 0.98
  ortho: float = 1.0
  lr: float = 1e-4
  b_lr: float = 0.0  # 0: lr
  polyak: float = 0.01
  sigma: float = 0.2
  noise_clip: float = 0.3
  z_mix: float = 0.5  # these two for those who draw z
  z_whiten: bool = False
  goal: str = ""
  mbar: int = 0

  def __post_init__(self):
    hidden, feat, b_hidden = PRESETS[self.preset]
    self.hidden = self.hidden or hidden
    self.feat = self.feat or feat
    self.b_hidden = self.b_hidden or b_hidden
    self.b_norm = self.b_norm in (True, "on")
    self.f_norm = self.f_norm in (True, "on")
    self.pi_norm = self.pi_norm in (True, "on")
    self.laplacian = self.algo in LAPLACIAN
    self.auto_regressive = self.algo in AUTO_REGRESSIVE
    self.K = self.blocks if self.auto_regressive else 1
    self.z_groups = self.z_groups or (1 if self.auto_regressive else self.batch)
    self.columns = goal_columns(self.goal, self.obs_dim)
    self.f_layers = 3 if self.ensemble == "parallel" else 1  # shared: shallow heads
    self.F = "psi" if self.laplacian else "F"  # names in the parameter dict
    self.B = "phi" if self.laplacian else "B"


def goal_columns(goal, obs_dim):
  """The observation's columns that B sees: "0:4,7" is 0 1 2 3 7, "" is all of them."""
  columns = []
  for part in filter(None, goal.split(",")):
    first, colon, end = part.partition(":")
    columns += range(int(first), int(end) if colon else int(first) + 1)
  return columns or list(range(obs_dim))


# ---------------------------------- blocks and masks ---------------------------------------------


def block_of(n, K):
  """The block of each of n units, [n]: contiguous, sizes as even as possible."""
  return torch.tensor([u * K // n for u in range(n)])


def bounds(n, K):
  """[(first, end)] of the K blocks of n units."""
  block = block_of(n, K).tolist()
  return [(block.index(k), n - block[::-1].index(k)) for k in range(K)]


def mask(n_out, n_in, K, free=0, strict=False):
  """[n_out, free + n_in]: input block j feeds output block i if j <= i (j < i if strict).

  The first `free` inputs (those that come from s alone) feed every unit.
  """
  i, j = block_of(n_out, K)[:, None], block_of(n_in, K)[None, :]
  return torch.cat([torch.ones(n_out, free, dtype=torch.bool), (j < i) if strict else (j <= i)], 1)


# ---------------------------------- layers -------------------------------------------------------


def linear(p, name, x, mask=None):
  """x [N, in] or [M, N, in] -> [N, out], or [M, N, out] if the weight is [M, out, in].

  With such a weight, an x of [N, in] is the input of all members.
  """
  weight, bias = p[name + ".weight"], p[name + ".bias"]
  if mask is not None:
    weight = weight * mask.to(weight.dtype)
  if weight.dim() == 2:
    return nn.linear(x, weight, bias)
  x = x.expand(len(weight), -1, -1)
  return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def layer_norm(p, name, x, K=1):
  """Layer norm of each of the K blocks separately, then one gain and bias per unit."""
  weight, bias = p[name + ".weight"], p[name + ".bias"]
  x = torch.cat([nn.layer_norm(x[..., a:b], (b - a,)) for a, b in bounds(x.shape[-1], K)], -1)
  return x * weight.unsqueeze(-2) + bias.unsqueeze(-2)


def pre(p, name, x, K=1, mask_in=None, mask_out=None):
  x = torch.tanh(layer_norm(p, name + ".norm", linear(p, name + ".in", x, mask_in), K))
  return torch.relu(linear(p, name + ".out", x, mask_out))


def trunk(p, name, x, layers, norm=False):
  for i in range(layers):
    x = linear(p, f"{name}.trunk.{i}", x)
    x = torch.relu(layer_norm(p, f"{name}.trunk.{i}.norm", x) if norm else x)
  return linear(p, f"{name}.trunk.{layers}", x)


def project(z):
  """Scales z to norm sqrt(d)."""
  return nn.normalize(z, dim=-1) * math.sqrt(z.shape[-1])


def residual_normalization(z, K):
  """Block k becomes sqrt(d_1 + ... + d_k) z_k / |z_1..k|, so that B does not see the scale of z."""
  return torch.cat([z[:, a:b] * (math.sqrt(b) / z[:, :b].norm(dim=1, keepdim=True).clamp(min=1e-12))
                    for a, b in bounds(z.shape[1], K)], 1)


# ---------------------------------- networks -----------------------------------------------------


def net_F(p, o, s, a, z, name="F"):
  """F(s, a, z), [M, N, d]; psi of the Laplacian algorithms."""
  z = project(z)
  x = torch.cat([pre(p, name + ".sa", torch.cat([s, a], -1)),
                 pre(p, name + ".sz", torch.cat([s, z], -1))], -1)
  x = trunk(p, name, x, o.f_layers, o.f_norm)
  return x if x.dim() == 3 else x[None]


def net_pi(p, o, s, z):
  """The policy's mean, [N, act]."""
  z = project(z)
  x = torch.cat([pre(p, "pi.s", s), pre(p, "pi.sz", torch.cat([s, z], -1))], -1)
  return torch.tanh(trunk(p, "pi", x, 4, o.pi_norm))


def net_B(p, o, s, z=None, name="B"):
  """B(s, z), [N, d]; phi of the Laplacian algorithms. With one block it does not depend on z."""
  K, h, d = o.K, o.b_hidden, o.d
  s = s[:, o.columns]
  if K == 1:
    x = torch.cat([pre(p, name + ".s", s), pre(p, name + ".sz", s)], -1)
    x = trunk(p, name, x, 2)
  else:
    sz = torch.cat([s, residual_normalization(z, K)], -1)
    sz = pre(p, name + ".sz", sz, K, mask(h, d, K, free=s.shape[1], strict=True), mask(h, h, K))
    x = torch.cat([pre(p, name + ".s", s), sz], -1)
    x = torch.relu(linear(p, name + ".trunk.0", x, mask(h, h, K, free=h)))
    x = torch.relu(linear(p, name + ".trunk.1", x, mask(h, h, K)))
    x = linear(p, name + ".trunk.2", x, mask(d, h, K))
  if not o.b_norm:
    return x
  return torch.cat([project(x[:, a:b]) for a, b in bounds(d, K)], 1)


def net_U(p, o, s, z, name="U"):
  """The factor of s in mbar(s, z, s') = U(s, z) . V(s'), [N, r]."""
  z = project(z)
  x = torch.cat([pre(p, name + ".s", s), pre(p, name + ".sz", torch.cat([s, z], -1))], -1)
  return trunk(p, name, x, 3, o.f_norm)


def net_V(p, o, s, name="V"):
  """The factor of the future state s' in mbar, [N, r]."""
  s = s[:, o.columns]
  return trunk(p, name, torch.cat([pre(p, name + ".s", s), pre(p, name + ".sz", s)], -1), 2)


def shapes(o):
  """{name: shape} of every parameter and target."""
  result = {}

  def add(name, n_out, n_in, lead=()):
    result[name + ".weight"] = (*lead, n_out, n_in)
    result[name + ".bias"] = (*lead, n_out)

  def add_pre(name, n_in, hidden, feat, lead=()):
    add(name + ".in", hidden, n_in, lead)
    result[name + ".norm.weight"] = result[name + ".norm.bias"] = (*lead, hidden)
    add(name + ".out", feat, hidden, lead)

  def add_trunk(name, n_in, hidden, layers, n_out, lead=(), norm=False):
    for i in range(layers):
      add(f"{name}.trunk.{i}", hidden, hidden if i else n_in, lead)
      for kind in ("weight", "bias") if norm else ():
        result[f"{name}.trunk.{i}.norm.{kind}"] = (*lead, hidden)
    add(f"{name}.trunk.{layers}", n_out, hidden, lead)

  obs, act, d, goal, h = o.obs_dim, o.act_dim, o.d, len(o.columns), o.b_hidden
  members = (o.members,) if o.members > 1 else ()
  lead = members if o.ensemble == "parallel" else ()  # of the branches
  add_pre(o.F + ".sa", obs + act, o.hidden, o.feat, lead)
  add_pre(o.F + ".sz", obs + d, o.hidden, o.feat, lead)
  add_trunk(o.F, 2 * o.feat, o.hidden, o.f_layers, d, members, o.f_norm)
  add_pre("pi.s", obs, o.hidden, o.feat)
  add_pre("pi.sz", obs + d, o.hidden, o.feat)
  add_trunk("pi", 2 * o.feat, o.hidden, 4, act, norm=o.pi_norm)
  add_pre(o.B + ".s", goal, h, h)
  add_pre(o.B + ".sz", goal + (d if o.K > 1 else 0), h, h)
  add_trunk(o.B, 2 * h, h, 2, d)
  if o.mbar:
    add_pre("U.s", obs, o.hidden, o.feat)
    add_pre("U.sz", obs + d, o.hidden, o.feat)
    add_trunk("U", 2 * o.feat, o.hidden, 3, o.mbar, norm=o.f_norm)
    add_pre("V.s", goal, h, h)
    add_pre("V.sz", goal, h, h)
    add_trunk("V", 2 * h, h, 2, o.mbar)
  # phi has no target network: psi's targets use the online phi
  targets = {name.replace(".", "_target.", 1): shape for name, shape in result.items()
             if not name.startswith(("pi.", "phi."))}
  return {**result, **targets}


def initial(o, seed=0):
  """Orthogonal weights, zero biases, unit gains; targets equal their networks."""
  generator_state = torch.get_rng_state()
  torch.manual_seed(seed)
  p = {}
  for name, shape in shapes(o).items():
    if "_target." in name:
      p[name] = p[name.replace("_target", "")].clone()
    elif name.endswith(".bias"):
      p[name] = torch.zeros(shape)
    elif ".norm." in name:
      p[name] = torch.ones(shape)
    else:
      p[name] = torch.empty(shape)
      for weight in (p[name] if len(shape) == 3 else [p[name]]):
        torch.nn.init.orthogonal_(weight)
  torch.set_rng_state(generator_state)
  return p


def whiten(phi):
  """The z for which phi is the goal, up to its norm: (E phi phi^T)^-1 phi, over the rows of phi."""
  return phi @ torch.linalg.pinv(phi.T @ phi / len(phi), hermitian=True)


# ---------------------------------- losses -------------------------------------------------------


def sample(mean, noise, o):
  """An action around the policy's mean; its gradient passes the last clip straight through."""
  action = mean + (o.sigma * noise).clamp(-o.noise_clip, o.noise_clip)
  return action.clamp(-1, 1).detach() + (action - action.detach())


def over_members(values, how):
  """Reduce the leading member axis by its mean or its minimum."""
  return values.mean(0) if how == "mean" else values.min(0).values


def groups(x, I):
  """[.., N, d] -> [.., I, J, d]: losses use only pairs within a group."""
  return x.reshape(*x.shape[:-2], I, x.shape[-2] // I, x.shape[-1])


def pairs(x, y):
  """All products x_j . y_k of a group, [.., I, J, J]."""
  return x @ y.transpose(-1, -2)


def off_diagonal_mean(x):
  """Mean over j != k (and the groups) of [.., I, J, J]."""
  I, J = x.shape[-3:-1]
  diagonal = torch.eye(J, dtype=torch.bool, device=x.device)
  return x.masked_fill(diagonal, 0).sum((-1, -2, -3)) / (I * J * (J - 1))


def diagonal_mean(x):
  return torch.diagonal(x, dim1=-2, dim2=-1).mean((-1, -2))


def ortho_loss(B):
  """B [I, J, d]"""
  products = pairs(B, B)
  return 0.5 * off_diagonal_mean(products ** 2) - diagonal_mean(products)


def temperature(A, ess):
  """The beta for which softmax(A / beta) has an effective sample size of ess times the rows."""
  low, high = 1e-6, 1e6
  for _ in range(200):
    beta = math.sqrt(low * high)
    share = 1 / (torch.softmax(A.double() / beta, 0) ** 2).sum() / len(A)
    low, high = (beta, high) if share < ess else (low, beta)
  return beta


def advantage_weights(A, o):
  """Weights of the regression, [N], summing to one."""
  if o.ess:
    w = torch.softmax(A / temperature(A, o.ess), 0)
  else:
    w = torch.softmax((A / o.beta).clamp(max=o.clip), 0)
  if o.weights == "iwis":
    w = w / (1 - w).clamp(min=1e-6)
    w = w / w.sum()
  return w


def actor_loss(p, fixed, o, Q, s, a, z, noise):
  """TD3 or advantage weighting. Q: F(s, a, z).z [M, N]; F's parameters get no gradient."""
  mean = net_pi(p, o, s, z)
  a_pi = sample(mean, noise, o)
  if o.algo not in ADVANTAGE_WEIGHTED:
    return -(net_F(fixed, o, s, a_pi, z, o.F) * z).sum(-1).min(0).values.mean()
  with torch.no_grad():
    Q_pi = (net_F(fixed, o, s, a_pi, z, o.F) * z).sum(-1)
    A = (Q.sum(0) if o.adv == "sum" else Q.mean(0)) - over_members(Q_pi, o.adv_base)
    w = advantage_weights(A, o)
  return (w * ((a - mean) ** 2).sum(-1)).sum() / (2 * o.sigma ** 2)


def losses(p, o, s, a, s2, discount, z, noise_next, noise_pi):
  """All losses of one step at the same parameters: (their sum to minimize, {name: loss})."""
  fixed = {name: value.detach() for name, value in p.items()}
  z = project(z)
  gamma = o.gamma * discount
  a2 = sample(net_pi(fixed, o, s2, z), noise_next, o)
  F = net_F(p, o, s, a, z, o.F)
  F_next = net_F(fixed, o, s2, a2, z, o.F + "_target")
  B = net_B(p, o, s2, z, o.B)
  I = o.z_groups if o.auto_regressive else 1
  ortho = ortho_loss(groups(B, I))

  if o.laplacian:
    lap = ((net_B(p, o, s, z, o.B) - B) ** 2).sum(-1).mean()
    features = o.ortho * ortho + lap
    target = (B.detach() * z).sum(-1) + gamma * over_members((F_next * z).sum(-1), o.target)
    critic = 0.5 * (((F * z).sum(-1) - target) ** 2).mean(1).sum()
    named = {"psi": critic, "lap": lap, "ortho": ortho}
  else:
    products = pairs(groups(F, I), groups(B, I))
    B_next = groups(net_B(fixed, o, s2, z, "B_target"), I)
    target = over_members(pairs(groups(F_next, I), B_next), o.target)
    if o.mbar:
      products = products + pairs(groups(net_U(p, o, s, z), I), groups(net_V(p, o, s2), I))
      target = target + pairs(groups(net_U(fixed, o, s2, z, "U_target"), I),
                              groups(net_V(fixed, o, s2, "V_target"), I))
    error = products - groups(gamma[:, None], I) * target
    critic = (0.5 * off_diagonal_mean(error ** 2) - diagonal_mean(products)).sum()
    features = o.ortho * ortho
    named = {"fb": critic, "ortho": ortho}

  named["actor"] = actor_loss(p, fixed, o, (F.detach() * z).sum(-1), s, a, z, noise_pi)
  return critic + features + named["actor"], named


# ---------------------------------- the agent ----------------------------------------------------


class Agent:
  """bfm.Agent's networks, update and prompts, from a dict of parameters (arrays or tensors)."""

  def __init__(self, tensors, options, dtype=torch.float32):
    self.o, self.dtype = options, dtype
    self.p = {name: self.tensor(value) for name, value in tensors.items()}
    self.learned = [name for name in self.p if "_target." not in name]
    for name in self.learned:
      self.p[name].requires_grad_()
    rate = lambda name: name.startswith(options.B + ".") and options.b_lr or options.lr
    self.adam = torch.optim.Adam([{"params": [self.p[name]], "lr": rate(name)}
                                  for name in self.learned], betas=(0.9, 0.999), eps=1e-8)

  def tensor(self, x):
    return torch.as_tensor(x).detach().clone().to(self.dtype)

  def tensors(self):
    return {name: value.detach().numpy().copy() for name, value in self.p.items()}

  def update(self, obs, act, next_obs, discount=None, z=None, noise_next=None, noise_pi=None):
    discount = torch.ones(len(obs)) if discount is None else discount
    batch = [self.tensor(x) for x in (obs, act, next_obs, discount, z, noise_next, noise_pi)]
    total, named = losses(self.p, self.o, *batch)
    self.adam.zero_grad()
    total.backward()
    self.adam.step()
    with torch.no_grad():
      for name in self.p:
        if "_target." in name:
          self.p[name].lerp_(self.p[name.replace("_target", "")], self.o.polyak)
    return {name: float(loss.detach()) for name, loss in named.items()}

  @torch.no_grad()
  def F(self, obs, act, z):
    return net_F(self.p, self.o, *map(self.tensor, (obs, act, z)), self.o.F).numpy()

  @torch.no_grad()
  def B(self, obs, z=None):
    z = None if z is None else self.tensor(z)
    return net_B(self.p, self.o, self.tensor(obs), z, self.o.B).numpy()

  @torch.no_grad()
  def pi(self, obs, z):
    return net_pi(self.p, self.o, self.tensor(obs), self.tensor(z)).numpy()

  @torch.no_grad()
  def encode(self, obs, weights):
    """z = sum_n w_n B(s_n, z), block by block, because no block depends on later ones."""
    obs, weights = self.tensor(obs), self.tensor(weights)
    z = torch.zeros(1, self.o.d, dtype=self.dtype)
    for a, b in bounds(self.o.d, self.o.K):
      B = net_B(self.p, self.o, obs, z.expand(len(obs), -1), self.o.B)
      z[0, a:b] = weights @ B[:, a:b]
    return z[0].numpy()

  @torch.no_grad()
  def prompt_reward(self, obs, reward, softmax=0.0):
    """z of a reward at states of the data; softmax > 0: softmax weights at this temperature."""
    reward = self.tensor(reward)
    weights = torch.softmax(reward / softmax, 0) if softmax else reward / len(reward)
    z = self.encode(obs, weights)
    if self.o.laplacian:
      phi = net_B(self.p, self.o, self.tensor(obs), None, "phi")
      z = torch.linalg.solve(phi.T @ phi / len(phi), self.tensor(z)).numpy()
    return z

  def prompt_states(self, obs):
    """z of a goal (one row) or of a demonstration."""
    return self.encode(obs, torch.full((len(obs),), 1 / len(obs)))
