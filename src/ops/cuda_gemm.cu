// Products by cuBLASLt, with bias and ReLU fused. When a product of a new shape first appears, the
// algorithms that cuBLASLt proposes are timed on scratch memory. The fastest one is cached in memory
// and on disk, so that the next run starts without timing and uses the same algorithms.
//
// cuBLASLt is column-major: our row-major C = A·B is its Cᵀ = Bᵀ·Aᵀ. Its first operand is therefore
// our B, and a bias along its rows is a bias along our columns.

#include "ops/cuda.cuh"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANDIDATES 16  // algorithms that are timed for a product
#define TIMED_RUNS 10  // of each algorithm
#define NEAR 1.02f     // an algorithm must be this much faster than one that cuBLASLt ranks higher

// everything that the choice of an algorithm depends on; compared as bytes
typedef struct {
  int64_t m, n, k, lda, ldb, ldc;
  int64_t batch, stride_a, stride_b, stride_c, stride_bias;
  int32_t transpose_a, transpose_b, type, type_c;
  int32_t bias, relu, add;
  int32_t align_a, align_b, align_c, align_bias, unused;
} Shape;

struct Plan {
  Shape shape;
  Plan *next;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  int fused;  // cuBLASLt adds the bias; otherwise bias_kernel does
};

// one strided batch of products
typedef struct {
  const void *a, *b, *bias;
  void *c;
} Operands;

static void plan_free(Plan *p) {
  if (p->product) cublasLtMatmulDescDestroy(p->product);
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->c) cublasLtMatrixLayoutDestroy(p->c);
  free(p);
}

static void forget_choices(Cuda *c) {
  free(c->choices);
  c->choices = NULL;
  c->choice_count = 0;
}

void cuda_gemm_close(Cuda *c) {
  forget_choices(c);
  while (c->plans) {
    Plan *p = c->plans;
    c->plans = p->next;
    plan_free(p);
  }
}

// ------------------------------- choices on disk -------------------------------------------------

#define MAGIC "bfmgemm1"  // the beginning of each record, and so of the file

// A record of the file: the algorithm for one shape on one GPU with one version of cuBLASLt. The
// checksum reveals a record that was only partly written.
struct Choice {
  char magic[8];
  uint32_t sum;  // checksum of the fields below
  int32_t precision, fused, unused;
  uint64_t version;  // of cuBLASLt
  char gpu[64];
  Shape shape;
  cublasLtMatmulAlgo_t algorithm;
};

static uint32_t sum_of(const Choice *x) {
  const unsigned char *bytes = (const unsigned char *)x;
  uint32_t sum = 2166136261u;
  for (size_t i = offsetof(Choice, precision); i < sizeof *x; i++) {
    sum = (sum ^ bytes[i]) * 16777619u;
  }
  return sum;
}

// fills a record for a product on this GPU with this cuBLASLt, all but the algorithm
static void begin_choice(Choice *x, const Cuda *c, const Shape *shape) {
  const char *gpu = strchr(c->name, ' ');  // without cuda:n, which may change
  memset(x, 0, sizeof *x);
  memcpy(x->magic, MAGIC, sizeof x->magic);
  x->precision = c->precision;
  x->version = cublasLtGetVersion();
  snprintf(x->gpu, sizeof x->gpu, "%s", gpu ? gpu + 1 : "");
  x->shape = *shape;
}

// $BFM_CUDA_CHOICES, or a file in the user's cache folder; "" if there is neither
static void choices_path(char *out, size_t size) {
  const char *given = getenv("BFM_CUDA_CHOICES"), *cache = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  char folder[PATH_MAX - 256] = "";
  *out = 0;
  if (given) {
    snprintf(out, size, "%s", given);
    return;
  }
  if (cache && *cache) snprintf(folder, sizeof folder, "%s", cache);
  else if (home && *home) snprintf(folder, sizeof folder, "%s/.cache", home);
  else return;
  mkdir(folder, 0777);
  size_t n = strlen(folder);
  snprintf(folder + n, sizeof folder - n, "/bfm");
  mkdir(folder, 0777);
  snprintf(out, size, "%s/products", folder);
}

// reads the whole file; products whose records cannot be read are timed again
static void read_choices(Cuda *c) {
  char path[PATH_MAX];
  if (c->choices) return;
  choices_path(path, sizeof path);
  struct stat status;
  int is_file = *path && !stat(path, &status) && S_ISREG(status.st_mode);  // not a pipe
  FILE *file = is_file ? fopen(path, "rb") : NULL;
  size_t room = file && !fstat(fileno(file), &status) ? status.st_size / sizeof *c->choices : 0;
  c->choices = (Choice *)calloc(room + 1, sizeof *c->choices);
  if (c->choices && room) c->choice_count = fread(c->choices, sizeof *c->choices, room, file);
  if (file) fclose(file);
}

