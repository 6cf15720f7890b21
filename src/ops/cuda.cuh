// Internals of the CUDA backend: its state, launching kernels, T as float32, sums within a warp, a
// block and a grid. Every sum has a fixed order, so the same inputs give bit-identical results.

#ifndef BFM_OPS_CUDA_CUH
#define BFM_OPS_CUDA_CUH

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>

#include "ops/plugin.h"

#define LANES 8
#define WORKSPACE (32 << 20)  // bytes per lane, for cuBLASLt
#define SCRATCH (4 << 20)     // floats per lane, for sums that several blocks share
#define COUNTERS 65536        // per lane: blocks that have finished such a sum, 0 between kernels

typedef enum {
  RUN,      // operations go to the GPU at once
  PLAN,     // products choose their algorithms; nothing runs
  CAPTURE,  // operations become nodes of a graph
} Mode;

typedef struct Plan Plan;      // a product and its algorithm: cuda_gemm.cu
typedef struct Choice Choice;  // the cached algorithm of an earlier run

typedef struct {
  Ops ops;  // the first member, so that this backend can cast Ops * to Cuda *
  Fail fail;
  char name[300];
  int device;
  int multiprocessors;
  Precision precision;

  Mode mode;
  int lane, forked;  // forked: a bit for each lane that was forked in this capture
  int urgent;        // whether lower lanes have priority
  cudaStream_t stream[LANES];
  cudaEvent_t event[LANES];

  cublasLtHandle_t blas;
  int timed;  // whether to time the algorithms of a product or to take cuBLASLt's first
  void *workspace[LANES];
  Plan *plans;      // a list
  Choice *choices;  // the file's records; NULL until the first product
  size_t choice_count;

  float *scratch[LANES];
  unsigned *counters[LANES];

  int status;  // of the first failure since the last sync
  char message[512];
} Cuda;

// held while a graph is captured or an algorithm is timed, by one thread of the program at a time
extern pthread_mutex_t cuda_alone;

static inline Cuda *cuda_of(Ops *ops) { return (Cuda *)ops; }

