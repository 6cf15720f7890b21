// The operations that training needs, with two backends: the CPU (oneDNN, linked in) and a GPU
// (cuBLASLt and own kernels, a plugin). Networks and agents are written once, against this header.
//
// Every operation takes one struct of named arguments: the CPU backend passes it to its threads,
// the CUDA backend to its kernel. Pointers are to the device's memory. Operations run in the order
// of their calls, asynchronously: call sync() or download() to wait for them.
//
// Letters: R replicas, M members, G = R·M groups (the leading axis of a batched product), N rows of
// a batch, d length of z, K blocks, I groups of equal z with J = N/I rows each.
// T is the type of activations, of the weights' working copies and of the parameters' gradients:
// float32 or bfloat16. Products and sums accumulate in float32; parameters and losses are float32.

#ifndef BFM_OPS_OPS_H
#define BFM_OPS_OPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define OPS_INLINE static __host__ __device__ inline
#else
#define OPS_INLINE static inline
#endif

typedef enum { F32, BF16 } Type;

static inline size_t type_size(Type type) { return type == F32 ? 4 : 2; }

// How products are computed: T is float32 with the first two and bfloat16 with the last. The CPU
// has no tf32 and uses float32 instead. With bf16, a GPU computes products of float32 operands in
// tf32.
typedef enum { PRECISION_F32, PRECISION_TF32, PRECISION_BF16 } Precision;

static inline Type precision_type(Precision p) { return p == PRECISION_BF16 ? BF16 : F32; }

// Unit u of n belongs to block floor(u·K/n): blocks are contiguous and as even as possible. This is
// the first unit of a block.
OPS_INLINE int64_t block_start(int64_t block, int64_t n, int64_t K) {
  return (block * n + K - 1) / K;
}

// ------------------------------- products --------------------------------------------------------

typedef enum {
  EPILOGUE_NONE,       // C = A·B
  EPILOGUE_ADD,        // C += A·B
  EPILOGUE_BIAS,       // C = A·B + bias
  EPILOGUE_BIAS_RELU,  // C = max(A·B + bias, 0)
  EPILOGUE_RELU_GRAD,  // C = A·B where relu > 0, else 0
} Epilogue;

// C[m,n] = A[m,k]·B[k,n] for each g in 0 … batch-1. Group g reads A at a + (g / share_a)·stride_a,
// and B, C likewise: with share_a > 1, that many consecutive groups use the same A. With
// share_c > 1, that many consecutive products are summed into one C.
typedef struct {
  int64_t m, n, k;
  int transpose_a;  // A is stored [k, m]
  int transpose_b;  // B is stored [n, k]
  Type type;        // of A and B
  Type type_c;      // of C and relu
  Epilogue epilogue;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  int64_t batch, stride_a, stride_b, stride_c;
  int64_t share_a, share_b, share_c;  // 0 counts as 1
  const float *bias;                  // [n] per group, stride_bias apart
  int64_t stride_bias;
  const void *bias_copy;  // the bias as T in the same layout, which a GPU fuses if C is T; or NULL
  const void *relu;       // RELU_GRAD: the activations, in C's layout and type
  // With RELU_GRAD and C of type T, column sums of C, [n] per group; NULL: not wanted. If both
  // pointers are set, the second gets the second half of the columns, each [n/2] per group.
  void *sums[2];  // T
} Gemm;

// db[g, :] = sum over rows of dy[g, :, :]
typedef struct {
  void *db;        // T
  const void *dy;  // T
  int64_t groups, rows, cols, ld, stride;
} BiasGrad;

// ------------------------------- layers ----------------------------------------------------------

typedef enum { TANH, RELU } Activation;

// y = f(gain·x̂ + bias), x̂ = x normalized over each of K blocks of the row; y may be x
typedef struct {
  Activation activation;     // f
  void *y;                   // T [G, stride rows, width]
  const void *x;             // T, same layout
  float *stats;              // [G, stride rows, K, 2]: mean, 1/std
  const float *gain, *bias;  // [G, width]
  int64_t groups, rows, row_stride, width, blocks;
  int64_t first_block, end_block;  // only blocks first_block … end_block - 1; 0, 0: all
} Norm;

// dx, dgain and dbias from dy; sums = dx summed over rows, which is the gradient of the bias of the
// layer before. dx may be dy. scratch: norm_scratch() floats
typedef struct {
  Activation activation;
  void *dx;  // T
  const void *dy, *x;
  const void *y;  // Norm's output, so that a CPU need not compute it again; or NULL
  const float *stats, *gain, *bias;
  void *dgain, *dbias, *sums;  // T [G, width]; all three NULL: compute only dx
  float *scratch;
  int64_t groups, rows, row_stride, width, blocks;
} NormGrad;

