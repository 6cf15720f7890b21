// Losses and their gradients, on a GPU against the CPU.

#include "cuda_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/rng.h"
#include "ops/cpu.h"

static void fb(int64_t R, int64_t M, int64_t T_, int64_t I, int64_t J) {
  Buffer *m = f32(R * M * I * J * J), *t = f32(R * T_ * I * J * J), *discount = f32(R * I * J);
  Buffer *loss = f32(R * 3), *scratch = f32(R * M * I * J);
  BOTH(fb_loss, FbLoss, .m = AT(m), .t = AT(t), .discount = AT(discount), .gamma = 0.98f,
       .loss = AT(loss), .loss_stride = 3, .scratch = AT(scratch), .replicas = R, .members = M,
       .t_members = T_, .groups = I, .rows = J);
  check("fb_loss gradient", m, 2e-5);
  check("fb_loss", loss, 2e-5);
  Buffer *c = f32(R * I * J * J), *loss2 = f32(R * 3);
  BOTH(ortho_loss, OrthoLoss, .c = AT(c), .scale = 100, .loss = AT(loss2), .loss_stride = 3,
       .scratch = AT(scratch), .replicas = R, .groups = I, .rows = J);
  check("ortho_loss gradient", c, 2e-5);
  check("ortho_loss", loss2, 2e-5);
  forget_buffers();
}

void test_fb_losses(void **state) {
  (void)state;
  fb(1, 2, 1, 1, 1024);
  fb(2, 2, 2, 3, 64);
  fb(3, 1, 1, 2, 37);
  fb(1, 3, 3, 1, 2);
}

void test_actor_losses(void **state) {
  (void)state;
  int64_t R = 2, M = 2, N = 300, act = 7, d = 50;
  Buffer *q = f32(R * M * N), *q_pi = f32(R * M * N), *w = f32(R * N), *advantage = f32(R * N);
  for (int options = 0; options < 8; options++) {
    BOTH(aw_weights, AwWeights, .w = AT(w), .q = AT(q), .q_pi = AT(q_pi),
         .advantage = options ? AT(advantage) : NULL, .replicas = R, .members = M, .rows = N - 1,
         .q_stride = N, .beta = 0.3f, .clip = options & 1 ? 4.6f : INFINITY,
         .sum_members = options & 1, .mean_base = options >> 1 & 1, .iwis = options >> 2 & 1);
    check("aw_weights", w, 2e-5);
    check("aw_weights advantage", advantage, 2e-5);
    BOTH(aw_weights, AwWeights, .w = AT(w), .q = AT(q), .q_pi = AT(q_pi), .replicas = R,
         .members = M, .rows = N - 1, .q_stride = N, .ess = 0.01f + 0.1f * options,
         .iwis = options & 1);
    check("aw_weights of an effective sample size", w, 2e-4);
  }
  Buffer *dx = f32(R * N * act), *a = f32(R * N * act), *loss = f32(R * 4);
  Buffer *mu = normals(R * 2 * N * act, F32, 0.3f), *z = f32(R * N * d);
  BOTH(aw_loss, AwLoss, .dx = AT(dx), .w = AT(w), .act = AT(a), .mu = AT(mu), .loss = AT(loss),
       .loss_stride = 4, .replicas = R, .rows = N, .act_dim = act, .mu_stride = 2 * N,
       .sigma = 0.2f);
  check("aw_loss gradient", dx, 2e-5);
  check("aw_loss", loss, 2e-5);
  Buffer *df = f32(R * M * 2 * N * d), *dxa = activations(R * M * 2 * N * 32);
  BOTH(td3_loss, Td3Loss, .df = AT(df), .q_pi = AT(q_pi), .z = AT(z), .loss = AT(loss),
       .loss_stride = 4, .replicas = R, .members = M, .rows = N, .q_stride = N, .df_stride = 2 * N,
       .d = d);
  check("td3_loss gradient", df, 2e-5);
  check("td3_loss", loss, 2e-5);
  BOTH(td3_action_grad, Td3ActionGrad, .dx = AT(dx), .dxa = AT(dxa), .mu = AT(mu), .replicas = R,
       .copies = M, .rows = N, .row_stride = 2 * N, .ld = 32, .obs_dim = 24, .act_dim = act,
       .mu_stride = 2 * N);
  check("td3_action_grad", dx, 2e-5);
  Buffer *out = f32(R * M * N);
  BOTH(row_dot, RowDot, .out = AT(out), .a = AT(df), .z = AT(z), .replicas = R, .members = M,
       .rows = N, .row_stride = 2 * N, .d = d);
  check("row_dot", out, 2e-5);
  BOTH(row_dot, RowDot, .out = AT(out), .a = AT(df), .z = AT(z), .replicas = R, .members = M,
       .rows = N, .row_stride = 2 * N, .d = d, .z_rows = 7);
  check("row_dot with repeated z", out, 2e-5);
  Buffer *mean = f32(R * N);
  BOTH(mean_members, MeanMembers, .out = AT(mean), .a = AT(q), .replicas = R, .members = M,
       .count = N);
  check("mean_members", mean, 2e-5);
  forget_buffers();
}

void test_laplacian_losses(void **state) {
  (void)state;
  int64_t R = 2, M = 3, N = 203, d = 50;
  Buffer *phi = f32(R * 2 * N * d), *dphi = f32(R * 2 * N * d), *loss = f32(R * 4);
  Buffer *scratch = f32(R * N);
  BOTH(lap_loss, LapLoss, .dphi = AT(dphi), .phi = AT(phi), .loss = AT(loss), .loss_stride = 4,
       .scratch = AT(scratch), .replicas = R, .rows = N, .d = d);
  check("lap_loss gradient", dphi, 2e-5);
  check("lap_loss", loss, 2e-5);
  Buffer *dpsi = f32(R * M * 2 * N * d), *q = f32(R * M * 2 * N), *q_target = f32(R * M * N);
  Buffer *phi_z = f32(R * N), *z = f32(R * N * d), *discount = f32(R * N);
  for (int min = 0; min < 2; min++) {
    BOTH(psi_loss, PsiLoss, .dpsi = AT(dpsi), .q = AT(q), .q_target = AT(q_target),
         .phi_z = AT(phi_z), .z = AT(z), .discount = AT(discount), .gamma = 0.9f, .loss = AT(loss),
         .loss_stride = 4, .replicas = R, .members = M, .rows = N, .q_stride = 2 * N,
         .dpsi_stride = 2 * N, .d = d, .min_target = min);
    check("psi_loss gradient", dpsi, 2e-5);
    check("psi_loss", loss, 2e-5);
  }
  forget_buffers();
}
