// The forward-backward loss and the orthonormality of B (lines 10–13 of Algorithm 2).
//
//   L_FB = ½·mean_{j≠k} (F_m(s_j,a_j,z)·B(s'_k,z) − γ·1/M Σ_m F⁻_m(s'_j,a'_j,z)·B⁻(s'_k,z))²
//          − mean_j F_m(s_j,a_j,z)·B(s'_j,z),   summed over m
//   L_ortho = ½·mean_{j≠k} (B_j·B_k)² − mean_j B_j·B_j
//
// Pairs (j, k) are taken within I groups of J transitions of equal z. All of this is float32.

#include "agent/agent.h"

// an operand of the products: [rows, width] for every `share` consecutive groups
typedef struct {
  float *at;
  int64_t rows;
  int share;
} Rows;

// matrix_i (+)= x_i·y_iᵀ for the rows of group i: [J, width] to [J, J]
static void outer(bfm_agent *a, float *matrix, int members, Rows x, Rows y, int64_t width,
                  Epilogue epilogue) {
  for (int64_t i = 0; i < a->I; i++) {
    a->ops->gemm(a->ops, &(Gemm){.m = a->J, .n = a->J, .k = width, .transpose_b = 1, .type = F32,
                                 .type_c = F32, .epilogue = epilogue, .a = x.at + i * a->J * width,
                                 .lda = width, .stride_a = x.rows * width, .share_a = x.share,
                                 .b = y.at + i * a->J * width, .ldb = width,
                                 .stride_b = y.rows * width, .share_b = y.share,
                                 .c = matrix + i * a->J * a->J, .ldc = a->J,
                                 .stride_c = a->I * a->J * a->J, .batch = (int64_t)a->R * members});
  }
}

// out_i (+)= matrix_i·y_i, or matrix_iᵀ·y_i; summed over the members if out.share is M
static void inner(bfm_agent *a, Rows out, const float *matrix, int members, int transpose, Rows y,
                  int64_t width, Epilogue epilogue) {
  for (int64_t i = 0; i < a->I; i++) {
    a->ops->gemm(a->ops, &(Gemm){.m = a->J, .n = width, .k = a->J, .transpose_a = transpose,
                                 .type = F32, .type_c = F32, .epilogue = epilogue,
                                 .a = matrix + i * a->J * a->J, .lda = a->J,
                                 .stride_a = a->I * a->J * a->J, .b = y.at + i * a->J * width,
                                 .ldb = width, .stride_b = y.rows * width, .share_b = y.share,
                                 .c = out.at + i * a->J * width, .ldc = width,
                                 .stride_c = out.rows * width, .share_c = out.share,
                                 .batch = (int64_t)a->R * members});
  }
}

// a network's output as an operand
static Rows output(const Tape *tape, int share) { return (Rows){tape->out, tape->rows, share}; }

// needs F(s, a, z) and B; with mbar also U and V
void fb_products(bfm_agent *a) {
  int M = a->M;
  outer(a, a->m, M, output(&a->tape[NET_F], 1), (Rows){a->b, a->N, M}, a->d, EPILOGUE_NONE);
  if (!a->config.mbar) return;
  outer(a, a->m, M, output(&a->tape[NET_U], M), output(&a->tape[NET_V], M), a->config.mbar,
        EPILOGUE_ADD);
}

static int target_members(const bfm_agent *a) { return a->config.target == TARGET_MIN ? a->M : 1; }

// F⁻(s',a',z)·B⁻(s',z): of the mean over the members, or (target min) of each member
void fb_target(bfm_agent *a) {
  Ops *ops = a->ops;
  int members = target_members(a);
  Rows f = output(&a->tape_target[NET_F], 1);
  if (members == 1) {
    ops->mean_members(ops, &(MeanMembers){.out = a->f_mean, .a = f.at, .replicas = a->R,
                                          .members = a->M, .count = a->N * a->d});
    f.at = a->f_mean;
  }
  outer(a, a->t, members, f, (Rows){a->b_target, a->N, members}, a->d, EPILOGUE_NONE);
  if (!a->config.mbar) return;
  outer(a, a->t, members, output(&a->tape_target[NET_U], members),
        output(&a->tape_target[NET_V], members), a->config.mbar, EPILOGUE_ADD);
}

// needs the target; writes df
void fb_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  fb_products(a);
  ops->fb_loss(ops, &(FbLoss){.m = a->m, .t = a->t, .discount = a->discount,
                              .gamma = (float)a->config.gamma, .loss = a->loss,
                              .loss_stride = a->loss_count, .scratch = a->partial, .replicas = a->R,
                              .members = a->M, .t_members = target_members(a), .groups = a->I,
                              .rows = a->J});
  inner(a, (Rows){a->df, a->N, 1}, a->m, a->M, 0, (Rows){a->b, a->N, a->M}, a->d, EPILOGUE_NONE);
}

// after both losses: adds the FB loss's gradient to db, which has that of orthonormality; with mbar
// writes du and dv
void fb_features_grad(bfm_agent *a) {
  int M = a->M;
  int64_t rank = a->config.mbar;
  Rows db = {a->db, a->N, M}, du = {a->du, a->N, M}, dv = {a->dv, a->N, M};
  inner(a, db, a->m, M, 1, output(&a->tape[NET_F], 1), a->d, EPILOGUE_ADD);
  if (!rank) return;
  inner(a, du, a->m, M, 0, output(&a->tape[NET_V], M), rank, EPILOGUE_NONE);
  inner(a, dv, a->m, M, 1, output(&a->tape[NET_U], M), rank, EPILOGUE_NONE);
}

// needs B only; writes λ times its gradient to db (lap: adds it)
void ortho_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  int64_t rows = a->laplacian ? 2 * a->N : a->N;  // lap: at phi(s'), the second half
  Rows b = {a->b + (rows - a->N) * a->d, rows, 1}, db = {a->db + (rows - a->N) * a->d, rows, 1};
  outer(a, a->c, 1, b, b, a->d, EPILOGUE_NONE);
  ops->ortho_loss(ops, &(OrthoLoss){.c = a->c, .scale = (float)a->config.ortho,
                                    .loss = a->loss + a->loss_count - 2,
                                    .loss_stride = a->loss_count,
                                    .scratch = a->partial + a->R * a->M * a->N, .replicas = a->R,
                                    .groups = a->I, .rows = a->J});
  inner(a, db, a->c, 1, 0, b, a->d, a->laplacian ? EPILOGUE_ADD : EPILOGUE_NONE);
}
