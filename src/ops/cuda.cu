// The CUDA backend: opening a GPU, memory, lanes and graphs. A recorded body is called twice: first
// in planning mode, in which products choose their algorithms and nothing runs, then to capture a
// CUDA graph, in which lanes are streams that events fork and join. The host never waits inside a
// replay.

#include "ops/cuda.cuh"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"

pthread_mutex_t cuda_alone = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------- failures --------------------------------------------------------

void cuda_failed(Cuda *c, int status, const char *format, ...) {
  if (c->status) return;
  c->status = status;
  va_list args;
  va_start(args, format);
  vsnprintf(c->message, sizeof c->message, format, args);
  va_end(args);
}

int cuda_good(Cuda *c, cudaError_t error, const char *what) {
  if (error == cudaSuccess) return 1;
  cudaGetLastError();
  if (error == cudaErrorMemoryAllocation) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    cuda_failed(c, BFM_NO_MEMORY,
                "%s has %s of %s free, too little to %s: "
                "reduce batch, seeds, the preset or the data",
                c->name, size_of_bytes(free).text, size_of_bytes(total).text, what);
  } else {
    cuda_failed(c, BFM_UNAVAILABLE, "%s failed to %s: %s", c->name, what,
                cudaGetErrorString(error));
  }
  return 0;
}

static int report(Cuda *c) {
  int status = c->status;
  c->status = BFM_OK;
  return status ? c->fail(status, "%s", c->message) : BFM_OK;
}

// ------------------------------- memory ----------------------------------------------------------

static int cuda_alloc(Ops *ops, void **memory, size_t bytes) {
  Cuda *c = cuda_of(ops);
  *memory = NULL;
  cudaSetDevice(c->device);
  char what[64];
  snprintf(what, sizeof what, "allocate %s", size_of_bytes(bytes).text);
  if (cuda_good(c, cudaMalloc(memory, bytes ? bytes : 1), what)) {
    cuda_good(c, cudaMemsetAsync(*memory, 0, bytes, c->stream[0]), "clear memory");
    cuda_good(c, cudaStreamSynchronize(c->stream[0]), "clear memory");
  }
  return report(c);
}

static void cuda_release(Ops *ops, void *memory) {
  cudaSetDevice(cuda_of(ops)->device);
  cudaFree(memory);
}

static int transfer(Cuda *c, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  cudaSetDevice(c->device);
  if (c->mode != RUN) {
    cuda_failed(c, BFM_BAD_ARGUMENT, "a recorded body must not move data between host and GPU");
  } else {
    cuda_good(c, cudaMemcpyAsync(to, from, bytes, kind, c->stream[0]), "move data");
    cuda_good(c, cudaStreamSynchronize(c->stream[0]), "finish its work");
  }
  return report(c);
}

static int cuda_upload(Ops *ops, void *to, const void *from, size_t bytes) {
  return transfer(cuda_of(ops), to, from, bytes, cudaMemcpyHostToDevice);
}

static int cuda_download(Ops *ops, void *to, const void *from, size_t bytes) {
  return transfer(cuda_of(ops), to, from, bytes, cudaMemcpyDeviceToHost);
}

// whether to issue an operation that is neither a kernel nor a product, such as a copy
static int issues(Cuda *c) {
  return !c->status && c->mode != PLAN && !(c->mode == CAPTURE && c->ops.products_only);
}

static void cuda_copy(Ops *ops, void *to, const void *from, size_t bytes) {
  Cuda *c = cuda_of(ops);
  if (!issues(c)) return;
  cuda_good(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c->stream[c->lane]),
            "copy memory");
}

static void cuda_zero(Ops *ops, void *to, size_t bytes) {
  Cuda *c = cuda_of(ops);
  if (!issues(c)) return;
  cuda_good(c, cudaMemsetAsync(to, 0, bytes, c->stream[c->lane]), "clear memory");
}

static int cuda_sync(Ops *ops) {
  Cuda *c = cuda_of(ops);
  cudaSetDevice(c->device);
  for (int i = 0; i < LANES; i++) {
    cuda_good(c, cudaStreamSynchronize(c->stream[i]), "finish its work");
  }
  return report(c);
}

// ------------------------------- lanes -----------------------------------------------------------

static void cuda_lane(Ops *ops, int lane) {
  Cuda *c = cuda_of(ops);
  if (lane < 0 || lane >= LANES) {
    cuda_failed(c, BFM_BAD_ARGUMENT, "lane %d is not in 0 … %d", lane, LANES - 1);
  } else if (lane && c->mode == CAPTURE && !(c->forked & 1 << lane)) {
    // its stream is not part of the capture, so operations would run at once
    cuda_failed(c, BFM_BAD_ARGUMENT, "lane %d is used before it is forked", lane);
  } else {
    c->lane = lane;
  }
}

