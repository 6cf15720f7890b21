// The forward-backward loss and the orthonormality of B (lines 10–13 of Algorithm 2).
//
//   L_FB = ½·mean_{j≠k} (F_m(s_j,a_j,z)·B(s'_k,z) − γ·1/M Σ_m F⁻_m(s'_j,a'_j,z)·B⁻(s'_k,z))²
//          − mean_j F_m(s_j,a_j,z)·B(s'_j,z),   summed over m
//   L_ortho = ½·mean_{j≠k} (B_j·B_k)² − mean_j B_j·B_j
//
// Pairs (j, k) are taken within I groups of J transitions of equal z. All of this is float32.

#include "agents/agent.h"

// matrix_i[g] (+)= x_i[g / share_x]·y_i[g / share_y]ᵀ for the rows of group i: [J, width] to [J, J]
static void outer(bfm_agent *a, float *matrix, int members, const float *x, int64_t x_rows,
                  int share_x, const float *y, int share_y, int64_t width, Epilogue epilogue) {
  for (int64_t i = 0; i < a->I; i++) {
    a->ops->gemm(a->ops,
                 &(Gemm){.m = a->J, .n = a->J, .k = width, .transpose_b = 1, .type = F32,
                         .type_c = F32, .epilogue = epilogue, .a = x + i * a->J * width,
                         .lda = width, .stride_a = x_rows * width, .share_a = share_x,
                         .b = y + i * a->J * width, .ldb = width, .stride_b = a->N * width,
                         .share_b = share_y, .c = matrix + i * a->J * a->J, .ldc = a->J,
                         .stride_c = a->I * a->J * a->J, .batch = (int64_t)a->R * members});
  }
}

// out_i = matrix_i·y_i (or its transpose), summed over members when share_out = M
static void inner(bfm_agent *a, float *out, int share_out, const float *matrix, int members,
                  int transpose, const float *y, int64_t y_rows, int share_y, int64_t width,
                  Epilogue epilogue) {
  for (int64_t i = 0; i < a->I; i++) {
    a->ops->gemm(a->ops,
                 &(Gemm){.m = a->J, .n = width, .k = a->J, .transpose_a = transpose, .type = F32,
                         .type_c = F32, .epilogue = epilogue, .a = matrix + i * a->J * a->J,
                         .lda = a->J, .stride_a = a->I * a->J * a->J,
                         .b = y + i * a->J * width, .ldb = width, .stride_b = y_rows * width,
                         .share_b = share_y, .c = out + i * a->J * width, .ldc = width,
                         .stride_c = a->N * width, .share_c = share_out,
                         .batch = (int64_t)a->R * members});
  }
}

// needs F(s,a,z), B (and U, V)
void fb_products(bfm_agent *a) {
  int M = a->M;
  outer(a, a->m, M, a->tape[NET_F].out, a->tape[NET_F].rows, 1, a->b, M, a->d, EPILOGUE_NONE);
  if (!a->config.mbar) return;
  outer(a, a->m, M, a->tape[NET_U].out, a->N, M, a->tape[NET_V].out, M, a->config.mbar,
        EPILOGUE_ADD);
}

static int target_members(const bfm_agent *a) {
  return a->config.target == TARGET_MIN ? a->M : 1;
}

// F⁻(s',a',z)·B⁻(s',z), of the members' mean or of each
void fb_target(bfm_agent *a) {
  Ops *ops = a->ops;
  int members = target_members(a);
  const float *f = a->tape_target[NET_F].out;
  if (members == 1) {
    ops->mean_members(ops, &(MeanMembers){.out = a->f_mean, .a = f, .replicas = a->R,
                                          .members = a->M, .count = a->N * a->d});
    f = a->f_mean;
  }
  outer(a, a->t, members, f, a->N, 1, a->b_target, members, a->d, EPILOGUE_NONE);
  if (!a->config.mbar) return;
  outer(a, a->t, members, a->tape_target[NET_U].out, a->N, members, a->tape_target[NET_V].out,
        members, a->config.mbar, EPILOGUE_ADD);
}

// needs the target too; leaves df
void fb_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  fb_products(a);
  ops->fb_loss(ops, &(FbLoss){.m = a->m, .t = a->t, .discount = a->discount,
                              .gamma = (float)a->config.gamma, .loss = a->loss,
                              .loss_stride = a->loss_count, .scratch = a->partial, .replicas = a->R,
                              .members = a->M, .t_members = target_members(a), .groups = a->I,
                              .rows = a->J});
  inner(a, a->df, 1, a->m, a->M, 0, a->b, a->N, a->M, a->d, EPILOGUE_NONE);
}

// after both losses: adds to the db of orthonormality (and leaves du, dv)
void fb_features_grad(bfm_agent *a) {
  int M = a->M;
  int64_t rank = a->config.mbar;
  inner(a, a->db, M, a->m, M, 1, a->tape[NET_F].out, a->tape[NET_F].rows, 1, a->d, EPILOGUE_ADD);
  if (!rank) return;
  inner(a, a->du, M, a->m, M, 0, a->tape[NET_V].out, a->N, M, rank, EPILOGUE_NONE);
  inner(a, a->dv, M, a->m, M, 1, a->tape[NET_U].out, a->N, M, rank, EPILOGUE_NONE);
}

// needs B only; leaves λ times its gradient in db, lap: adds it
void ortho_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  int64_t rows = a->laplacian ? 2 * a->N : a->N;  // lap: at phi(s'), the second half
  float *b = a->b + (rows - a->N) * a->d, *db = a->db + (rows - a->N) * a->d;
  for (int64_t i = 0; i < a->I; i++) {
    const float *bi = b + i * a->J * a->d;
    ops->gemm(ops, &(Gemm){.m = a->J, .n = a->J, .k = a->d, .transpose_b = 1, .type = F32,
                           .type_c = F32, .a = bi, .lda = a->d, .stride_a = rows * a->d, .b = bi,
                           .ldb = a->d, .stride_b = rows * a->d, .c = a->c + i * a->J * a->J,
                           .ldc = a->J, .stride_c = a->I * a->J * a->J, .batch = a->R});
  }
  ops->ortho_loss(ops, &(OrthoLoss){.c = a->c, .scale = (float)a->config.ortho,
                                    .loss = a->loss + a->loss_count - 2,
                                    .loss_stride = a->loss_count,
                                    .scratch = a->partial + a->R * a->M * a->N, .replicas = a->R,
                                    .groups = a->I, .rows = a->J});
  for (int64_t i = 0; i < a->I; i++) {
    ops->gemm(ops, &(Gemm){.m = a->J, .n = a->d, .k = a->J, .type = F32, .type_c = F32,
                           .epilogue = a->laplacian ? EPILOGUE_ADD : EPILOGUE_NONE,
                           .a = a->c + i * a->J * a->J, .lda = a->J,
                           .stride_a = a->I * a->J * a->J, .b = b + i * a->J * a->d, .ldb = a->d,
                           .stride_b = rows * a->d, .c = db + i * a->J * a->d, .ldc = a->d,
                           .stride_c = rows * a->d, .batch = a->R});
  }
}