static const Choice *find_choice(Cuda *c, const Shape *shape) {
  Choice like;
  begin_choice(&like, c, shape);
  read_choices(c);
  for (size_t i = 0; i < c->choice_count; i++) {
    const Choice *x = &c->choices[i];
    if (!memcmp(x->magic, like.magic, sizeof like.magic) && x->precision == like.precision &&
        x->version == like.version && !memcmp(x->gpu, like.gpu, sizeof like.gpu) &&
        !memcmp(&x->shape, shape, sizeof *shape) && x->sum == sum_of(x)) {
      return x;
    }
  }
  return NULL;
}

// Whether a file is empty or begins with MAGIC. Other files are not ours to write to.
static int is_ours(int fd) {
  char begin[sizeof MAGIC - 1];
  ssize_t count = pread(fd, begin, sizeof begin, 0);
  return count >= 0 && !memcmp(begin, MAGIC, count);
}

// appends the record with a single write, because several programs may share the file
static void keep_choice(const Cuda *c, const Plan *p) {
  char path[PATH_MAX];
  Choice x;
  begin_choice(&x, c, &p->shape);
  x.fused = p->fused;
  x.algorithm = p->algorithm;
  x.sum = sum_of(&x);
  choices_path(path, sizeof path);
  int fd = *path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666) : -1;
  struct stat status;
  if (fd < 0) return;
  // first cut off an incomplete record, which a full disk may have left at the end
  int good =
      is_ours(fd) && !fstat(fd, &status) && !ftruncate(fd, status.st_size / sizeof x * sizeof x);
  if (good && write(fd, &x, sizeof x) != sizeof x) good = 0;
  (void)good;  // a record that is missing is only timed again
  close(fd);
}

// ------------------------------- the bias of an unfused product ----------------------------------

// C = C + bias, or max(C + bias, 0)
template <typename T>
__global__ void bias_kernel(T *c, const float *bias, int64_t m, int64_t n, int64_t ldc,
                            int64_t stride_c, int64_t stride_bias, int relu) {
  unsigned i = thread_index32(), row = i / (unsigned)n, col = i % (unsigned)n;
  int64_t g = blockIdx.y;
  if (row >= m) return;
  T *at = c + g * stride_c + row * ldc + col;
  float v = get(at) + bias[g * stride_bias + col];
  put(at, relu ? fmaxf(v, 0.0f) : v);
}

// ------------------------------- choosing --------------------------------------------------------

static cudaDataType data_type(int type) { return type == F32 ? CUDA_R_32F : CUDA_R_16BF; }

static int layout(cublasLtMatrixLayout_t *out, int type, int64_t rows, int64_t cols, int64_t ld,
                  int64_t batch, int64_t stride) {
  int32_t count = (int32_t)batch;
  return cublasLtMatrixLayoutCreate(out, data_type(type), rows, cols, ld) ||
         cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                          sizeof count) ||
         cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof stride);
}

static int describe(Cuda *c, Plan *p) {
  const Shape *s = &p->shape;
  cublasComputeType_t compute = s->type == F32 && c->precision != PRECISION_F32
                                    ? CUBLAS_COMPUTE_32F_FAST_TF32
                                    : CUBLAS_COMPUTE_32F;
  cublasOperation_t first = s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  return cublasLtMatmulDescCreate(&p->product, compute, CUDA_R_32F) ||
         cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                        sizeof first) ||
         cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                        sizeof second) ||
         layout(&p->b, s->type, s->transpose_b ? s->k : s->n, s->transpose_b ? s->n : s->k, s->ldb,
                s->batch, s->stride_b) ||
         layout(&p->a, s->type, s->transpose_a ? s->m : s->k, s->transpose_a ? s->k : s->m, s->lda,
                s->batch, s->stride_a) ||
         layout(&p->c, s->type_c, s->n, s->m, s->ldc, s->batch, s->stride_c);
}

static int set_epilogue(Plan *p, const void *bias) {
  cublasLtEpilogue_t epilogue = !p->fused       ? CUBLASLT_EPILOGUE_DEFAULT
                                : p->shape.relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                : CUBLASLT_EPILOGUE_BIAS;
  return cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                        sizeof epilogue) ||
         (p->fused &&
          (cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                          sizeof bias) ||
           cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
                                          &p->shape.stride_bias, sizeof p->shape.stride_bias)));
}

