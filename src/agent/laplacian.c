// Laplacian features and their successor features, for lap and lap-aw.
//
//   L_lap = mean ‖φ(s) − φ(s')‖² (+ λ·orthonormality at s')
//   L_psi = Σ_m ½·mean (ψ_m(s,a,z)·z − φ(s')·z − γ·mean_m ψ⁻_m(s',a',z)·z)²

#include "agent/agent.h"

void laplacian_loss(bfm_agent *a) {
  a->ops->lap_loss(a->ops, &(LapLoss){.dphi = a->db, .phi = a->b, .loss = a->loss + 1,
                                      .loss_stride = a->loss_count, .scratch = a->partial,
                                      .replicas = a->R, .rows = a->N, .d = a->d});
}

// needs q = ψ(s,a,z)·z; writes df
void psi_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  ops->row_dot(ops, &(RowDot){.out = a->q_target, .a = a->tape_target[NET_F].out, .z = a->z,
                              .replicas = a->R, .members = a->M, .rows = a->N, .row_stride = a->N,
                              .d = a->d});
  ops->row_dot(ops, &(RowDot){.out = a->phi_z, .a = a->b + a->N * a->d, .z = a->z, .replicas = a->R,
                              .members = 1, .rows = a->N, .row_stride = 2 * a->N, .d = a->d});
  ops->psi_loss(ops, &(PsiLoss){.dpsi = a->df, .q = a->q, .q_target = a->q_target,
                                .phi_z = a->phi_z, .z = a->z, .discount = a->discount,
                                .gamma = (float)a->config.gamma, .loss = a->loss,
                                .loss_stride = a->loss_count, .replicas = a->R, .members = a->M,
                                .rows = a->N, .q_stride = 2 * a->N, .dpsi_stride = a->N, .d = a->d,
                                .min_target = a->config.target == TARGET_MIN});
}
