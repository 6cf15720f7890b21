"""The reference itself: its formulas against sums written out term by term."""
import math

import numpy as np
import pytest
import reference
import torch
from reference import Options, bounds, initial

ALGORITHMS = ["fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw"]
N, OBS, ACT = 12, 5, 3


def make(algo="fb-aware", seed=0, **options):
  o = Options(OBS, ACT, algo=algo, batch=N, **{"d": 8, "blocks": 4, "hidden": 16, "feat": 8,
                                               "b_hidden": 16, **options})
  agent = reference.Agent(initial(o, seed), o, torch.float64)
  for name, target in agent.p.items():
    if "_target." in name:
      target += 0.05 * torch.randn(target.shape, generator=torch.Generator().manual_seed(7))
  return agent


def transitions(o, seed=0):
  g = torch.Generator().manual_seed(seed)
  draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
  I = o.z_groups
  return [draw(N, OBS), draw(N, ACT).clamp(-1, 1), draw(N, OBS), (draw(N) > -1).double(),
          draw(I, o.d).repeat_interleave(N // I, 0), draw(N, ACT), draw(N, ACT)]


@pytest.mark.parametrize("target", ["mean", "min"])
@pytest.mark.parametrize("algo, I, mbar", [("fb", 0, 0), ("fb-aw", 3, 0), ("fb-aware", 0, 0),
                                           ("fb-aware", 3, 0), ("fb-are", 2, 4)])
def test_fb_and_ortho_losses_term_by_term(algo, I, mbar, target):
  agent = make(algo, z_groups=I, mbar=mbar, target=target)
  o, p = agent.o, {name: x.detach() for name, x in agent.p.items()}
  s, a, s2, discount, z, noise_next, noise_pi = batch = transitions(o)
  _, named = reference.losses(p, o, *batch)

  zn = z / z.norm(dim=1, keepdim=True) * math.sqrt(o.d)
  a2 = (reference.net_pi(p, o, s2, zn) + (0.2 * noise_next).clamp(-0.3, 0.3)).clamp(-1, 1)
  F, F2 = reference.net_F(p, o, s, a, zn), reference.net_F(p, o, s2, a2, zn, "F_target")
  B, B2 = reference.net_B(p, o, s2, zn), reference.net_B(p, o, s2, zn, "B_target")
  bar = lambda j, k: 0.0
  bar2 = bar
  if mbar:
    U, V = reference.net_U(p, o, s, zn), reference.net_V(p, o, s2)
    U2, V2 = reference.net_U(p, o, s2, zn, "U_target"), reference.net_V(p, o, s2, "V_target")
    bar, bar2 = lambda j, k: float(U[j] @ V[k]), lambda j, k: float(U2[j] @ V2[k])

  J = N // o.z_groups if o.auto_regressive else N
  count = sum(j // J == k // J and j != k for j in range(N) for k in range(N))
  fb = ortho = 0.0
  for j in range(N):
    ortho -= float(B[j] @ B[j]) / N
    fb -= sum(float(F[m, j] @ B[j]) + bar(j, j) for m in range(2)) / N
    for k in range(N):
      if j == k or j // J != k // J:
        continue
      ortho += 0.5 * float(B[j] @ B[k]) ** 2 / count
      both = [float(F2[m, j] @ B2[k]) for m in range(2)]
      future = (min(both) if target == "min" else sum(both) / 2) + bar2(j, k)
      for m in range(2):
        error = float(F[m, j] @ B[k]) + bar(j, k) - 0.98 * float(discount[j]) * future
        fb += 0.5 * error ** 2 / count
  assert float(named["fb"]) == pytest.approx(fb, rel=1e-12)
  assert float(named["ortho"]) == pytest.approx(ortho, rel=1e-12)


@pytest.mark.parametrize("weights, adv, adv_base, clip", [
    ("iwis", "mean", "min", math.inf), ("wis", "mean", "min", math.inf),
    ("iwis", "sum", "min", math.inf), ("iwis", "mean", "mean", 0.01)])
@pytest.mark.parametrize("algo", ["fb-aw", "fb-aware", "lap-aw"])
def test_advantage_weighted_actor_term_by_term(algo, weights, adv, adv_base, clip):
  agent = make(algo, weights=weights, adv=adv, adv_base=adv_base, beta=0.5, clip=clip)
  o, p = agent.o, {name: x.detach() for name, x in agent.p.items()}
  s, a, s2, discount, z, noise_next, noise_pi = batch = transitions(o)
  _, named = reference.losses(p, o, *batch)

  zn = reference.project(z)
  mean = reference.net_pi(p, o, s, zn)
  a_pi = (mean + (0.2 * noise_pi).clamp(-0.3, 0.3)).clamp(-1, 1)
  F, F_pi = (reference.net_F(p, o, s, x, zn, o.F) for x in (a, a_pi))
  e = []
  for i in range(N):
    Q = [float(F[m, i] @ zn[i]) for m in range(2)]
    Q_pi = [float(F_pi[m, i] @ zn[i]) for m in range(2)]
    A = sum(Q) / (1 if adv == "sum" else 2) - (min(Q_pi) if adv_base == "min" else sum(Q_pi) / 2)
    e.append(math.exp(min(A / 0.5, clip)))
  w = [x / sum(e) for x in e]
  if weights == "iwis":
    w = [w[i] / sum(w[j] for j in range(N) if j != i) for i in range(N)]
    w = [x / sum(w) for x in w]
  loss = sum(w[i] * float(((a[i] - mean[i]) ** 2).sum()) / (2 * 0.2 ** 2) for i in range(N))
  assert float(named["actor"]) == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("target", ["mean", "min"])
def test_laplacian_losses_term_by_term(target):
  agent = make("lap", target=target)
  o, p = agent.o, {name: x.detach() for name, x in agent.p.items()}
  s, a, s2, discount, z, noise_next, noise_pi = batch = transitions(o)
  _, named = reference.losses(p, o, *batch)

  zn = reference.project(z)
  a2 = (reference.net_pi(p, o, s2, zn) + (0.2 * noise_next).clamp(-0.3, 0.3)).clamp(-1, 1)
  psi = reference.net_F(p, o, s, a, zn, "psi")
  psi2 = reference.net_F(p, o, s2, a2, zn, "psi_target")
  phi, phi2 = reference.net_B(p, o, s, name="phi"), reference.net_B(p, o, s2, name="phi")
  lap = loss = 0.0
  for i in range(N):
    lap += float(((phi[i] - phi2[i]) ** 2).sum()) / N
    both = [float(psi2[m, i] @ zn[i]) for m in range(2)]
    future = min(both) if target == "min" else sum(both) / 2
    goal = float(phi2[i] @ zn[i]) + 0.98 * float(discount[i]) * future
    loss += sum(0.5 * (float(psi[m, i] @ zn[i]) - goal) ** 2 for m in range(2)) / N
  assert float(named["lap"]) == pytest.approx(lap, rel=1e-12)
  assert float(named["psi"]) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_each_loss_moves_its_own_networks(algo):
  agent = make(algo)
  _, named = reference.losses(agent.p, agent.o, *transitions(agent.o))
  F, B = agent.o.F, agent.o.B
  moves = {"fb": {F, B}, "ortho": {B}, "lap": {B}, "psi": {F}, "actor": {"pi"}}
  for loss, value in named.items():
    grads = torch.autograd.grad(value, [agent.p[n] for n in agent.learned], allow_unused=True,
                                retain_graph=True)
    moved = {n.split(".")[0] for n, g in zip(agent.learned, grads)
             if g is not None and bool((g != 0).any())}
    assert moved == moves[loss], loss


def test_the_actors_gradient_passes_the_last_clip_but_not_the_noise():
  mean = torch.tensor([0.95, 0.0], dtype=torch.float64, requires_grad=True)
  action = reference.sample(mean, torch.tensor([9.0, -9.0]), Options(OBS, ACT))
  assert action.tolist() == pytest.approx([1.0, -0.3])
  action.sum().backward()
  assert mean.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("d, K", [(8, 1), (8, 2), (16, 4), (16, 8), (13, 4), (19, 8)])
def test_later_blocks_of_z_never_reach_earlier_blocks_of_B(d, K):
  agent = make("fb-aware", d=d, blocks=K, b_hidden=44)
  g = torch.Generator().manual_seed(3)
  s, z = torch.randn(9, OBS, generator=g), torch.randn(9, d, generator=g)
  B = agent.B(s, z)
  for i, (a, b) in enumerate(bounds(d, K)):
    other = z.clone()
    other[:, a:] = torch.randn(9, d - a, generator=g)
    changed = agent.B(s, other)
    assert np.array_equal(B[:, :b], changed[:, :b])
    assert i == K - 1 or not np.array_equal(B[:, b:], changed[:, b:])


def test_blocks_are_contiguous_and_even():
  assert bounds(8, 4) == [(0, 2), (2, 4), (4, 6), (6, 8)]
  for n, K in [(13, 4), (256, 3), (50, 8)]:
    sizes = [b - a for a, b in bounds(n, K)]
    assert sum(sizes) == n and max(sizes) - min(sizes) <= 1


def test_residual_normalization_keeps_only_the_direction():
  z = torch.randn(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
  y = reference.residual_normalization(z, 3)
  assert torch.allclose(y, reference.residual_normalization(5 * z, 3))
  assert torch.allclose(y[:, :4].norm(dim=1), torch.full((4,), 2.0, dtype=torch.float64))
  assert torch.allclose(y[:, 8:], z[:, 8:] * math.sqrt(12) / z.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("K", [1, 2, 4])
def test_a_reward_prompt_is_a_fixed_point(K):
  agent = make("fb-aware", blocks=K)
  g = torch.Generator().manual_seed(5)
  s, r = torch.randn(200, OBS, generator=g), torch.randn(200, generator=g)
  z = agent.prompt_reward(s, r)
  B = agent.B(s, np.tile(z, (200, 1)))
  assert np.allclose((r.numpy()[:, None] * B).mean(0), z, atol=1e-12)
