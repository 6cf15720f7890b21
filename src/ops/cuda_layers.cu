// The CUDA backend's layers and parameter updates. Each normalized segment (one block of one row)
// gets only as many lanes of a warp as it can fill, so that narrow blocks waste none, and stays in
// their registers until its mean and variance are known. Sums over rows are computed in chunks,
// which are then added up in a fixed order.

#include "ops/cuda.cuh"

#define MIN_NORM 1e-12f  // keeps a zero row finite

// ------------------------------- column sums -----------------------------------------------------

#define COLUMN_ROWS 8    // rows that a block reads at once
#define COLUMN_BLOCKS 4  // blocks per multiprocessor: enough to saturate its memory

// Adds up the sums of the block's threads; the last block of a column adds up those of all chunks.
template <typename T, int V>
__device__ inline void column_sums(const ColumnPass &x, const float (&sum)[V], float *scratch,
                                   unsigned *counters) {
  __shared__ float part[COLUMN_ROWS][32 * V];
#pragma unroll
  for (int j = 0; j < V; j++) part[threadIdx.y][threadIdx.x * V + j] = sum[j];
  __syncthreads();
  int64_t g = blockIdx.z;
  int own = threadIdx.y * 32 + threadIdx.x;
  int64_t col = (int64_t)blockIdx.x * 32 * V + own;
  bool mine = own < 32 * V && col < x.cols;
  float total = 0;
  if (mine) {
    for (int i = 0; i < COLUMN_ROWS; i++) total += part[i][own];
  }
  if (gridDim.y > 1) {
    scratch += g * gridDim.y * x.cols + col;
    if (mine) scratch[blockIdx.y * x.cols] = total;
    if (!last_block(counters + g * gridDim.x + blockIdx.x, gridDim.y)) return;
    total = 0;
#pragma unroll 16
    for (unsigned i = 0; mine && i < gridDim.y; i++) total += __ldcg(scratch + i * x.cols);
  }
  if (!mine) return;
  int64_t cols = x.sums[1] ? x.cols / 2 : x.cols, half = col >= cols;
  put((T *)x.sums[half] + g * cols + col - half * cols, total);
}

// one block per 32·V columns of a chunk of rows of a group
template <typename T, int V, bool MASK, bool SUM>
__global__ void column_kernel(const ColumnPass x, int64_t chunk, float *scratch,
                              unsigned *counters) {
  int64_t col = ((int64_t)blockIdx.x * 32 + threadIdx.x) * V, g = blockIdx.z;
  int64_t end = min((blockIdx.y + 1) * chunk, x.rows);
  const T *dy = (const T *)x.dy + g * x.stride + col;
  const T *relu = (const T *)x.relu + g * x.stride + col;
  T *out = (T *)x.out + g * x.stride + col;
  float sum[V] = {};
  if (col < x.cols) {
#pragma unroll 4
    for (int64_t i = blockIdx.y * chunk + threadIdx.y; i < end; i += COLUMN_ROWS) {
      float v[V];
      load(dy + i * x.ld, v);
      if (MASK) {
        float y[V];
        load(relu + i * x.ld, y);
#pragma unroll
        for (int j = 0; j < V; j++) v[j] = y[j] > 0 ? v[j] : 0;
        store(out + i * x.ld, v);
      }
#pragma unroll
      for (int j = 0; j < V; j++) sum[j] += v[j];
    }
  }
  if constexpr (SUM) column_sums<T, V>(x, sum, scratch, counters);
}

template <typename T, int V>
static void column_pass(Cuda *c, const ColumnPass *x) {
  int64_t tiles = divide_up(x->cols, 32 * V);
  int64_t chunks = divide_up(COLUMN_BLOCKS * c->multiprocessors, tiles * x->groups);
  chunks = min(chunks, divide_up(x->rows, 4 * COLUMN_ROWS));
  int64_t room = SCRATCH / (x->groups * x->cols);
  if (x->sums[0]) chunks = tiles * x->groups > COUNTERS ? 1 : min(chunks, max(room, (int64_t)1));
  int64_t chunk = divide_up(divide_up(x->rows, chunks), COLUMN_ROWS) * COLUMN_ROWS;
  dim3 grid((unsigned)tiles, (unsigned)divide_up(x->rows, chunk), (unsigned)x->groups);
  auto kernel = !x->relu     ? column_kernel<T, V, false, true>
                : x->sums[0] ? column_kernel<T, V, true, true>
                             : column_kernel<T, V, true, false>;
  launch(c, kernel, grid, dim3(32, COLUMN_ROWS), *x, chunk, c->scratch[c->lane],
         c->counters[c->lane]);
}

void cuda_column_pass(Cuda *c, const ColumnPass *x, Type type) {
  bool wide = x->cols % 8 == 0 && x->ld % 8 == 0 && x->stride % 8 == 0 && aligned(x->dy, 16) &&
              aligned(x->relu, 16) && aligned(x->out, 16);
  if (wide) {
    BY_TYPE(type, column_pass<T, 8>(c, x));
  } else {
    BY_TYPE(type, column_pass<T, 1>(c, x));
  }
}