static void follow(Cuda *c, int later, int earlier, int lane) {
  if (c->mode == PLAN || c->status) return;
  cuda_good(c, cudaEventRecord(c->event[lane], c->stream[earlier]), "record an event");
  cuda_good(c, cudaStreamWaitEvent(c->stream[later], c->event[lane], 0), "wait for an event");
}

static void cuda_fork(Ops *ops, int lane) {
  Cuda *c = cuda_of(ops);
  c->forked |= 1 << lane;
  follow(c, lane, c->lane, lane);
}

static void cuda_join(Ops *ops, int lane) { follow(cuda_of(ops), cuda_of(ops)->lane, lane, lane); }

// ------------------------------- graphs ----------------------------------------------------------

#define BODIES 16  // in the longer of a recording's two graphs, so that the GPU waits less often

struct OpsGraph {
  cudaGraphExec_t one, many;  // one body; BODIES of them in a row
  int64_t flops;              // of one body
};

static void cuda_forget(Ops *ops, OpsGraph *graph) {
  if (!graph) return;
  cudaSetDevice(cuda_of(ops)->device);
  cudaStreamSynchronize(cuda_of(ops)->stream[0]);
  if (graph->one) cudaGraphExecDestroy(graph->one);
  if (graph->many) cudaGraphExecDestroy(graph->many);
  free(graph);
}

static void call(Cuda *c, Mode mode, void (*body)(void *), void *context) {
  c->mode = mode;
  c->lane = 0;
  body(context);
  c->lane = 0;
}

static cudaGraph_t capture_bodies(Cuda *c, int bodies, void (*body)(void *), void *context) {
  cudaGraph_t captured = NULL;
  if (c->status ||
      !cuda_good(c, cudaStreamBeginCapture(c->stream[0], cudaStreamCaptureModeThreadLocal),
                 "begin a graph")) {
    return NULL;
  }
  c->forked = 0;
  for (int i = 0; i < bodies; i++) call(c, CAPTURE, body, context);
  for (int i = 1; i < LANES; i++) {
    if (c->forked & 1 << i) follow(c, 0, i, i);
  }
  c->mode = RUN;
  cuda_good(c, cudaStreamEndCapture(c->stream[0], &captured), "end a graph");
  return captured;
}

static void capture(Cuda *c, cudaGraphExec_t *exec, int bodies, void (*body)(void *),
                    void *context) {
  pthread_mutex_lock(&cuda_alone);
  cudaGraph_t captured = capture_bodies(c, bodies, body, context);
  pthread_mutex_unlock(&cuda_alone);
  if (captured && !c->status) {
    // nodes keep the priorities of the streams they were captured from
    cuda_good(c, cudaGraphInstantiate(exec, captured, cudaGraphInstantiateFlagUseNodePriority),
              "create a graph");
  }
  if (captured) cudaGraphDestroy(captured);
  if (*exec) cuda_good(c, cudaGraphUpload(*exec, c->stream[0]), "load a graph");
}

static int cuda_record(Ops *ops, OpsGraph **out, void (*body)(void *context), void *context) {
  Cuda *c = cuda_of(ops);
  *out = NULL;
  OpsGraph *graph = (OpsGraph *)calloc(1, sizeof *graph);
  if (!graph) return c->fail(BFM_NO_MEMORY, "out of memory for a graph");

  int status = cuda_sync(ops);  // so that an earlier failure is not taken for one of this graph
  int64_t flops = ops->flops;
  if (!status) call(c, PLAN, body, context);
  c->mode = RUN;
  ops->flops = 0;
  if (!status) capture(c, &graph->one, 1, body, context);
  graph->flops = ops->flops;
  if (!status) capture(c, &graph->many, BODIES, body, context);
  ops->flops = flops;
  if (!status) status = report(c);
  if (status) {
    cuda_forget(ops, graph);
    return status;
  }
  *out = graph;
  return BFM_OK;
}

static int cuda_replay(Ops *ops, OpsGraph *graph, int64_t times) {
  Cuda *c = cuda_of(ops);
  cudaSetDevice(c->device);
  for (int64_t left = times; left > 0 && !c->status;) {
    int many = left >= BODIES;
    cuda_good(c, cudaGraphLaunch(many ? graph->many : graph->one, c->stream[0]), "launch a graph");
    left -= many ? BODIES : 1;
  }
  ops->flops += times * graph->flops;
  return report(c);
}

// ------------------------------- opening ---------------------------------------------------------

static void cuda_close(Ops *ops) {
  Cuda *c = cuda_of(ops);
  cudaSetDevice(c->device);
  cuda_gemm_close(c);
  if (c->blas) cublasLtDestroy(c->blas);
  for (int i = 0; i < LANES; i++) {
    if (c->stream[i]) cudaStreamSynchronize(c->stream[i]);
    cudaFree(c->workspace[i]);
    cudaFree(c->scratch[i]);
    cudaFree(c->counters[i]);
    if (c->event[i]) cudaEventDestroy(c->event[i]);
    if (c->stream[i]) cudaStreamDestroy(c->stream[i]);
  }
  free(c);
}