// Keeps the first failure for sync(). Returns whether `error` is success.
int cuda_good(Cuda *c, cudaError_t error, const char *what);
void cuda_failed(Cuda *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// put each file's operations into the table
void cuda_gemms(Ops *ops);
void cuda_layers(Ops *ops);
void cuda_draws(Ops *ops);
void cuda_losses(Ops *ops);
void cuda_offline(Ops *ops);
void cuda_explore(Ops *ops);

// frees the plans of products
void cuda_gemm_close(Cuda *c);

// Column sums of dy, and the gradient of ReLU: if relu is given, out = dy where relu > 0, else 0, and
// the sums are those of out.
typedef struct {
  void *sums[2];     // T: [cols] per group, or [cols/2] per group in each of the two, or NULL
  const void *dy;    // input
  void *out;         // written if relu is given
  const void *relu;  // or NULL
  int64_t groups, rows, cols, ld, stride;
} ColumnPass;

void cuda_column_pass(Cuda *c, const ColumnPass *x, Type type);

// ------------------------------- launches --------------------------------------------------------

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// kernel<<<grid, block>>>(args) on the current lane
template <typename... Params, typename... Args>
static void launch(Cuda *c, void (*kernel)(Params...), dim3 grid, dim3 block, Args... args) {
  if (!grid.x || !grid.y || !grid.z || c->status) return;
  if (c->mode == PLAN) {
    // the first use of a kernel loads it, which a capture does not allow
    cudaFuncAttributes attributes;
    cuda_good(c, cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
    return;
  }
  if (c->mode == CAPTURE && c->ops.products_only) return;
  kernel<<<grid, block, 0, c->stream[c->lane]>>>(args...);
  cuda_good(c, cudaGetLastError(), "launch a kernel");
}

#define BY_TYPE(type, ...)     \
  do {                         \
    if ((type) == F32) {       \
      using T = float;         \
      __VA_ARGS__;             \
    } else {                   \
      using T = __nv_bfloat16; \
      __VA_ARGS__;             \
    }                          \
  } while (0)

// one thread per value, THREADS per block
#define THREADS 256

static inline dim3 grid_for(int64_t n) { return dim3((unsigned)divide_up(n, THREADS)); }

// operations of one kind that share a launch; blockIdx.z is the index of the operation
#define TOGETHER 4

template <typename X>
struct Several {
  X x[TOGETHER];
};

// Launches x, x->next, … together, with a thread for each of the values(x) values of each of the
// groups(x) groups (blockIdx.y).
template <typename X>
static void launch_several(Cuda *c, void (*kernel)(Several<X>), const X *x,
                           int64_t (*values)(const X *), int64_t (*groups)(const X *)) {
  while (x) {
    Several<X> several = {};
    int64_t blocks = 0, across = 0;
    unsigned count = 0;
    for (; x && count < TOGETHER; x = x->next) {
      several.x[count++] = *x;
      blocks = max(blocks, divide_up(values(x), THREADS));
      across = max(across, groups(x));
    }
    launch(c, kernel, dim3((unsigned)blocks, (unsigned)across, count), THREADS, several);
  }
}

// one warp per row
static inline dim3 grid_rows(int64_t n) { return dim3((unsigned)divide_up(n, THREADS / 32)); }

__device__ inline int64_t thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
// the same for fewer than 2^32 threads, because a GPU divides 64-bit integers slowly
__device__ inline unsigned thread_index32() { return blockIdx.x * blockDim.x + threadIdx.x; }

// block_start in 32 bits
__device__ inline unsigned block_start32(unsigned block, unsigned n, unsigned K) {
  return (block * n + K - 1) / K;
}

__device__ inline int64_t warp_index() { return thread_index() / 32; }
__device__ inline int lane_index() { return threadIdx.x % 32; }

// ------------------------------- T as float32 ----------------------------------------------------

__device__ inline float get(const float *x) { return *x; }
__device__ inline float get(const __nv_bfloat16 *x) { return __bfloat162float(*x); }
__device__ inline void put(float *x, float v) { *x = v; }
__device__ inline void put(__nv_bfloat16 *x, float v) { *x = __float2bfloat16_rn(v); }

// V values at once: V is 8 if rows are aligned and multiples of 8, else 1
template <int V>
__device__ inline void load(const float *x, float (&v)[V]) {
  if constexpr (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      float4 t = *(const float4 *)(x + i);
      v[i] = t.x, v[i + 1] = t.y, v[i + 2] = t.z, v[i + 3] = t.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = x[i];
  }
}

template <int V>
__device__ inline void load(const __nv_bfloat16 *x, float (&v)[V]) {
  if constexpr (V == 8) {
    uint4 t = *(const uint4 *)x;
    const uint32_t words[4] = {t.x, t.y, t.z, t.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      v[2 * i] = __uint_as_float(words[i] << 16);
      v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = __bfloat162float(x[i]);
  }
}

template <int V>
__device__ inline void store(float *x, const float (&v)[V]) {
  if constexpr (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      *(float4 *)(x + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = v[i];
  }
}

template <int V>
__device__ inline void store(__nv_bfloat16 *x, const float (&v)[V]) {
  if constexpr (V % 2 == 0) {
    uint32_t words[V / 2];
#pragma unroll
    for (int i = 0; i < V / 2; i++) {
      __nv_bfloat162 pair = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
      words[i] = *(const uint32_t *)&pair;
    }
    if constexpr (V == 8) *(uint4 *)x = make_uint4(words[0], words[1], words[2], words[3]);
    if constexpr (V == 4) *(uint2 *)x = make_uint2(words[0], words[1]);
    if constexpr (V == 2) *(uint32_t *)x = words[0];
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = __float2bfloat16_rn(v[i]);
  }
}

// Values that are used only once are loaded and stored so that they leave the cache first.
template <int V>
__device__ inline void load_once(const float *x, float (&v)[V]) {
  if constexpr (V == 4) {
    float4 t = __ldcs((const float4 *)x);
    v[0] = t.x, v[1] = t.y, v[2] = t.z, v[3] = t.w;
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = __ldcs(x + i);
  }
}

template <int V>
__device__ inline void load_once(const __nv_bfloat16 *x, float (&v)[V]) {
  if constexpr (V == 4) {
    uint2 t = __ldcs((const uint2 *)x);
    v[0] = __uint_as_float(t.x << 16), v[1] = __uint_as_float(t.x & 0xffff0000u);
    v[2] = __uint_as_float(t.y << 16), v[3] = __uint_as_float(t.y & 0xffff0000u);
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = __bfloat162float(__ldcs(x + i));
  }
}

template <int V>
__device__ inline void store_once(float *x, const float (&v)[V]) {
  if constexpr (V == 4) {
    __stcs((float4 *)x, make_float4(v[0], v[1], v[2], v[3]));
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) __stcs(x + i, v[i]);
  }
}

__host__ __device__ static inline bool aligned(const void *x, size_t bytes) {
  return (uintptr_t)x % bytes == 0;
}

// ------------------------------- sums ------------------------------------------------------------

// the sum over `lanes` neighbouring lanes, a power of two; every lane gets the same bits
template <typename N>
__device__ inline N warp_sum(N v, int lanes = 32) {
  for (int i = lanes / 2; i > 0; i /= 2) v += __shfl_xor_sync(0xffffffffu, v, i);
  return v;
}

// the sum over the block; every thread gets it
template <typename N>
__device__ inline N block_sum(N v) {
  __shared__ N part[32];
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  N sum = 0;
  for (int i = 0; i < (int)(blockDim.x / 32); i++) sum += part[i];
  return sum;
}

__device__ inline float block_max(float v) {
  __shared__ float part[32];
  for (int i = 16; i > 0; i /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, i));
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int i = 1; i < (int)(blockDim.x / 32); i++) v = fmaxf(v, part[i]);
  return v;
}

// Whether this block is the last of `blocks` to call it. The last one sees what the others wrote.
__device__ inline bool last_block(unsigned *counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(counter, 1) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// loss = the sum of one value per block, over the gridDim.x blocks of replica blockIdx.y
__device__ inline void finish_loss(float *loss, float *partial, unsigned *counter, float value) {
  partial += (int64_t)blockIdx.y * gridDim.x;
  if (threadIdx.x == 0) partial[blockIdx.x] = value;
  if (!last_block(counter + blockIdx.y, gridDim.x)) return;
  double sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += __ldcg(partial + i);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = (float)sum;
}

#endif