static void bias_grad(Ops *ops, const BiasGrad *x) {
  ColumnPass pass = {{x->db, NULL}, x->dy,   NULL,  NULL,     x->groups,
                     x->rows,       x->cols, x->ld, x->stride};
  cuda_column_pass(cuda_of(ops), &pass, ops->type);
}

// ------------------------------- layer norm and activation ---------------------------------------

// bfloat16 has 8 significant bits, so the hardware's tanh with its 11 correct bits is enough
__device__ inline float tanh_as(float x, const float *) { return tanhf(x); }
__device__ inline float tanh_as(float x, const __nv_bfloat16 *) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <Activation F, typename T>
__device__ inline float activate(float x, const T *type) {
  return F == TANH ? tanh_as(x, type) : fmaxf(x, 0);
}

template <Activation F>
__device__ inline float slope_of(float y) {
  return F == TANH ? 1 - y * y : y > 0 ? 1 : 0;
}

// the number of lanes that share a segment of n vectors
static inline int lanes_for(int64_t n) {
  int lanes = 1;
  while (lanes < 32 && lanes < n) lanes *= 2;
  return lanes;
}

// The activation's input. Forward and backward round it alike, so they see the same sign at a ReLU.
__device__ inline float affine(float hat, float gain, float bias) { return fmaf(hat, gain, bias); }

// A lane keeps its N vectors of a segment in registers. N = 0: there are too many for that, so they
// are read again each time.
template <typename T, int V, int N, Activation F>
__global__ void norm_kernel(const Norm x, unsigned lanes) {
  unsigned blocks = x.end_block - x.first_block, rows = x.rows, total = x.groups * rows * blocks;
  unsigned segment = thread_index32() / lanes;
  bool active = segment < total;  // inactive lanes still take part in the sums of their warp
  segment = active ? segment : total - 1;
  unsigned k = x.first_block + segment % blocks, row = segment / blocks % rows;
  int64_t g = segment / blocks / rows, at = g * x.row_stride + row;
  unsigned lo = block_start32(k, x.width, x.blocks), hi = block_start32(k + 1, x.width, x.blocks);
  unsigned begin = lo + threadIdx.x % lanes * V, step = lanes * V;
  const T *in = (const T *)x.x + at * x.width;
  T *out = (T *)x.y + at * x.width;
  const float *gain = x.gain + g * x.width, *bias = x.bias + g * x.width;

  float held[N ? N : 1][V];
  auto each = [&](auto use) {  // use(column, vector)
    if constexpr (N > 0) {
#pragma unroll
      for (int i = 0; i < N; i++) {
        if (begin + i * step < hi) use(begin + i * step, held[i]);
      }
    } else {
#pragma unroll 4
      for (unsigned j = begin; j < hi; j += step) {
        load(in + j, held[0]);
        use(j, held[0]);
      }
    }
  };
  if constexpr (N > 0) each([&](unsigned j, float(&v)[V]) { load(in + j, v); });
  float sum = 0, square = 0;
  each([&](unsigned, const float(&v)[V]) {
#pragma unroll
    for (int i = 0; i < V; i++) sum += v[i];
  });
  float mean = warp_sum(sum, lanes) / (hi - lo);
  each([&](unsigned, const float(&v)[V]) {
#pragma unroll
    for (int i = 0; i < V; i++) square += (v[i] - mean) * (v[i] - mean);
  });
  float scale = 1.0f / sqrtf(warp_sum(square, lanes) / (hi - lo) + 1e-5f);
  if (!active) return;
  each([&](unsigned j, float(&v)[V]) {
    float w[V], b[V];
    load(gain + j, w);
    load(bias + j, b);
#pragma unroll
    for (int i = 0; i < V; i++) {
      v[i] = activate<F>(affine((v[i] - mean) * scale, w[i], b[i]), in);
    }
    store(out + j, v);
  });
  if (threadIdx.x % lanes == 0) {
    float *stats = x.stats + (at * x.blocks + k) * 2;
    stats[0] = mean;
    stats[1] = scale;
  }
}

// whether the blocks of a row consist of whole aligned vectors of 8
static bool wide_blocks(int64_t width, int64_t blocks) {
  return width % blocks == 0 && width / blocks % 8 == 0;
}

template <typename T, int V, int N>
static void norm_of(Cuda *c, const Norm *x) {
  Norm y = *x;
  if (!y.end_block) y.end_block = y.blocks;
  int lanes = lanes_for(divide_up(divide_up(y.width, y.blocks), V));
  dim3 grid = grid_for(y.groups * y.rows * (y.end_block - y.first_block) * lanes);
  auto kernel = y.activation == TANH ? norm_kernel<T, V, N, TANH> : norm_kernel<T, V, N, RELU>;
  launch(c, kernel, grid, THREADS, y, (unsigned)lanes);
}

