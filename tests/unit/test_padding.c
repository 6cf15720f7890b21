// Padding of odd sizes: beyond a layer's own weights and biases, parameters, moments and targets are
// zero before and after training. Files contain no padding and survive a round trip byte by byte.
// If there is a GPU, the tests run on it too.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "explore/explorer.h"
#include "core/bf16.h"
#include "core/rng.h"

enum { ROWS = 64, OBS = 17, ACT = 6, TASKS = 2, ENVS = 2 };

// ------------------------------- what is padding -------------------------------------------------

// offset of row i of a tensor's matrices
static int64_t row_at(const Padding *p, int64_t i) {
  return i / p->rows * p->stride + i % p->rows * p->ld;
}

// Sets the tensors' own values to zero in a copy of an array; the rest, the padding, must be zero.
static void check_zero(Ops *ops, const Param *tensors, int count, int replicas, const float *base,
                       const void *array, Type type, int64_t size, const char *what) {
  float *host = malloc(size * sizeof *host);
  uint16_t *half = malloc(size * sizeof *half);
  assert_true(host && half);
  void *to = type == F32 ? (void *)host : half;
  assert_int_equal(ops->download(ops, to, array, size * type_size(type)), BFM_OK);
  for (int64_t i = 0; i < size && type == BF16; i++) host[i] = bf16_to_f32(half[i]);
  int64_t own = 0;
  for (int t = 0; t < count; t++) {
    const NetTensor *x = &tensors[t].tensor;
    int64_t at = tensors[t].at - base;
    if (at < 0 || at >= size) continue;  // a tensor of another array
    for (int64_t i = 0; i < replicas * x->count / x->padding.cols; i++) {
      memset(host + at + row_at(&x->padding, i), 0, x->padding.cols * sizeof *host);
      own += x->padding.cols;
    }
  }
  assert_true(own < size);  // there is padding
  for (int64_t i = 0; i < size; i++) {
    if (host[i] != 0) fail_msg("%s: the padding at %ld is %g", what, (long)i, host[i]);
  }
  free(host);
  free(half);
}

static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = ftell(file);
  rewind(file);
  char *bytes = malloc(*size);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  unlink(path);
  return bytes;
}

static void check_same(const char *path, const char *other) {
  size_t size, other_size;
  char *x = read_file(path, &size), *y = read_file(other, &other_size);
  assert_int_equal(size, other_size);
  assert_memory_equal(x, y, size);
  free(x);
  free(y);
}

static void name_files(char first[64], char second[64]) {
  snprintf(first, 64, "/tmp/bfm-padding-%d-1", (int)getpid());
  snprintf(second, 64, "/tmp/bfm-padding-%d-2", (int)getpid());
}

// ------------------------------- agents ----------------------------------------------------------

static void check_agent(const char *device, const char *algo) {
  char options[256], first[64], second[64];
  snprintf(options, sizeof options,
           "{\"device\": \"%s\", \"algo\": \"%s\", \"d\": 12, \"batch\": 8, \"hidden\": 16, "
           "\"feat\": 8, \"b-hidden\": 16, \"seeds\": 2, \"z-pool\": 4, \"lr\": 1e-2}",
           device, algo);
  bfm_agent *a, *again;
  if (bfm_agent_new(&a, OBS, ACT, options)) return;  // this machine has no such device
  float data[ROWS * (2 * OBS + ACT)];
  for (int i = 0; i < ROWS * (2 * OBS + ACT); i++) {
    data[i] = 2 * random_uniform(1, STREAM_USER, 0, i) - 1;
  }
  assert_int_equal(bfm_agent_set_data(a, ROWS, data, data + ROWS * 2 * OBS, data + ROWS * OBS,
                                      NULL),
                   BFM_OK);
  assert_int_equal(bfm_agent_train(a, 10, NULL), BFM_OK);

  const struct {
    const char *what;
    const float *base;
    const void *array;
    Type type;
    int64_t size;
  } arrays[] = {{"parameters", a->params.value, a->params.value, F32, a->params.count},
                {"gradients", a->params.value, a->params.grad, a->ops->type, a->params.count},
                {"first moments", a->params.value, a->params.adam_m, F32, a->params.count},
                {"second moments", a->params.value, a->params.adam_v, F32, a->params.count},
                {"targets", a->params.target, a->params.target, F32, a->params.target_count}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    check_zero(a->ops, a->params.tensors, a->params.tensor_count, a->R, arrays[i].base,
               arrays[i].array, arrays[i].type, arrays[i].size, arrays[i].what);
  }

  name_files(first, second);
  assert_int_equal(bfm_agent_save_state(a, first), BFM_OK);
  assert_int_equal(bfm_agent_load(&again, first, options), BFM_OK);
  assert_int_equal(bfm_agent_save_state(again, second), BFM_OK);
  check_same(first, second);
  bfm_agent_free(again);

  snprintf(options, sizeof options, "{\"device\": \"%s\"}", device);
  assert_int_equal(bfm_agent_save_model(a, 1, first), BFM_OK);
  assert_int_equal(bfm_agent_load(&again, first, options), BFM_OK);
  assert_int_equal(bfm_agent_save_model(again, 0, second), BFM_OK);
  check_same(first, second);
  bfm_agent_free(again);
  bfm_agent_free(a);
}

static void test_agents(void **state) {
  (void)state;
  static const char *algos[] = {"fb", "fb-aware", "lap"};
  for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
    check_agent("cpu", algos[i]);
    check_agent("cuda", algos[i]);
  }
}

// ------------------------------- explorers -------------------------------------------------------

static void check_explorer(const char *device) {
  enum { ROW = 2 * OBS + ACT + 3 };
  char options[256], first[64], second[64];
  snprintf(options, sizeof options,
           "{\"device\": \"%s\", \"algo\": \"rnd\", \"batch\": 8, \"hidden\": 16, \"rnd-dim\": 5, "
           "\"replay\": 100, \"lr\": 1e-2}",
           device);
  bfm_explorer *e, *again;
  if (bfm_explorer_new(&e, OBS, ACT, TASKS, ENVS, options))
    return;  // this machine has no such device
  float rows[TASKS * ENVS * ROW];
  for (uint64_t step = 0; step < 8; step++) {
    for (int i = 0; i < TASKS * ENVS * ROW; i++) {
      rows[i] = i % ROW == ROW - 1 ? 0 : random_uniform(1, STREAM_USER, step, i);
    }
    assert_int_equal(bfm_explorer_add(e, rows), BFM_OK);
  }
  assert_int_equal(bfm_explorer_update(e, 10), BFM_OK);
  check_zero(e->ops, e->params.tensors, e->params.tensor_count, TASKS, e->params.value,
             e->params.value, F32, e->params.count, "parameters");
  check_zero(e->ops, e->params.tensors, e->params.tensor_count, TASKS, e->params.target,
             e->params.target, F32, e->params.target_count, "targets");

  name_files(first, second);
  assert_int_equal(bfm_explorer_save_state(e, first), BFM_OK);
  assert_int_equal(bfm_explorer_load(&again, first, 0, options), BFM_OK);
  assert_int_equal(bfm_explorer_save_state(again, second), BFM_OK);
  check_same(first, second);
  bfm_explorer_free(again);
  bfm_explorer_free(e);
}

static void test_explorers(void **state) {
  (void)state;
  check_explorer("cpu");
  check_explorer("cuda");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_agents),
                                     cmocka_unit_test(test_explorers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