// the algorithms that cuBLASLt proposes, its best guess first; returns their number
static int propose(Cuda *c, const Plan *p, cublasLtMatmulHeuristicResult_t *found) {
  const Shape *s = &p->shape;
  size_t workspace = WORKSPACE;
  uint32_t align_a = s->align_b, align_b = s->align_a, align_c = s->align_c;
  cublasLtMatmulPreference_t wish = NULL;
  int count = 0;
  int bad = cublasLtMatmulPreferenceCreate(&wish) ||
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &workspace, sizeof workspace) ||
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                 &align_a, sizeof align_a) ||
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                 &align_b, sizeof align_b) ||
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                 &align_c, sizeof align_c) ||
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                                 &align_c, sizeof align_c) ||
            cublasLtMatmulAlgoGetHeuristic(c->blas, p->product, p->b, p->a, p->c, p->c, wish,
                                           CANDIDATES, found, &count);
  if (wish) cublasLtMatmulPreferenceDestroy(wish);
  return bad ? 0 : count;
}

static cublasStatus_t multiply(Cuda *c, const Plan *p, const cublasLtMatmulAlgo_t *algorithm,
                               const Operands *x) {
  float alpha = 1, beta = p->shape.add ? 1 : 0;
  return cublasLtMatmul(c->blas, p->product, &alpha, x->b, p->b, x->a, p->a, &beta, x->c, p->c,
                        x->c, p->c, algorithm, c->workspace[c->lane], WORKSPACE,
                        c->stream[c->lane]);
}

// microseconds of one run inside a graph, or infinity if the algorithm fails
static float time_algorithm(Cuda *c, const Plan *p, const cublasLtMatmulAlgo_t *algorithm,
                            const Operands *x, cudaEvent_t begin, cudaEvent_t end) {
  cudaStream_t stream = c->stream[c->lane];
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  float best = INFINITY;
  int good = multiply(c, p, algorithm, x) == CUBLAS_STATUS_SUCCESS &&
             cudaStreamSynchronize(stream) == cudaSuccess &&
             cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
  if (good) {
    for (int i = 0; i < TIMED_RUNS; i++) good &= !multiply(c, p, algorithm, x);
    good &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
  }
  if (good) good = cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
  for (int i = 0; good && i < 4; i++) {
    float time = 0;
    good = !cudaEventRecord(begin, stream) && !cudaGraphLaunch(exec, stream) &&
           !cudaEventRecord(end, stream) && !cudaEventSynchronize(end) &&
           !cudaEventElapsedTime(&time, begin, end);
    if (good && i > 0) best = fminf(best, time * 1000 / TIMED_RUNS);
  }
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  return good ? best : INFINITY;
}

// fills with values in (-1, 1), because products of zeros run faster than real ones
template <typename T>
__global__ void fill_kernel(T *x, int64_t n) {
  int64_t i = thread_index();
  uint32_t hash = (uint32_t)(i * 2654435761u);
  hash = (hash ^ hash >> 15) * 2246822519u;
  if (i < n) put(x + i, (float)(hash >> 8) * 0x1p-23f - 1);
}

static int64_t extent(int64_t rows, int64_t cols, int64_t ld, int64_t batch, int64_t stride) {
  return (batch - 1) * stride + (rows - 1) * ld + cols;
}

// Finds the fastest of the proposals. Returns 0, and leaves *best, if none could be timed.
static int fastest(Cuda *c, const Plan *p, const cublasLtMatmulHeuristicResult_t *found, int count,
                   int *best) {
  const Shape *s = &p->shape;
  int64_t a = extent(s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->lda, s->batch,
                     s->stride_a);
  int64_t b = extent(s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n, s->ldb, s->batch,
                     s->stride_b);
  size_t size = type_size((Type)s->type), size_c = type_size((Type)s->type_c);
  size_t at_b = divide_up(a * size, 256) * 256;
  size_t at_c = at_b + divide_up(b * size, 256) * 256;
  size_t bytes = at_c + extent(s->m, s->n, s->ldc, s->batch, s->stride_c) * size_c;

  char *memory = NULL;
  cudaEvent_t begin = NULL, end = NULL;
  float best_time = INFINITY;
  if (cudaDeviceSynchronize() == cudaSuccess && cudaMalloc(&memory, bytes) == cudaSuccess &&
      cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess) {
    BY_TYPE(s->type, fill_kernel<<<grid_for(at_c / size), THREADS, 0, c->stream[c->lane]>>>(
                         (T *)memory, (int64_t)(at_c / size)));
    Operands x = {memory, memory + at_b, NULL, memory + at_c};
    for (int i = 0; i < count; i++) {
      float time = time_algorithm(c, p, &found[i].algo, &x, begin, end);
      if (time * NEAR < best_time) {
        best_time = time;
        *best = i;
      }
    }
  }
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  cudaFree(memory);
  cudaGetLastError();
  return best_time < INFINITY;
}