static void norm(Ops *ops, const Norm *x) {
  Cuda *c = cuda_of(ops);
  bool wide = wide_blocks(x->width, x->blocks) && aligned(x->x, 16) && aligned(x->y, 16) &&
              aligned(x->gain, 16) && aligned(x->bias, 16);
  int64_t held = divide_up(x->width / x->blocks, 32 * 8);  // vectors of a segment per lane
  if (!wide) {
    BY_TYPE(ops->type, norm_of<T, 1, 0>(c, x));
  } else if (held > 4) {
    BY_TYPE(ops->type, norm_of<T, 8, 0>(c, x));
  } else if (held > 2) {
    BY_TYPE(ops->type, norm_of<T, 8, 4>(c, x));
  } else if (held > 1) {
    BY_TYPE(ops->type, norm_of<T, 8, 2>(c, x));
  } else {
    BY_TYPE(ops->type, norm_of<T, 8, 1>(c, x));
  }
}

// A thread block processes `chunk` rows of a group, NORM_CHUNK of them at once: each team of WARPS
// warps reads WARPS rows into registers. A thread has the same 8 columns in every row and
// accumulates their dgain, dbias and sums of dx. A segment is shared by `lanes` lanes of `span`
// warps.
template <typename T, int WARPS, Activation F>
__global__ void __launch_bounds__(THREADS, 4 / sizeof(T))
    norm_grad_kernel(const NormGrad x, unsigned chunk, unsigned lanes, unsigned span) {
  constexpr int V = 8, TEAMS = NORM_CHUNK / WARPS;
  static_assert(NORM_CHUNK == THREADS / 32);
  __shared__ float2 parts[2][WARPS][THREADS / 32];  // each warp's part of the sums of its segment
  __shared__ float4 teams[3 * V / 4][THREADS];      // each thread's sums over rows
  unsigned warp = threadIdx.x / 32, team = warp / WARPS, width = x.width, blocks = x.blocks;
  unsigned mine = threadIdx.x % (WARPS * 32) * V, col = mine < width ? mine : 0;
  unsigned size = width / blocks, k = col / size, row0 = blockIdx.x * chunk;
  unsigned end = min(row0 + chunk, (unsigned)x.rows);
  int64_t g = blockIdx.y, base = g * x.row_stride * x.width + col;
  const T *dy = (const T *)x.dy + base, *in = (const T *)x.x + base;
  T *dx = (T *)x.dx + base;
  const float *stats = x.stats + (g * x.row_stride * blocks + k) * 2;
  const float *gain = x.gain + g * x.width + col, *bias = x.bias + g * x.width + col;
  float sums[3][V] = {};

  for (unsigned flip = 0; row0 < end; row0 += NORM_CHUNK, flip ^= 1) {
    float d[WARPS][V], hat[WARPS][V], mean[WARPS], scale[WARPS];
    float2 sum[WARPS];
    float w[V], b[V];
    load(gain, w);
    load(bias, b);
#pragma unroll
    for (int r = 0; r < WARPS; r++) {  // rows past the end read the last row, which is then ignored
      int64_t row = min(row0 + r * TEAMS + team, end - 1);
      load(dy + row * width, d[r]);
      load(in + row * width, hat[r]);
      mean[r] = stats[row * blocks * 2];
      scale[r] = stats[row * blocks * 2 + 1];
    }
#pragma unroll
    for (int r = 0; r < WARPS; r++) {
      bool active = mine < width && row0 + r * TEAMS + team < end;
      float own = 0, own_hat = 0;
#pragma unroll
      for (int i = 0; i < V; i++) {
        float h = hat[r][i] = (hat[r][i] - mean[r]) * scale[r];
        float y = activate<F>(affine(h, w[i], b[i]), in);
        float e = active ? d[r][i] * slope_of<F>(y) : 0;
        sums[0][i] += e * h;
        sums[1][i] += e;
        d[r][i] = e *= w[i];
        own += e;
        own_hat += e * h;
      }
      sum[r] = make_float2(warp_sum(own, lanes), warp_sum(own_hat, lanes));
    }
    if (WARPS > 1 && span > 1) {
#pragma unroll
      for (int r = 0; r < WARPS; r++) {
        if (lane_index() == 0) parts[flip][r][warp] = sum[r];
      }
      __syncthreads();
#pragma unroll
      for (int r = 0; r < WARPS; r++) {
        const float2 *part = &parts[flip][r][warp / span * span];
        sum[r] = part[0];
        for (unsigned i = 1; i < span; i++) sum[r].x += part[i].x, sum[r].y += part[i].y;
      }
    }
#pragma unroll
    for (int r = 0; r < WARPS; r++) {
      unsigned row = row0 + r * TEAMS + team;
      float shift = scale[r] * sum[r].x / size, along = scale[r] * sum[r].y / size;
#pragma unroll
      for (int i = 0; i < V; i++) {
        d[r][i] = scale[r] * d[r][i] - (shift + hat[r][i] * along);
        sums[2][i] += d[r][i];
      }
      if (mine < width && row < end) store(dx + (int64_t)row * width, d[r]);
    }
  }

  // the first team adds up the sums of all teams
  if (!x.dgain) return;
  float *scratch = x.scratch + (g * gridDim.x + blockIdx.x) * x.width * 3 + col;
#pragma unroll
  for (int i = 0; i < 3 * V; i += 4) {
    const float *s = &sums[i / V][i % V];
    if (team > 0) teams[i / 4][threadIdx.x] = make_float4(s[0], s[1], s[2], s[3]);
  }
  __syncthreads();
  if (team > 0 || mine >= width) return;
#pragma unroll
  for (int i = 0; i < 3 * V; i += 4) {
    const float *s = &sums[i / V][i % V];
    float4 sum = make_float4(s[0], s[1], s[2], s[3]);
#pragma unroll
    for (int t = 1; t < TEAMS; t++) {
      float4 v = teams[i / 4][t * WARPS * 32 + threadIdx.x];
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    *(float4 *)(scratch + i / V * width + i % V) = sum;
  }
}

#define MAX_BLOCKS 64  // per row: shared memory holds their sums

// The same for any width and number of blocks. A thread block processes NORM_CHUNK rows: first the
// two sums of each segment, then, column by column, the rest. The second pass finds the rows in the
// cache.
template <typename T, int V, Activation F>
__global__ void norm_grad_any_kernel(const NormGrad x, unsigned lanes) {
  __shared__ float part[3][THREADS * V];
  __shared__ float2 sums[NORM_CHUNK * MAX_BLOCKS];
  int64_t g = blockIdx.y, row0 = (int64_t)blockIdx.x * NORM_CHUNK;
  unsigned rows = min((int64_t)NORM_CHUNK, x.rows - row0), blocks = x.blocks, width = x.width;
  int64_t base = (g * x.row_stride + row0) * x.width;
  const T *dy = (const T *)x.dy + base, *in = (const T *)x.x + base;
  const float *gain = x.gain + g * x.width, *bias = x.bias + g * x.width;
  const float *stats = x.stats + (g * x.row_stride + row0) * blocks * 2;

  // sums over segments
  unsigned segments = rows * blocks, together = THREADS / lanes;
  for (unsigned s0 = 0; s0 < segments; s0 += together) {
    unsigned segment = min(s0 + threadIdx.x / lanes, segments - 1), k = segment % blocks;
    unsigned at = segment / blocks * width;
    unsigned lo = block_start32(k, width, blocks), hi = block_start32(k + 1, width, blocks);
    float mean = stats[segment * 2], scale = stats[segment * 2 + 1], sum = 0, sum_hat = 0;
#pragma unroll 4
    for (unsigned j = lo + threadIdx.x % lanes * V; j < hi; j += lanes * V) {
      float d[V], v[V], w[V], b[V];
      load(dy + at + j, d);
      load(in + at + j, v);
      load(gain + j, w);
      load(bias + j, b);
#pragma unroll
      for (int i = 0; i < V; i++) {
        float hat = (v[i] - mean) * scale;
        float e = d[i] * slope_of<F>(activate<F>(affine(hat, w[i], b[i]), in)) * w[i];
        sum += e;
        sum_hat += e * hat;
      }
    }
    sum = warp_sum(sum, lanes) / (hi - lo);
    sum_hat = warp_sum(sum_hat, lanes) / (hi - lo);
    if (threadIdx.x % lanes == 0) sums[segment] = make_float2(sum, sum_hat);
  }
  __syncthreads();

  // dx, and sums over the chunk's rows
  unsigned vectors = (width + V - 1) / V, across = min(vectors, (unsigned)THREADS);
  unsigned down = THREADS / across, mine = threadIdx.x % across, down0 = threadIdx.x / across;
  float *scratch = x.scratch + (g * gridDim.x + blockIdx.x) * x.width * 3;
  for (unsigned first = 0; first < vectors; first += across) {
    unsigned col = (first + mine) * V;
    float dgain[V] = {}, dbias[V] = {}, total[V] = {};
    if (down0 < down && col < width) {
      unsigned k = col * blocks / width;
      float w[V], b[V];
      load(gain + col, w);
      load(bias + col, b);
#pragma unroll 2
      for (unsigned row = down0; row < rows; row += down) {
        unsigned at = row * width + col, segment = row * blocks + k;
        float d[V], v[V], mean = stats[segment * 2], scale = stats[segment * 2 + 1];
        float2 sum = sums[segment];
        load(dy + at, d);
        load(in + at, v);
#pragma unroll
        for (int i = 0; i < V; i++) {
          float hat = (v[i] - mean) * scale;
          float e = d[i] * slope_of<F>(activate<F>(affine(hat, w[i], b[i]), in));
          dbias[i] += e;
          dgain[i] += e * hat;
          d[i] = scale * (e * w[i] - sum.x - hat * sum.y);
          total[i] += d[i];
        }
        store((T *)x.dx + base + at, d);
      }
    }
    if (!x.dgain) continue;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; i++) {
      part[0][threadIdx.x * V + i] = dgain[i];
      part[1][threadIdx.x * V + i] = dbias[i];
      part[2][threadIdx.x * V + i] = total[i];
    }
    __syncthreads();
    for (unsigned j = threadIdx.x; j < across * V && first * V + j < width; j += THREADS) {
#pragma unroll
      for (int which = 0; which < 3; which++) {
        float sum = 0;
        for (unsigned i = 0; i < down; i++) sum += part[which][i * across * V + j];
        scratch[which * width + first * V + j] = sum;
      }
    }
  }
}