#define NORM_CHUNK 8  // the least number of rows that are summed in one piece

static inline int64_t norm_scratch(int64_t groups, int64_t rows, int64_t width) {
  return groups * ((rows + NORM_CHUNK - 1) / NORM_CHUNK) * width * 3;
}

// out[r, copy, row0 + i, :] = [a[r, i mod a_rows, :], b[r, i mod b_rows, :]] as T; b may be NULL
typedef struct Pack {
  void *out;
  int64_t ld;  // of out; columns beyond those of a and b are not written
  const float *a, *b;
  int64_t a_cols, b_cols;
  int64_t a_rows, b_rows;  // rows of a and b in each group; 0: `rows`
  int64_t groups, copies, rows;
  int64_t row0, row_stride;  // copies are row_stride rows of out apart
  const struct Pack *next;   // an independent operation for the same launch, or NULL
} Pack;

// out[i, :cols] = in[i, :cols], T, with leading dimensions
typedef struct {
  void *out;
  const void *in;
  int64_t groups, rows, cols, ld_out, ld_in, stride_out, stride_in;
} CopyColumns;

// out[i, j] = in[i, columns[j]], float32
typedef struct {
  float *out;
  const float *in;
  const int32_t *columns;
  int64_t rows, in_cols, out_cols;
} SelectColumns;

// mu = tanh(x), act = clip(mu + clip(sigma·noise, ±noise_clip), ±1); noise NULL: act = mu
typedef struct PolicyAction {
  float *mu;           // [groups, row_stride, act]
  const float *x;      // [groups, row_stride, ld]
  float *act;          // [groups, rows, act], or NULL
  const float *noise;  // [groups, rows, act], or NULL
  int64_t groups, rows, row_stride, act_dim, ld;
  float sigma, noise_clip;
  const struct PolicyAction *next;  // as in Pack
} PolicyAction;

// y_k = √d_k · x_k/‖x_k‖ for each block k of the row
typedef struct {
  float *y;
  const float *x;
  int64_t rows, d, blocks;
} BlockNorm;

typedef struct {
  float *dx;  // may be dy
  const float *dy, *x;
  int64_t rows, d, blocks;
} BlockNormGrad;

// residual normalization of z for B: y_k = √(d_1+…+d_k) · z_k/‖z_1..k‖
typedef struct {
  float *y;
  const float *z;
  int64_t rows, d, blocks;
} ResidualNorm;

// ------------------------------- draws -----------------------------------------------------------

// Standard normals with the key (seeds[r], stream, *step): element i of replica r is draw i.
typedef struct {
  float *out;  // [R, count]
  const uint64_t *seeds;
  const int64_t *step;
  uint32_t stream;
  int64_t replicas, count;
} Draw;

// out[r, i, :] = in[r·in_stride + k, :] with k drawn in [0, below), with a key as in Draw. Arrays
// sampled with the same key give the same rows. in_stride 0: all replicas share one source
typedef struct SampleRows {
  float *out;  // [R, rows, cols]
  const float *in;
  const uint64_t *seeds;
  const int64_t *step;
  uint32_t stream;
  int64_t replicas, rows, cols, below, in_stride;
  const struct SampleRows *next;  // as in Pack
} SampleRows;

// z[r, j] = √d·v/‖v‖ for row j of group i = j / (rows/draws). A group's v is, with probability
// `mix`, the B of a random state, otherwise a normal vector. The key is as in Draw, with the
// streams of z.
typedef struct {
  float *z;             // [R, rows, d]
  const float *states;  // [R, state_rows, d]: B of some states, or NULL
  const uint64_t *seeds;
  const int64_t *step;
  int64_t replicas, rows, draws, d, state_rows;
  int64_t below;  // the state is drawn in [0, below); 0: group i takes state i
  float mix;
} MixZ;

// out_j = (E φφᵀ)⁻¹·φ_j, with the mean over the rows j of a replica. GRAM_RIDGE times the mean of the
// diagonal is added to the diagonal, so that rows that do not span all directions can be inverted.
typedef struct {
  float *out;        // [R, rows, d]
  const float *phi;  // [R, row_stride, d], `rows` used
  double *gram;      // scratch, [R, d, d]
  int64_t replicas, rows, row_stride, d;
} Whiten;