// takes the cached algorithm of an earlier run, if there is one and cuBLASLt still accepts it
static int recall(Cuda *c, Plan *p, const void *bias) {
  const Choice *x = c->timed ? find_choice(c, &p->shape) : NULL;
  cublasLtMatmulHeuristicResult_t result;
  if (!x) return 0;
  p->fused = x->fused;
  p->algorithm = x->algorithm;
  return !set_epilogue(p, bias) &&
         !cublasLtMatmulAlgoCheck(c->blas, p->product, p->b, p->a, p->c, p->c, &p->algorithm,
                                  &result) &&
         result.workspaceSize <= WORKSPACE;
}

// chooses one of the algorithms that cuBLASLt proposes; returns 0 if it proposes none
static int choose(Cuda *c, Plan *p, const void *bias) {
  cublasLtMatmulHeuristicResult_t found[CANDIDATES];
  int count = 0;
  p->fused = bias != NULL;
  if (!set_epilogue(p, bias)) count = propose(c, p, found);
  if (!count && p->fused) {
    p->fused = 0;
    if (!set_epilogue(p, NULL)) count = propose(c, p, found);
  }
  if (!count) return 0;
  int best = 0, timed = c->timed && c->mode != CAPTURE;
  if (timed && count > 1) timed = fastest(c, p, found, count, &best);
  p->algorithm = found[best].algo;
  if (timed) keep_choice(c, p);
  return 1;
}

// Agents on several threads would disturb each other's timings, so only one thread times at once.
// It reads the file again first, because another thread may have timed the product meanwhile.
static int settle(Cuda *c, Plan *p, const void *bias) {
  if (c->mode == CAPTURE) return recall(c, p, bias) || choose(c, p, bias);
  pthread_mutex_lock(&cuda_alone);
  int good = recall(c, p, bias);
  if (!good) {
    forget_choices(c);
    good = recall(c, p, bias) || choose(c, p, bias);
  }
  pthread_mutex_unlock(&cuda_alone);
  return good;
}

static Plan *make_plan(Cuda *c, const Shape *shape, const void *bias) {
  Plan *p = (Plan *)calloc(1, sizeof *p);
  if (!p) {
    cuda_failed(c, BFM_NO_MEMORY, "out of memory for the plan of a product");
    return NULL;
  }
  p->shape = *shape;
  if (describe(c, p) || !settle(c, p, bias)) {
    cuda_failed(c, BFM_UNAVAILABLE,
                "cuBLASLt has no algorithm for a product of %ld x %ld x %ld, batch %ld",
                (long)shape->m, (long)shape->n, (long)shape->k, (long)shape->batch);
    plan_free(p);
    return NULL;
  }
  p->next = c->plans;
  c->plans = p;
  return p;
}

static Plan *find_plan(Cuda *c, const Shape *shape, const void *bias) {
  for (Plan *p = c->plans; p; p = p->next) {
    if (!memcmp(&p->shape, shape, sizeof *shape)) return p;
  }
  return make_plan(c, shape, bias);
}

// ------------------------------- one strided batch -----------------------------------------------

static int32_t alignment(const void *x) {
  int32_t bytes = 256;
  while ((uintptr_t)x % bytes) bytes /= 2;
  return bytes;
}

typedef struct {
  int64_t batch, stride_a, stride_b, stride_c, stride_bias;
  int add;
} Batch;