// adds up dgain, dbias and the sums of dx over chunks; one block per 32 of a group's 3·width columns
template <typename T>
__global__ void norm_sums_kernel(const NormGrad x, unsigned chunks) {
  __shared__ float part[COLUMN_ROWS][32];
  unsigned width = x.width, col = blockIdx.x * 32 + threadIdx.x;
  int64_t g = blockIdx.y;
  const float *scratch = x.scratch + g * chunks * width * 3 + col;
  float sum = 0;
  if (col < 3 * width) {
#pragma unroll 16
    for (unsigned i = threadIdx.y; i < chunks; i += COLUMN_ROWS) sum += scratch[i * width * 3];
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= 3 * width) return;
#pragma unroll
  for (int i = 1; i < COLUMN_ROWS; i++) sum += part[i][threadIdx.x];
  void *out = col < width ? x.dgain : col < 2 * width ? x.dbias : x.sums;
  put((T *)out + g * width + col % width, sum);
}

// adds up dgain, dbias and the sums of dx over chunks, if they are wanted
template <typename T>
static void norm_sums(Cuda *c, const NormGrad *x, unsigned chunks) {
  if (!x->dgain) return;
  dim3 grid((unsigned)divide_up(3 * x->width, 32), (unsigned)x->groups);
  launch(c, norm_sums_kernel<T>, grid, dim3(32, COLUMN_ROWS), *x, chunks);
}