#define GRAM_RIDGE 1e-6
#define WHITEN_MOST 4096  // the largest d

// z[r, j] = pool[r, (*step·draws + j/(rows/draws)) mod pool_rows]
typedef struct {
  float *z;           // [R, rows, d]
  const float *pool;  // [R, pool_rows, d]
  const int64_t *step;
  int64_t replicas, rows, draws, d, pool_rows;
} PoolZ;

// z/‖z‖·√d, row by row
typedef struct {
  float *z;
  int64_t rows, d;
} NormalizeZ;

// ------------------------------- losses ----------------------------------------------------------
// Each loss writes one float per replica: loss[r·loss_stride].

// dot products of rows: out[g, i] = a[g, i]·z[g / members, i mod z_rows]
typedef struct {
  float *out;      // [R·members, N]
  const float *a;  // [R·members, row_stride, d]
  const float *z;  // [R, z_rows, d]
  int64_t replicas, members, rows, row_stride, d;
  int64_t z_rows;  // 0: N
} RowDot;

// mean over members
typedef struct {
  float *out;      // [R, N, d]
  const float *a;  // [R·M, N, d]
  int64_t replicas, members, count;
} MeanMembers;

// ½·mean_{j≠k} (M_jk − γ_j·T_jk)² − mean_j M_jj, summed over members and averaged over the I
// groups. M is overwritten by the gradient with respect to M. T_jk is the min over its members.
typedef struct {
  float *m;               // [R, M, I, J, J]
  const float *t;         // [R, t_members, I, J, J]
  const float *discount;  // [R, I·J]
  float gamma;
  float *loss;
  int64_t loss_stride;
  float *scratch;                                      // R·M·I·J floats
  int64_t replicas, members, t_members, groups, rows;  // groups I, rows J
} FbLoss;

// ½·mean_{j≠k} C_jk² − mean_j C_jj with C = B·Bᵀ. C is overwritten by scale times the symmetrized
// gradient with respect to C, so that dB = C·B.
typedef struct {
  float *c;  // [R, I, J, J]
  float scale;
  float *loss;
  int64_t loss_stride;
  float *scratch;  // R·I·J floats
  int64_t replicas, groups, rows;
} OrthoLoss;

// Weights of advantage-weighted regression over each replica's batch:
// A = mean_m (or Σ_m) q − base_m q_pi, w = softmax(min(A/β, clip)); with iwis, w/max(1−w, 1e-6)
// scaled to sum 1. If ess > 0, w = softmax(A/β) with the β for which the effective sample size
// 1/Σw² is ess times the number of rows.
typedef struct {
  float *w;               // [R, N]
  const float *q, *q_pi;  // [R, M, q_stride], N rows used
  float *advantage;       // [R, N], for the log; or NULL
  int64_t replicas, members, rows, q_stride;
  float beta, clip, ess;
  int sum_members, mean_base, iwis;
} AwWeights;

// 1/β is found by bisection of its logarithm, starting from the 1/β with a mean exponent of -1
#define ESS_HALVINGS 20
#define ESS_RANGE 10.0f  // the interval is 2^-10 … 2^10 times that start

// Σ_j w_j·‖a_j − mu_j‖²/(2σ²); dx is the gradient with respect to x, where mu = tanh(x)
typedef struct {
  float *dx;  // [R, N, act]
  const float *w, *act, *mu;
  float *loss;
  int64_t loss_stride;
  int64_t replicas, rows, act_dim, mu_stride;  // mu: [R, mu_stride rows, act]
  float sigma;
} AwLoss;

// −mean_j min_m q_pi; df[r, m, j] = −z_j/N for the member with the minimum, 0 for the others
typedef struct {
  float *df;          // [R, M, df_stride, d]
  const float *q_pi;  // [R, M, q_stride]
  const float *z;     // [R, N, d]
  float *loss;
  int64_t loss_stride;
  int64_t replicas, members, rows, q_stride, df_stride, d;
} Td3Loss;

// dx[r, j] = (1 − mu²)·Σ_m dxa[r, m, j, obs …]: the gradient from F's first input back to the
// policy's output
typedef struct {
  float *dx;        // [R, N, act]
  const void *dxa;  // T [R, copies, row_stride, ld]
  const float *mu;  // [R, mu_stride, act]
  int64_t replicas, copies, rows, row_stride, ld, obs_dim, act_dim, mu_stride;
} Td3ActionGrad;