static int find_device(Cuda *c, int device) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return c->fail(BFM_UNAVAILABLE,
                   "the NVIDIA driver supports CUDA %d.%d, but bfm needs %d.%d: update the driver",
                   driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10);
  }
  if (error != cudaSuccess || count == 0) {
    return c->fail(BFM_UNAVAILABLE, "no GPU answers: %s", cudaGetErrorString(error));
  }
  if (device < 0 || device >= count) {
    return c->fail(BFM_UNAVAILABLE, "there is no GPU cuda:%d: this machine has %d", device, count);
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error != cudaSuccess) {
    return c->fail(BFM_UNAVAILABLE, "cuda:%d does not answer: %s", device,
                   cudaGetErrorString(error));
  }
  snprintf(c->name, sizeof c->name, "cuda:%d %s", device, properties.name);
  if (properties.major < 8) {
    return c->fail(BFM_UNAVAILABLE, "%s has compute capability %d.%d, but bfm needs 8.0", c->name,
                   properties.major, properties.minor);
  }
  c->device = device;
  c->multiprocessors = properties.multiProcessorCount;
  return BFM_OK;
}

static int make_lanes(Cuda *c) {
  int least = 0, greatest = 0;  // the greatest priority is the lowest number
  if (c->urgent) {
    cuda_good(c, cudaDeviceGetStreamPriorityRange(&least, &greatest),
              "report its stream priorities");
  }
  for (int i = 0; i < LANES; i++) {
    cuda_good(c,
              cudaStreamCreateWithPriority(&c->stream[i], cudaStreamNonBlocking,
                                           min(greatest + i, least)),
              "create a stream");
    cuda_good(c, cudaEventCreateWithFlags(&c->event[i], cudaEventDisableTiming), "create an event");
    cuda_good(c, cudaMalloc(&c->workspace[i], WORKSPACE), "allocate a workspace");
    cuda_good(c, cudaMalloc(&c->scratch[i], SCRATCH * sizeof(float)), "allocate scratch");
    if (cuda_good(c, cudaMalloc(&c->counters[i], COUNTERS * sizeof(unsigned)),
                  "allocate scratch")) {
      cuda_good(c, cudaMemset(c->counters[i], 0, COUNTERS * sizeof(unsigned)), "clear scratch");
    }
  }
  if (!c->status && cublasLtCreate(&c->blas) != CUBLAS_STATUS_SUCCESS) {
    cuda_failed(c, BFM_UNAVAILABLE, "%s: cannot start cuBLASLt", c->name);
  }
  cuda_good(c, cudaDeviceSynchronize(), "start");
  return report(c);
}

static int setting(const char *variable, int otherwise) {
  const char *value = getenv(variable);
  return value && *value ? atoi(value) : otherwise;
}

extern "C" __attribute__((visibility("default"))) int bfm_cuda_open(Ops **out, int device,
                                                                    Precision precision,
                                                                    const char *version,
                                                                    unsigned sum, Fail fail) {
  *out = NULL;
  if (strcmp(version, BFM_VERSION) || sum != OPS_SUM) {
    return fail(BFM_UNAVAILABLE,
                CUDA_PLUGIN " is of bfm " BFM_VERSION
                            " (operations %u), but the program is of %s (%u): "
                            "build both from one checkout",
                OPS_SUM, version, sum);
  }
  Cuda *c = (Cuda *)calloc(1, sizeof *c);
  if (!c) return fail(BFM_NO_MEMORY, "out of memory for the CUDA backend");
  c->timed = setting("BFM_CUDA_TIMED", 1);
  c->urgent = setting("BFM_CUDA_URGENT", 1);
  c->fail = fail;
  c->precision = precision;
  Ops *ops = &c->ops;
  ops->name = c->name;
  ops->type = precision_type(precision);
  int status = find_device(c, device);
  if (!status) status = make_lanes(c);
  if (status) {
    cuda_close(ops);
    return status;
  }

  ops->alloc = cuda_alloc;
  ops->release = cuda_release;
  ops->upload = cuda_upload;
  ops->download = cuda_download;
  ops->copy = cuda_copy;
  ops->zero = cuda_zero;
  ops->sync = cuda_sync;
  ops->close = cuda_close;
  ops->lane = cuda_lane;
  ops->fork = cuda_fork;
  ops->join = cuda_join;
  ops->record = cuda_record;
  ops->replay = cuda_replay;
  ops->forget = cuda_forget;
  cuda_gemms(ops);
  cuda_layers(ops);
  cuda_draws(ops);
  cuda_losses(ops);
  cuda_offline(ops);
  cuda_explore(ops);
  *out = ops;
  return BFM_OK;
}