template <typename T, int WARPS>
static void norm_grad_of(Cuda *c, const NormGrad *x) {
  // just enough thread blocks to fill the GPU, because each writes a row of sums
  int64_t chunks = divide_up(c->multiprocessors * NORM_CHUNK / WARPS, x->groups);
  int64_t chunk = divide_up(divide_up(x->rows, chunks), NORM_CHUNK) * NORM_CHUNK;
  int64_t vectors = x->width / x->blocks / 8;
  dim3 grid((unsigned)divide_up(x->rows, chunk), (unsigned)x->groups);
  auto kernel =
      x->activation == TANH ? norm_grad_kernel<T, WARPS, TANH> : norm_grad_kernel<T, WARPS, RELU>;
  launch(c, kernel, grid, THREADS, *x, (unsigned)chunk, (unsigned)lanes_for(vectors),
         (unsigned)(x->blocks == 1 ? WARPS : divide_up(vectors, 32)));
  norm_sums<T>(c, x, grid.x);
}

template <typename T, int V>
static void norm_grad_any(Cuda *c, const NormGrad *x) {
  int lanes = lanes_for(divide_up(divide_up(x->width, x->blocks), V));
  dim3 grid((unsigned)divide_up(x->rows, NORM_CHUNK), (unsigned)x->groups);
  auto kernel =
      x->activation == TANH ? norm_grad_any_kernel<T, V, TANH> : norm_grad_any_kernel<T, V, RELU>;
  launch(c, kernel, grid, THREADS, *x, (unsigned)lanes);
  norm_sums<T>(c, x, grid.x);
}

static void norm_grad(Ops *ops, const NormGrad *x) {
  Cuda *c = cuda_of(ops);
  if (x->blocks > MAX_BLOCKS) {
    cuda_failed(c, BFM_BAD_ARGUMENT, "a row has %ld blocks, but at most %d are supported",
                (long)x->blocks, MAX_BLOCKS);
    return;
  }
  bool wide = wide_blocks(x->width, x->blocks) && aligned(x->x, 16) && aligned(x->dy, 16) &&
              aligned(x->dx, 16) && aligned(x->gain, 16) && aligned(x->bias, 16) &&
              aligned(x->scratch, 16);
  // whether a segment is a power of two of lanes, or whole warps, or a whole row
  int64_t vectors = x->width / x->blocks / 8;
  bool even = x->blocks == 1 || vectors % 32 == 0 || vectors == lanes_for(vectors);
  if (!wide) {
    BY_TYPE(ops->type, norm_grad_any<T, 1>(c, x));
  } else if (!even || x->width > 1024) {
    BY_TYPE(ops->type, norm_grad_any<T, 8>(c, x));
  } else if (x->width > 512) {
    BY_TYPE(ops->type, norm_grad_of<T, 4>(c, x));
  } else if (x->width > 256) {
    BY_TYPE(ops->type, norm_grad_of<T, 2>(c, x));
  } else {
    BY_TYPE(ops->type, norm_grad_of<T, 1>(c, x));
  }
}