// mean_j ‖φ(s_j) − φ(s'_j)‖² with phi [R, 2N, d]: N rows of s, then N rows of s'
typedef struct {
  float *dphi;
  const float *phi;
  float *loss;
  int64_t loss_stride;
  float *scratch;  // R·N floats
  int64_t replicas, rows, d;
} LapLoss;

// Σ_m ½·mean_j (q_mj − φ(s'_j)·z − γ_j·q'_j)², where q' is the mean or min over the targets' members;
// dpsi = residual·z/N. With huber > 0, Huber's loss: residuals count linearly beyond ±huber.
typedef struct {
  float *dpsi;                // [R, M, dpsi_stride, d]
  const float *q;             // [R, M, q_stride]
  const float *q_target;      // [R, t_members, N]
  const float *phi_z;         // [R, N]
  const float *z, *discount;  // [R, N, d], [R, N]
  float gamma;
  float *loss;
  int64_t loss_stride;
  int64_t replicas, members, rows, q_stride, dpsi_stride, d;
  int64_t t_members;  // 0: as many as members
  int min_target;
  float huber;  // 0: the square everywhere
} PsiLoss;

// ------------------------------- offline losses --------------------------------------------------

// A regression of v on q = min_m q_m. Expectiles (IQL), e = q − v: mean |level − 1(e < 0)|·e².
// Gumbel (XQL), z = min(e/level, clip): mean (eᶻ − z − 1)·e⁻ᵃ with a = max(−1, max_j z_j) held fixed;
// rows that are clipped have no gradient.
typedef struct {
  float *dv;       // [R, N]
  const float *q;  // [R, M, N]
  const float *v;  // [R, N]
  float *loss;
  int64_t loss_stride;
  int64_t replicas, members, rows;
  int gumbel;
  float level, clip;  // the expectile or the temperature; clip: of gumbel
} ValueLoss;

// w = min(exp(rate·(min_m q_m − v)), clip)/N
typedef struct {
  float *w;            // [R, N]
  const float *q, *v;  // [R, M, N], [R, N]
  int64_t replicas, members, rows;
  float rate, clip;
} ExpWeights;

// −Σ_j w_j·log N(a_j; mu_j, σ²) with a learned σ for each number of an action: log σ is log_sigma
// within ±limits, and has no gradient outside. dx is the gradient with respect to x, mu = tanh(x).
typedef struct {
  float *dx;                  // [R, N, act]
  void *dlog_sigma;           // T [R, act]
  const float *w, *act, *mu;  // [R, N], [R, N, act] twice
  const float *log_sigma;     // [R, act]
  float *loss;
  int64_t loss_stride;
  int64_t replicas, rows, act_dim;
} GaussianLoss;

#define LOG_SIGMA_LEAST (-5.0f)
#define LOG_SIGMA_MOST 2.0f

// mean (mu − a)² over rows and numbers; its gradient with respect to x, mu = tanh(x), is written to
// dx or, with add, added
typedef struct {
  float *dx;              // [R, N, act]
  const float *act, *mu;  // [R, N, act]
  float *loss;
  int64_t loss_stride;
  int64_t replicas, rows, act_dim;
  int add;
} CloneLoss;

// TD3+BC: −λ·mean_j q_0j with λ = alpha/mean_j |q_0j| held fixed; q_0 is the first member
typedef struct {
  float *dq;       // [R, M, N], 0 for the other members
  const float *q;  // [R, M, N]
  float *loss;
  int64_t loss_stride;
  int64_t replicas, members, rows;
  float alpha;
} Td3BcLoss;

// ------------------------------- parameters ------------------------------------------------------

// Adam, then target += tau·(param − target). The copies (T) receive the new values. *step is 0 at
// the first update. Where the mask is 0, the gradient is taken as 0 and the copies become 0.
typedef struct {
  float *param, *m, *v;
  const void *grad;          // T
  const uint8_t *mask;       // or NULL
  float *target;             // or NULL
  void *copy, *target_copy;  // or NULL
  const int64_t *step;
  int64_t count;
  int64_t anneal;  // lr falls to 0 as a cosine in so many updates; 0: it is constant
  float lr, beta1, beta2, epsilon, tau;
} Adam;

// the factor on lr before update number `step`
OPS_INLINE float adam_anneal(int64_t anneal, int64_t step) {
  if (anneal <= 0) return 1;
  return step < anneal ? 0.5f + 0.5f * cosf(3.14159265f * ((float)step / (float)anneal)) : 0;
}