static void product(Cuda *c, const Gemm *x, const Batch *batch, const Operands *at,
                    const float *bias) {
  Shape shape;
  memset(&shape, 0, sizeof shape);
  shape.m = x->m;
  shape.n = x->n;
  shape.k = x->k;
  shape.lda = x->lda;
  shape.ldb = x->ldb;
  shape.ldc = x->ldc;
  shape.batch = batch->batch;
  if (batch->batch > 1) {
    shape.stride_a = batch->stride_a;
    shape.stride_b = batch->stride_b;
    shape.stride_c = batch->stride_c;
    shape.stride_bias = bias ? batch->stride_bias : 0;
  }
  shape.transpose_a = x->transpose_a;
  shape.transpose_b = x->transpose_b;
  shape.type = x->type;
  shape.type_c = x->type_c;
  shape.bias = bias != NULL;
  shape.relu = x->epilogue == EPILOGUE_BIAS_RELU;
  shape.add = batch->add;
  shape.align_a = alignment(at->a);
  shape.align_b = alignment(at->b);
  shape.align_c = alignment(at->c);
  shape.align_bias = at->bias ? alignment(at->bias) : 0;

  Plan *p = find_plan(c, &shape, at->bias);
  if (!p || c->mode == PLAN) return;
  cublasStatus_t status =
      set_epilogue(p, at->bias) ? CUBLAS_STATUS_INVALID_VALUE : multiply(c, p, &p->algorithm, at);
  if (status != CUBLAS_STATUS_SUCCESS) {
    cuda_failed(c, BFM_UNAVAILABLE, "cuBLASLt failed to multiply %ld x %ld x %ld: %s", (long)x->m,
                (long)x->n, (long)x->k, cublasLtGetStatusString(status));
  }
  if (bias && !p->fused) {
    dim3 grid((unsigned)divide_up(x->m * x->n, THREADS), (unsigned)batch->batch);
    BY_TYPE(x->type_c, launch(c, bias_kernel<T>, grid, THREADS, (T *)at->c, bias, x->m, x->n,
                              x->ldc, batch->stride_c, batch->stride_bias, (int)shape.relu));
  }
}

// ------------------------------- the operation ---------------------------------------------------

static int64_t at_least_1(int64_t share) { return share > 1 ? share : 1; }

// If consecutive groups share an operand, one strided batch cannot cover them all. Either loop over
// the groups of a share and batch over the shares, or, if that loop is shorter and C is not summed,
// loop over the shares and batch over the groups of each with stride 0.
static void gemm(Ops *ops, const Gemm *x) {
  Cuda *c = cuda_of(ops);
  if (c->status || x->m <= 0 || x->n <= 0 || x->k <= 0 || x->batch <= 0) return;
  ops->flops += 2 * x->m * x->n * x->k * x->batch;

  int64_t sa = at_least_1(x->share_a), sb = at_least_1(x->share_b), sc = at_least_1(x->share_c);
  int64_t share = sa > sb ? sa : sb;
  if (sc > share) share = sc;
  int even = (sa == 1 || sa == share) && (sb == 1 || sb == share) && (sc == 1 || sc == share) &&
             x->batch % share == 0;
  int biased = x->epilogue == EPILOGUE_BIAS || x->epilogue == EPILOGUE_BIAS_RELU;
  if (x->batch % sc || (biased && sc > 1)) {
    cuda_failed(c, BFM_BAD_ARGUMENT, "a product of batch %ld cannot sum %ld groups%s",
                (long)x->batch, (long)sc, biased ? " and add a bias" : "");
    return;
  }

  // batch i of `loops` has the groups first, first + step, …, where first = i·first_step
  int64_t rest = x->batch / share;
  int64_t loops = x->batch, count = 1, first_step = 1, step = 1;
  if (even && (share <= rest || sc > 1)) {
    loops = share, count = rest, step = share;
  } else if (even) {
    loops = rest, count = share, first_step = share;
  }

  size_t size = type_size(x->type), size_c = type_size(x->type_c);
  const void *fused_bias = x->type_c == F32 ? x->bias : x->bias_copy;
  for (int64_t i = 0; i < loops; i++) {
    int64_t g = i * first_step, next = g + step;
    Batch batch;
    batch.batch = count;
    batch.stride_a = (next / sa - g / sa) * x->stride_a;
    batch.stride_b = (next / sb - g / sb) * x->stride_b;
    batch.stride_c = (next / sc - g / sc) * x->stride_c;
    batch.stride_bias = step * x->stride_bias;
    batch.add = x->epilogue == EPILOGUE_ADD || g % sc != 0;
    Operands at;
    at.a = (const char *)x->a + g / sa * x->stride_a * size;
    at.b = (const char *)x->b + g / sb * x->stride_b * size;
    at.c = (char *)x->c + g / sc * x->stride_c * size_c;
    at.bias = biased && fused_bias ? (const char *)fused_bias + g * x->stride_bias * size_c : NULL;
    product(c, x, &batch, &at, biased ? x->bias + g * x->stride_bias : NULL);
  }

  if (x->epilogue == EPILOGUE_RELU_GRAD) {
    ColumnPass pass = {{x->sums[0], x->sums[1]},
                       x->c,
                       x->c,
                       x->relu,
                       x->batch / sc,
                       x->m,
                       x->n,
                       x->ldc,
                       x->stride_c};
    cuda_column_pass(c, &pass, x->type_c);
  }
}

void cuda_gemms(Ops *ops) { ops->gemm = gemm; }