// ------------------------------- moving ----------------------------------------------------------

// a row of an operand that has `rows` rows per group (0: as many as out), which repeat
__device__ inline const float *pack_row(const float *in, unsigned rows, unsigned cols, unsigned row,
                                        const Pack &x) {
  if (!rows) rows = x.rows;
  return in + ((int64_t)blockIdx.y * rows + (row < rows ? row : row % rows)) * cols;
}

// one thread per V columns of a row
template <typename T, int V>
__global__ void pack_kernel(const Several<Pack> several) {
  const Pack &x = several.x[blockIdx.z];
  unsigned a_cols = x.a_cols, width = a_cols + x.b_cols, vectors = (width + V - 1) / V;
  unsigned i = thread_index32(), col = i % vectors * V, row = i / vectors;
  int64_t g = blockIdx.y;
  if (g >= x.groups || row >= x.rows) return;
  const float *a = pack_row(x.a, x.a_rows, a_cols, row, x) + col;
  const float *b = pack_row(x.b, x.b_rows, x.b_cols, row, x) + (int64_t)col - a_cols;
  const float *from = col < a_cols ? a : b;
  bool whole = col + V <= width, one = col + V <= a_cols || col >= a_cols;
  float v[V];
  if (whole && one && aligned(from, 16)) {
    load(from, v);
  } else {
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = col + j < a_cols ? a[j] : col + j < width ? b[j] : 0;
  }
  for (int64_t copy = 0; copy < x.copies; copy++) {
    T *out = (T *)x.out + ((g * x.copies + copy) * x.row_stride + x.row0 + row) * x.ld + col;
    if (whole) {
      store(out, v);
    } else {
      for (unsigned j = 0; j < width - col; j++) put(out + j, v[j]);
    }
  }
}

template <int V>
static int64_t pack_vectors(const Pack *x) {
  return x->rows * divide_up(x->a_cols + x->b_cols, V);
}
static int64_t pack_groups(const Pack *x) { return x->groups; }

static void pack(Ops *ops, const Pack *x) {
  Cuda *c = cuda_of(ops);
  bool wide = true;
  for (const Pack *y = x; y; y = y->next) wide = wide && y->ld % 8 == 0 && aligned(y->out, 16);
  if (wide) {
    BY_TYPE(ops->type, launch_several(c, pack_kernel<T, 8>, x, pack_vectors<8>, pack_groups));
  } else {
    BY_TYPE(ops->type, launch_several(c, pack_kernel<T, 1>, x, pack_vectors<1>, pack_groups));
  }
}

template <typename U>
__global__ void copy_columns_kernel(const CopyColumns x) {
  unsigned i = thread_index32(), cols = x.cols, col = i % cols;
  int64_t row = i / cols, g = blockIdx.y;
  if (row >= x.rows) return;
  ((U *)x.out)[g * x.stride_out + row * x.ld_out + col] =
      ((const U *)x.in)[g * x.stride_in + row * x.ld_in + col];
}

static void copy_columns(Ops *ops, const CopyColumns *x) {
  Cuda *c = cuda_of(ops);
  int64_t size = (int64_t)type_size(ops->type), wide = 16 / size;
  CopyColumns y = *x;
  if ((x->cols | x->ld_out | x->ld_in | x->stride_out | x->stride_in) % wide == 0 &&
      aligned(x->out, 16) && aligned(x->in, 16)) {
    y.cols /= wide, y.ld_out /= wide, y.ld_in /= wide, y.stride_out /= wide, y.stride_in /= wide;
    size = 16;
  }
  auto kernel = size == 16  ? copy_columns_kernel<uint4>
                : size == 4 ? copy_columns_kernel<uint32_t>
                            : copy_columns_kernel<uint16_t>;
  launch(c, kernel, dim3((unsigned)divide_up(y.rows * y.cols, THREADS), (unsigned)y.groups),
         THREADS, y);
}

__global__ void select_columns_kernel(const SelectColumns x) {
  unsigned i = thread_index32(), cols = x.out_cols;
  if (i >= x.rows * x.out_cols) return;
  x.out[i] = x.in[i / cols * x.in_cols + x.columns[i % cols]];
}

static void select_columns(Ops *ops, const SelectColumns *x) {
  launch(cuda_of(ops), select_columns_kernel, grid_for(x->rows * x->out_cols), THREADS, *x);
}

// ------------------------------- outputs of the networks -----------------------------------------