// out = in where mask is 1, else 0
typedef struct {
  void *out;  // T
  const float *in;
  const uint8_t *mask;  // NULL: all ones
  int64_t count;
} MaskedCopy;

// ------------------------------- acting ----------------------------------------------------------

// Sample k of row i: out[k, i] = clip(mu_i + σ·normal, ±1). Its element j is draw
// ((first_row + i)·samples + k)·act + j of (seed, STREAM_ES, step). With mean_first, sample 0 is mu_i.
typedef struct {
  float *out;  // [samples, rows, act]
  const float *mu;
  uint64_t seed, step;
  int64_t rows, samples, act_dim, first_row;  // first_row: index of row 0 in the whole call
  float sigma;
  int mean_first;
} EsSample;

// act[i] = candidates[k, i] with the k that maximizes mean_m x[m, k, i], or min_m with min_members;
// x is q, or with gain q[m, k, i] − q[m, 0, i]. Ties: the first k
typedef struct {
  float *act;
  const float *candidates;  // [samples, rows, act]
  const float *q;           // [members, q_stride], samples·rows used
  int64_t rows, samples, act_dim, members, q_stride;
  int min_members, gain;
} EsPick;

// out[j] += Σ_i w_i·x[i, j] in double; the order does not depend on the number of threads
typedef struct {
  double *out;     // [cols], accumulated
  const float *w;  // [rows]
  const float *x;
  int64_t rows, ld, cols;
} WeightedSum;

// ------------------------------- exploring -------------------------------------------------------

// Samples a batch of n-step transitions from a ring buffer of time slots, whose rows are obs, act,
// reward, discount, next_obs, last. A transition spans at most nstep rows, ends with its episode or
// at the newest row, and has the reward Σ_k γᵏ·r_k and the discount γᵏ⁺¹ of its next_obs. Row i of
// replica r is draw i of (seeds[r], stream, *step).
typedef struct {
  float *obs, *act, *reward, *discount, *next_obs;  // [R, N, ·]
  const float *ring;                                // [capacity, R, envs, row]
  const int64_t *slots;                             // written so far, possibly > capacity
  const uint64_t *seeds;
  const int64_t *step;
  uint32_t stream;
  int64_t replicas, rows, envs, capacity, obs_dim, act_dim, nstep;
  float gamma;
} ReplaySample;

// the row of the ring that a draw refers to; order 0 is the oldest slot
OPS_INLINE int64_t replay_row(int64_t order, int64_t env, int64_t replica, int64_t slots,
                              int64_t capacity, int64_t replicas, int64_t envs) {
  int64_t slot = slots > capacity ? (slots + order) % capacity : order;
  return (slot * replicas + replica) * envs + env;
}

// Updates stats with the batch, where each of the *step batches before it had as many rows; then
// out = clip((in − mean)/√(variance + 1e-5), ±clip).
typedef struct {
  float *out;           // may be in
  const float *in;      // [R, rows, cols]
  float *stats;         // [R, 2, cols]: mean, variance
  const int64_t *step;  // NULL: do not update stats
  int64_t replicas, rows, cols;
  float clip;
} RunningNorm;

// RND: error_i = mean_j (f − g)² of the predictor f and the target g; loss is its mean and df the
// gradient; bonus_i = error_i/(running standard deviation of the errors + 1e-8), and its mean
typedef struct {
  float *df, *bonus;   // [R, rows, cols], [R, rows]
  const float *f, *g;  // [R, rows, cols]
  float *stats;        // [R, 2], as in RunningNorm
  const int64_t *step;
  float *loss, *mean_bonus;
  int64_t loss_stride;
  int64_t replicas, rows, cols;
} RndBonus;

// ------------------------------- the device ------------------------------------------------------

typedef struct Ops Ops;
typedef struct OpsGraph OpsGraph;

// A GPU reads products_only at record(), and has one kind of products, cuBLASLt's.
enum { OPS_ALL, OPS_PRODUCTS, OPS_ONEDNN_PRODUCTS };

struct Ops {
  const char *name;   // "cpu", "cuda:0 NVIDIA H200"
  Type type;          // T
  int64_t flops;      // floating-point operations of the products run so far
  int products_only;  // benchmarks: one of the values above; not OPS_ALL: compute only products