__device__ inline float clip(float x, float limit) { return fminf(fmaxf(x, -limit), limit); }

__global__ void policy_action_kernel(const Several<PolicyAction> several) {
  const PolicyAction &x = several.x[blockIdx.z];
  int64_t i = thread_index(), g = blockIdx.y;
  if (g >= x.groups || i >= x.rows * x.act_dim) return;
  unsigned row = (unsigned)i / (unsigned)x.act_dim, col = (unsigned)i % (unsigned)x.act_dim;
  int64_t to = g * x.rows * x.act_dim + i;
  float mu = tanhf(x.x[(g * x.row_stride + row) * x.ld + col]);
  x.mu[g * x.row_stride * x.act_dim + i] = mu;
  if (!x.act) return;
  float noise = x.noise ? clip(x.sigma * x.noise[to], x.noise_clip) : 0;
  x.act[to] = clip(mu + noise, 1);
}

static int64_t action_values(const PolicyAction *x) { return x->rows * x->act_dim; }
static int64_t action_groups(const PolicyAction *x) { return x->groups; }

static void policy_action(Ops *ops, const PolicyAction *x) {
  launch_several(cuda_of(ops), policy_action_kernel, x, action_values, action_groups);
}

// `lanes` lanes per block of each row
__global__ void block_norm_kernel(const BlockNorm x, unsigned lanes) {
  unsigned blocks = x.blocks, segment = thread_index32() / lanes, total = x.rows * blocks;
  bool active = segment < total;
  segment = active ? segment : total - 1;
  unsigned k = segment % blocks, lo = block_start32(k, x.d, blocks);
  unsigned n = block_start32(k + 1, x.d, blocks) - lo;
  int64_t at = segment / blocks * x.d + lo;
  float square = 0;
  for (unsigned j = threadIdx.x % lanes; j < n; j += lanes) square += x.x[at + j] * x.x[at + j];
  float scale = sqrtf((float)n) / fmaxf(sqrtf(warp_sum(square, lanes)), MIN_NORM);
  if (!active) return;
  for (unsigned j = threadIdx.x % lanes; j < n; j += lanes) x.y[at + j] = x.x[at + j] * scale;
}

static void block_norm(Ops *ops, const BlockNorm *x) {
  int lanes = lanes_for(divide_up(x->d, x->blocks));
  launch(cuda_of(ops), block_norm_kernel, grid_for(x->rows * x->blocks * lanes), THREADS, *x,
         (unsigned)lanes);
}

__global__ void block_norm_grad_kernel(const BlockNormGrad x, unsigned lanes) {
  unsigned blocks = x.blocks, segment = thread_index32() / lanes, total = x.rows * blocks;
  bool active = segment < total;
  segment = active ? segment : total - 1;
  unsigned k = segment % blocks, lo = block_start32(k, x.d, blocks);
  unsigned n = block_start32(k + 1, x.d, blocks) - lo;
  int64_t at = segment / blocks * x.d + lo;
  float square = 0, dot = 0;
  for (unsigned j = threadIdx.x % lanes; j < n; j += lanes) {
    square += x.x[at + j] * x.x[at + j];
    dot += x.x[at + j] * x.dy[at + j];
  }
  float norm = fmaxf(sqrtf(warp_sum(square, lanes)), MIN_NORM);
  // A block of one value is only its sign, whose gradient is zero. Computing it would leave rounding
  // errors, which Adam would amplify.
  float scale = n > 1 ? sqrtf((float)n) / norm : 0;
  float along = warp_sum(dot, lanes) / (norm * norm);
  if (!active) return;
  for (unsigned j = threadIdx.x % lanes; j < n; j += lanes) {
    x.dx[at + j] = scale * (x.dy[at + j] - x.x[at + j] * along);
  }
}

static void block_norm_grad(Ops *ops, const BlockNormGrad *x) {
  int lanes = lanes_for(divide_up(x->d, x->blocks));
  launch(cuda_of(ops), block_norm_grad_kernel, grid_for(x->rows * x->blocks * lanes), THREADS, *x,
         (unsigned)lanes);
}

// one warp per row
__global__ void residual_norm_kernel(const ResidualNorm x) {
  int64_t row = warp_index();
  if (row >= x.rows) return;
  const float *z = x.z + row * x.d;
  float square = 0;
  for (unsigned k = 0, lo = 0; k < x.blocks; k++) {
    unsigned hi = block_start32(k + 1, x.d, x.blocks);
    float own = 0;
    for (unsigned j = lo + lane_index(); j < hi; j += 32) own += z[j] * z[j];
    square += warp_sum(own);
    float scale = sqrtf((float)hi) / fmaxf(sqrtf(square), MIN_NORM);
    for (unsigned j = lo + lane_index(); j < hi; j += 32) x.y[row * x.d + j] = z[j] * scale;
    lo = hi;
  }
}

static void residual_norm(Ops *ops, const ResidualNorm *x) {
  launch(cuda_of(ops), residual_norm_kernel, grid_rows(x->rows), THREADS, *x);
}

// ------------------------------- parameters ------------------------------------------------------

template <int V>
__device__ inline void mask_at(const uint8_t *mask, int64_t i, float (&v)[V]) {
  if (!mask) return;
#pragma unroll
  for (int j = 0; j < V; j++) v[j] = mask[i + j] ? v[j] : 0;
}

template <typename T, int V>
__device__ inline void adam_at(const Adam &x, int64_t i, float rate, float root) {
  float p[V], m[V], v[V], g[V], t[V] = {};
  load_once(x.param + i, p);
  load_once(x.m + i, m);
  load_once(x.v + i, v);
  load_once((const T *)x.grad + i, g);
  if (x.target) load_once(x.target + i, t);
  mask_at(x.mask, i, g);
#pragma unroll
  for (int j = 0; j < V; j++) {
    m[j] += (1 - x.beta1) * (g[j] - m[j]);
    v[j] = x.beta2 * v[j] + (1 - x.beta2) * g[j] * g[j];
    p[j] -= rate * m[j] / (sqrtf(v[j]) * root + x.epsilon);
    t[j] += x.tau * (p[j] - t[j]);
  }
  store_once(x.param + i, p);
  store_once(x.m + i, m);
  store_once(x.v + i, v);
  if (x.target) store_once(x.target + i, t);
  mask_at(x.mask, i, p);
  mask_at(x.mask, i, t);
  if (x.copy) store((T *)x.copy + i, p);
  if (x.target && x.target_copy) store((T *)x.target_copy + i, t);
}

// Whole vectors in a grid-stride loop, then the remaining values. log1 and log2 are log(beta1) and
// log(beta2).
template <typename T, int V>
__global__ void adam_kernel(const Adam x, float log1, float log2) {
  float t = (float)(*x.step + 1);
  float lr = x.lr * adam_anneal(x.anneal, *x.step);
  float rate = lr / -expm1f(t * log1), root = 1 / sqrtf(-expm1f(t * log2));
  int64_t stride = (int64_t)gridDim.x * blockDim.x * V, whole = x.count / V * V;
  for (int64_t i = thread_index() * V; i < whole; i += stride) adam_at<T, V>(x, i, rate, root);
  int64_t rest = whole + thread_index();
  if (rest < x.count) adam_at<T, 1>(x, rest, rate, root);
}

#define SMALL_UPDATE (8 << 20)  // parameters

static void adam(Ops *ops, const Adam *x) {
  Cuda *c = cuda_of(ops);
  if (x->count <= 0) return;
  size_t four = 4 * type_size(ops->type);
  bool wide = aligned(x->param, 16) && aligned(x->m, 16) && aligned(x->v, 16) &&
              aligned(x->grad, four) && aligned(x->target, 16) && aligned(x->copy, four) &&
              aligned(x->target_copy, four);
  // The update of one model, on its own lane, has time: a few long-running blocks leave most
  // multiprocessors to the products of other lanes. The update of several models takes longer and
  // needs the full memory bandwidth.
  bool few = c->lane && x->count < SMALL_UPDATE;
  int threads = few ? 1024 : THREADS;
  int64_t blocks = divide_up(wide ? divide_up(x->count, 4) : x->count, threads);
  if (few) blocks = min(blocks, divide_up(c->multiprocessors, 4));
  BY_TYPE(ops->type,
          launch(c, wide ? adam_kernel<T, 4> : adam_kernel<T, 1>, (unsigned)blocks, threads, *x,
                 (float)log((double)x->beta1), (float)log((double)x->beta2)));
}

template <typename T>
__global__ void masked_copy_kernel(const MaskedCopy x) {
  int64_t i = thread_index();
  if (i < x.count) put((T *)x.out + i, !x.mask || x.mask[i] ? x.in[i] : 0);
}

static void masked_copy(Ops *ops, const MaskedCopy *x) {
  BY_TYPE(ops->type, launch(cuda_of(ops), masked_copy_kernel<T>, grid_for(x->count), THREADS, *x));
}

__global__ void increment_kernel(int64_t *counter) { ++*counter; }

static void increment(Ops *ops, int64_t *counter) {
  launch(cuda_of(ops), increment_kernel, 1, 1, counter);
}

void cuda_layers(Ops *ops) {
  ops->bias_grad = bias_grad;
  ops->norm = norm;
  ops->norm_grad = norm_grad;
  ops->pack = pack;
  ops->copy_columns = copy_columns;
  ops->select_columns = select_columns;
  ops->policy_action = policy_action;
  ops->block_norm = block_norm;
  ops->block_norm_grad = block_norm_grad;
  ops->residual_norm = residual_norm;
  ops->adam = adam;
  ops->masked_copy = masked_copy;
  ops->increment = increment;
}