  // Memory. upload and download are complete when they return.
  int (*alloc)(Ops *ops, void **memory, size_t bytes);  // zeroed
  void (*release)(Ops *ops, void *memory);
  int (*upload)(Ops *ops, void *to, const void *from, size_t bytes);
  int (*download)(Ops *ops, void *to, const void *from, size_t bytes);
  void (*copy)(Ops *ops, void *to, const void *from, size_t bytes);
  void (*zero)(Ops *ops, void *to, size_t bytes);
  int (*sync)(Ops *ops);  // waits, and returns the first error since the last sync
  void (*close)(Ops *ops);

  // Lanes run side by side. After lane(i), operations go to lane i (0 … 7); lane 0 is the main lane.
  // fork(i): lane i waits for everything that the current lane has so far. join(i): the current lane
  // waits for lane i. Lower lanes have priority. A recorded body may leave a lane unjoined: that lane
  // then overlaps with the next replay. Outside of recordings, join every lane in the end.
  void (*lane)(Ops *ops, int lane);
  void (*fork)(Ops *ops, int lane);
  void (*join)(Ops *ops, int lane);

  // Records the operations that body() calls, and replays them; the CPU calls body() again.
  int (*record)(Ops *ops, OpsGraph **graph, void (*body)(void *context), void *context);
  int (*replay)(Ops *ops, OpsGraph *graph, int64_t times);
  void (*forget)(Ops *ops, OpsGraph *graph);

  void (*gemm)(Ops *ops, const Gemm *x);
  void (*bias_grad)(Ops *ops, const BiasGrad *x);
  void (*norm)(Ops *ops, const Norm *x);
  void (*norm_grad)(Ops *ops, const NormGrad *x);
  void (*pack)(Ops *ops, const Pack *x);
  void (*copy_columns)(Ops *ops, const CopyColumns *x);
  void (*select_columns)(Ops *ops, const SelectColumns *x);
  void (*policy_action)(Ops *ops, const PolicyAction *x);
  void (*block_norm)(Ops *ops, const BlockNorm *x);
  void (*block_norm_grad)(Ops *ops, const BlockNormGrad *x);
  void (*residual_norm)(Ops *ops, const ResidualNorm *x);

  void (*draw_normal)(Ops *ops, const Draw *x);
  void (*sample_rows)(Ops *ops, const SampleRows *x);
  void (*whiten)(Ops *ops, const Whiten *x);
  void (*mix_z)(Ops *ops, const MixZ *x);
  void (*pool_z)(Ops *ops, const PoolZ *x);
  void (*normalize_z)(Ops *ops, const NormalizeZ *x);

  void (*row_dot)(Ops *ops, const RowDot *x);
  void (*mean_members)(Ops *ops, const MeanMembers *x);
  void (*fb_loss)(Ops *ops, const FbLoss *x);
  void (*ortho_loss)(Ops *ops, const OrthoLoss *x);
  void (*aw_weights)(Ops *ops, const AwWeights *x);
  void (*aw_loss)(Ops *ops, const AwLoss *x);
  void (*td3_loss)(Ops *ops, const Td3Loss *x);
  void (*td3_action_grad)(Ops *ops, const Td3ActionGrad *x);
  void (*lap_loss)(Ops *ops, const LapLoss *x);
  void (*psi_loss)(Ops *ops, const PsiLoss *x);

  void (*value_loss)(Ops *ops, const ValueLoss *x);
  void (*exp_weights)(Ops *ops, const ExpWeights *x);
  void (*gaussian_loss)(Ops *ops, const GaussianLoss *x);
  void (*clone_loss)(Ops *ops, const CloneLoss *x);
  void (*td3bc_loss)(Ops *ops, const Td3BcLoss *x);

  void (*adam)(Ops *ops, const Adam *x);
  void (*masked_copy)(Ops *ops, const MaskedCopy *x);
  void (*increment)(Ops *ops, int64_t *counter);

  void (*es_sample)(Ops *ops, const EsSample *x);
  void (*es_pick)(Ops *ops, const EsPick *x);
  void (*weighted_sum)(Ops *ops, const WeightedSum *x);

  void (*replay_sample)(Ops *ops, const ReplaySample *x);
  void (*running_norm)(Ops *ops, const RunningNorm *x);
  void (*rnd_bonus)(Ops *ops, const RndBonus *x);
};

// device: "cpu", "cuda", "cuda:1" or "auto" (a GPU if there is one, else the CPU); threads: of the
// CPU, 0: one per core
int ops_open(Ops **ops, const char *device, Precision precision, int threads);

int ops_open_cpu(Ops **ops, Type type, int threads);

#endif
