// The policy runtime where a robot needs it most: no allocation, lock or system call in act, the same
// actions on threads, a safe action after every failure, and damaged files.

#define _GNU_SOURCE
#include <fenv.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// after the headers above
#include <cmocka.h>

#include "bfm.h"
#include "bfm_policy.h"

#define MODEL "build/test_policy_safety.safetensors"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

// ------------------------------- a model ---------------------------------------------------------

enum { OBS = 24, ACT = 6, D = 24, SAMPLES = 8 };

static char *file;  // a model, aligned to 64 bytes
static size_t file_size;
static bfm_policy *policy;
static _Thread_local bfm_policy_error error;
static void *policy_memory;
static float obs[OBS], z[D];

static void *memory_of(size_t bytes) {
  void *memory = NULL;
  assert_int_equal(posix_memalign(&memory, 64, bytes + 64), 0);
  return memory;
}

static void read_file(const char *path) {
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  fseek(in, 0, SEEK_END);
  file_size = (size_t)ftell(in);
  rewind(in);
  file = memory_of(file_size);
  assert_int_equal(fread(file, 1, file_size, in), file_size);
  fclose(in);
}

static int set_up(void **state) {
  (void)state;
  bfm_agent *agent;
  float states[40 * OBS];
  double qpos[40 * 9] = {0}, qvel[40 * 9] = {0};
  if (bfm_agent_new(
          &agent, OBS, ACT,
          "{\"d\":24,\"blocks\":3,\"hidden\":64,\"feat\":32,\"b-hidden\":48,\"f-norm\":true}")) {
    return -1;
  }
  bfm_random_normal(3, 1000, 0, (int64_t)40 * OBS, states);
  bfm_agent_set_prompt(agent, "walker", 40, states, qpos, qvel, NULL);
  bfm_agent_save_model(agent, 0, MODEL);
  bfm_agent_free(agent);
  read_file(MODEL);
  remove(MODEL);
  size_t bytes;
  assert_int_equal(bfm_policy_bytes(file, file_size, &bytes, &error), 0);
  policy_memory = memory_of(bytes);
  assert_int_equal(bfm_policy_load(&policy, file, file_size, policy_memory, bytes, &error), 0);
  bfm_random_normal(4, 1000, 0, OBS, obs);
  bfm_random_normal(5, 1000, 0, D, z);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  free(policy_memory);
  free(file);
  return 0;
}

static bfm_policy_work *work_of(void **memory, int samples) {
  bfm_policy_work *work;
  size_t bytes = bfm_policy_work_bytes(policy, samples);
  *memory = memory_of(bytes);
  assert_int_equal(bfm_policy_work_init(&work, policy, samples, *memory, bytes, &error), 0);
  return work;
}

static const bfm_policy_how best_of = {SAMPLES, BFM_POLICY_MEAN, 1, 9, 0};

// ------------------------------- nothing but arithmetic ------------------------------------------

#ifndef SANITIZED
// calls of the functions below by this thread; compilers know that malloc changes no variable
static _Thread_local volatile long calls;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void __libc_free(void *old);
void *malloc(size_t bytes) { return calls++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return calls++, __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return calls++, __libc_realloc(old, bytes); }
void free(void *old) { calls++, __libc_free(old); }

static void test_no_allocation(void **state) {
  (void)state;
  void *memory = NULL;
  bfm_policy_work *work = work_of(&memory, SAMPLES);
  bfm_policy_report report;
  float act[ACT], out[2 * D], bad[OBS] = {NAN};
  long before = calls;
  free(malloc(1));
  assert_int_equal(calls - before, 2);  // the hook counts
  before = calls;
  int status = 0;
  for (int i = 0; i < 20; i++) {
    status |= bfm_policy_act(policy, work, obs, z, i % 2 ? &best_of : NULL, act, &report, &error);
    status |= bfm_policy_B(policy, work, 1, obs, z, out, &error);
    status |= bfm_policy_F(policy, work, obs, act, z, out, &error);
    status |= bfm_policy_prompt_states(policy, work, 1, obs, out, &error);
    status |=
        bfm_policy_act(policy, work, bad, z, NULL, act, &report, &error) != BFM_POLICY_BAD_INPUT;
  }
  assert_int_equal(calls, before);
  assert_int_equal(status, 0);
  free(memory);
}

// In strict mode, the kernel kills a process at any system call but read, write and exit.
static void test_no_system_call(void **state) {
  (void)state;
  void *memory = NULL;
  int pipes[2];
  float mine[ACT], theirs[ACT];
  bfm_policy_work *work = work_of(&memory, SAMPLES);
  assert_int_equal(bfm_policy_act(policy, work, obs, z, &best_of, mine, NULL, &error), 0);
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (!child) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(77);
    bfm_policy_report report;
    float bad[OBS] = {0, INFINITY}, out[D];
    bfm_policy_act(policy, work, bad, z, NULL, theirs, &report, &error);
    bfm_policy_prompt_states(policy, work, 1, obs, out, &error);
    for (int i = 0; i < 50; i++) {
      bfm_policy_act(policy, work, obs, z, &best_of, theirs, &report, &error);
    }
    ssize_t written = write(pipes[1], theirs, sizeof theirs);
    syscall(SYS_exit, written == sizeof theirs ? 0 : 1);
  }
  int status;
  close(pipes[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    print_message("no seccomp on this machine\n");
  } else {
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(pipes[0], theirs, sizeof theirs), sizeof theirs);
    assert_memory_equal(mine, theirs, sizeof mine);
  }
  close(pipes[0]);
  free(memory);
}
#endif

typedef struct {
  const float *expected;
  int same;
} Racer;

static void *race(void *argument) {
  Racer *racer = argument;
  void *memory = NULL;
  bfm_policy_work *work = work_of(&memory, SAMPLES);
  bfm_policy_error own;
  float act[ACT];
  racer->same = 1;
  for (int i = 0; i < 200; i++) {
    bfm_policy_act(policy, work, obs, z, &best_of, act, NULL, &own);
    racer->same &= !memcmp(act, racer->expected, sizeof act);
  }
  free(memory);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  void *memory = NULL;
  float expected[ACT];
  pthread_t threads[4];
  Racer racers[4];
  assert_int_equal(bfm_policy_act(policy, work_of(&memory, SAMPLES), obs, z, &best_of, expected,
                                  NULL, &error),
                   0);
  for (int i = 0; i < 4; i++) {
    racers[i] = (Racer){.expected = expected};
    pthread_create(&threads[i], NULL, race, &racers[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_true(racers[i].same);
  }
  free(memory);
}

// The caller's rounding and traps change nothing and come back; numbers below 1e-38 are not slow.
static void test_floating_point(void **state) {
  (void)state;
  void *memory = NULL;
  float plain[ACT], act[ACT], small[OBS];
  bfm_policy_work *work = work_of(&memory, 0);
  assert_int_equal(bfm_policy_act(policy, work, obs, z, NULL, plain, NULL, &error), 0);
  fesetround(FE_UPWARD);
#if defined(__x86_64__)
  feenableexcept(FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
  int status = bfm_policy_act(policy, work, obs, z, NULL, act, NULL, &error), mode = fegetround();
#if defined(__x86_64__)
  int traps = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  assert_int_equal(traps, FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
  fesetround(FE_TONEAREST);
  assert_int_equal(status, 0);
  assert_int_equal(mode, FE_UPWARD);
  assert_memory_equal(plain, act, sizeof act);
  volatile float tiny = 1e-40f;
  assert_true(tiny * 0.5f > 0);  // the caller's own small numbers stay

  double best[2] = {1e9, 1e9};
  for (int i = 0; i < OBS; i++) small[i] = 1e-40f * (float)(i + 1);
  for (int i = 0; i < 400; i++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    bfm_policy_act(policy, work, i % 2 ? small : obs, z, NULL, act, NULL, &error);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double took = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    if (took < best[i % 2]) best[i % 2] = took;
  }
  assert_true(best[1] < 1.5 * best[0]);
  float zero[OBS] = {0};
  bfm_policy_act(policy, work, zero, z, NULL, plain, NULL, &error);
  bfm_policy_act(policy, work, small, z, NULL, act, NULL, &error);
  assert_memory_equal(plain, act, sizeof act);  // they count as 0
  free(memory);
}

// z of two observations by their rewards
static void prompt_by_rewards(bfm_policy_work *work, float *out) {
  static const float rewards[2] = {0.3f, 0.7f};
  bfm_policy_prompt *prompt;
  float both[2 * OBS];
  size_t bytes = bfm_policy_prompt_bytes(policy, BFM_POLICY_REWARDS);
  void *memory = memory_of(bytes);
  for (int i = 0; i < 2 * OBS; i++) both[i] = i < OBS ? obs[i] : -obs[i - OBS];
  bfm_policy_prompt_init(&prompt, policy, BFM_POLICY_REWARDS, memory, bytes, &error);
  do bfm_policy_prompt_add(prompt, work, 2, both, rewards, &error);
  while (bfm_policy_prompt_pass(prompt, out, &error) == BFM_POLICY_MORE);
  free(memory);
}

// Numbers that are not finite are refused, not trapped, wherever they come in; prompts have the same
// bits in every rounding mode.
static void test_traps(void **state) {
  (void)state;
  void *memory = NULL, *prompt_memory = memory_of(1 << 16), *other = memory_of(1 << 20);
  bfm_policy_work *work = work_of(&memory, 2);
  bfm_policy_prompt *prompt;
  bfm_policy *loaded;
  float bad[OBS], out[D], plain[D], up[D];
  for (int i = 0; i < OBS; i++) bad[i] = NAN;
  bfm_policy_prompt_init(&prompt, policy, BFM_POLICY_REWARDS, prompt_memory, 1 << 16, &error);
  char *damaged = memory_of(file_size);
  memcpy(damaged, file, file_size);
  memset(damaged + file_size - 4, 0xff, 4);
#if defined(__x86_64__)
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
#endif
  const int statuses[] = {
      bfm_policy_B(policy, work, 1, bad, z, out, &error),
      bfm_policy_B(policy, work, 1, obs, bad, out, &error),
      bfm_policy_prompt_states(policy, work, 1, bad, out, &error),
      bfm_policy_prompt_add(prompt, work, 1, bad, NULL, &error),
      bfm_policy_prompt_add(prompt, work, 1, obs, bad, &error),
      bfm_policy_set_limits(work, &(bfm_policy_limits){NULL, NULL, bad, NULL}, &error),
      bfm_policy_load(&loaded, damaged, file_size, other, 1 << 20, &error),
  };
  bfm_policy_set_last(work, bad);
#if defined(__x86_64__)
  fedisableexcept(FE_ALL_EXCEPT);
#endif
  static const int expected[] = {BFM_POLICY_BAD_INPUT, BFM_POLICY_BAD_INPUT,
                                 BFM_POLICY_BAD_INPUT, BFM_POLICY_BAD_INPUT,
                                 BFM_POLICY_BAD_INPUT, BFM_POLICY_BAD_ARGUMENT,
                                 BFM_POLICY_BAD_FILE};
  assert_memory_equal(statuses, expected, sizeof expected);
  for (int i = 0; i < D; i++) assert_true(out[i] == 0);  // of the failed prompt
  prompt_by_rewards(work, plain);
  fesetround(FE_UPWARD);
  prompt_by_rewards(work, up);
  fesetround(FE_TONEAREST);
  assert_memory_equal(plain, up, sizeof up);
  free(damaged), free(other), free(prompt_memory), free(memory);
}

// ------------------------------- failures --------------------------------------------------------

static void refuse(bfm_policy_work *work, const float *o, const float *t, int status,
                   const char *text, const float *safe) {
  bfm_policy_report report;
  float act[ACT];
  memset(act, 0x7f, sizeof act);
  assert_int_equal(bfm_policy_act(policy, work, o, t, NULL, act, &report, &error), status);
  assert_int_equal(error.status, status);
  assert_string_equal(error.text, text);
  assert_memory_equal(act, safe, sizeof act);
  assert_true(isnan(report.q));
}

static void test_refusals(void **state) {
  (void)state;
  void *memory = NULL;
  bfm_policy_work *work = work_of(&memory, 0);
  float bad[OBS], none[D] = {0}, far[D], safe[ACT] = {0.5f, 0, -0.25f, 0, 1}, zero[ACT] = {0};
  memcpy(bad, obs, sizeof bad);
  bad[2] = NAN;
  refuse(work, bad, z, BFM_POLICY_BAD_INPUT, "observation 2 (right_thigh.xx) is nan", zero);
  bfm_policy_set_limits(work, &(bfm_policy_limits){NULL, NULL, NULL, safe}, &error);
  bfm_policy_set_last(work, NULL);
  refuse(work, bad, z, BFM_POLICY_BAD_INPUT, "observation 2 (right_thigh.xx) is nan", safe);
  bad[2] = -2.5e20f;
  refuse(work, bad, z, BFM_POLICY_BAD_INPUT,
         "observation 2 (right_thigh.xx) is -2.5e20, beyond 1e15: check its unit", safe);
  refuse(work, obs, none, BFM_POLICY_BAD_INPUT, "z has the norm 0: it says nothing to the policy",
         safe);
  memcpy(far, z, sizeof far);
  far[1] = 1e20f;
  refuse(work, obs, far, BFM_POLICY_BAD_INPUT, "z has the norm 1e20, above 1e18: scale it down",
         safe);
  far[1] = -INFINITY;
  refuse(work, obs, far, BFM_POLICY_BAD_INPUT, "z is not finite", safe);
  refuse(work, NULL, z, BFM_POLICY_BAD_ARGUMENT, "obs or z is NULL", safe);
  bad[2] = 1e15f;  // far away, but computable
  bfm_policy_report report;
  float act[ACT];
  assert_int_equal(bfm_policy_act(policy, work, bad, z, NULL, act, &report, &error), 0);
  assert_int_equal(report.worst_obs, 2);
  assert_true(report.worst > 1e14f && report.distance > 1e13f);
  assert_int_equal(bfm_policy_act(policy, work, obs, z, NULL, act, &report, &error), 0);
  assert_true(report.distance > 0.3f && report.distance < 3 && error.status == 0 && !*error.text);

  assert_int_equal(bfm_policy_act(policy, work, obs, z, &best_of, act, &report, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_string_equal(error.text,
                      "the workspace was made for 0 samples, and how asks for another number");
  assert_memory_equal(act, safe, sizeof act);
  free(memory);
}

static void test_limits(void **state) {
  (void)state;
  void *memory = NULL;
  bfm_policy_work *work = work_of(&memory, 0);
  float low[ACT], high[ACT], rate[ACT], free_act[ACT], act[ACT], last[ACT] = {0}, bad[OBS] = {NAN};
  bfm_policy_report report;
  bfm_policy_act(policy, work, obs, z, NULL, free_act, &report, &error);
  assert_int_equal(report.limited, 0);
  for (int i = 0; i < ACT; i++) low[i] = -0.05f, high[i] = 0.05f, rate[i] = 0.01f;
  bfm_policy_limits limits = {low, high, rate, high};
  assert_int_equal(bfm_policy_set_limits(work, &limits, &error), 0);
  bfm_policy_set_last(work, last);
  for (int step = 1; step <= 30; step++) {
    // every tenth observation is lost: the safe action is limited, too
    int lost = step % 10 == 0;
    assert_int_equal(bfm_policy_act(policy, work, lost ? bad : obs, z, NULL, act, &report, &error),
                     lost ? BFM_POLICY_BAD_INPUT : 0);
    for (int i = 0; i < ACT; i++) {
      assert_true(fabsf(act[i] - last[i]) <= 0.01f + 1e-7f);
      assert_true(fabsf(act[i]) <= 0.05f);
    }
    memcpy(last, act, sizeof last);
  }
  for (int i = 0; i < ACT; i++) {
    float want = free_act[i] > 0.05f ? 0.05f : free_act[i] < -0.05f ? -0.05f : free_act[i];
    assert_true(fabsf(act[i] - want) <= 0.02f);
  }
  // an action beyond the range counts as its end, and one that is not finite changes nothing
  float beyond[ACT] = {1.01f, -7}, ones[ACT] = {1, -1};
  limits.low = limits.high = NULL;
  bfm_policy_set_limits(work, &limits, &error);
  bfm_policy_set_last(work, beyond);
  beyond[3] = NAN;
  bfm_policy_set_last(work, beyond);
  assert_int_equal(bfm_policy_act(policy, work, obs, z, NULL, act, &report, &error), 0);
  for (int i = 0; i < ACT; i++) assert_true(fabsf(act[i] - ones[i]) <= 0.01f + 1e-7f);
  limits.low = low, limits.high = high;
  low[3] = 0.5f;
  assert_int_equal(bfm_policy_set_limits(work, &limits, &error), BFM_POLICY_BAD_ARGUMENT);
  assert_string_equal(error.text,
                      "the limits of action 3 are not valid: -1 <= low <= high <= 1, "
                      "rate > 0 and -1 <= safe <= 1");
  free(memory);
}

static void test_memory(void **state) {
  (void)state;
  size_t bytes, needed = bfm_policy_work_bytes(policy, 4);
  char *memory = memory_of(needed), text[200];
  bfm_policy_work *work;
  bfm_policy *other;
  assert_int_equal(bfm_policy_work_init(&work, policy, 4, memory + 8, needed, &error),
                   BFM_POLICY_BAD_MEMORY);
  assert_string_equal(error.text, "the memory of a workspace must lie at a multiple of 64 bytes");
  assert_int_equal(bfm_policy_work_init(&work, policy, 4, memory, needed - 1, &error),
                   BFM_POLICY_BAD_MEMORY);
  snprintf(text, sizeof text, "the workspace needs %zu bytes of memory: ask bfm_policy_work_bytes",
           needed);
  assert_string_equal(error.text, text);
  assert_int_equal(bfm_policy_work_init(&work, policy, -1, memory, needed, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_null(work);
  free(memory);
  assert_int_equal(bfm_policy_bytes(file, file_size, &bytes, &error), 0);
  memory = memory_of(bytes);
  assert_int_equal(bfm_policy_load(&other, file, file_size, memory, bytes - 1, &error),
                   BFM_POLICY_BAD_MEMORY);
  assert_int_equal(bfm_policy_load(&other, file, file_size, memory + 4, bytes, &error),
                   BFM_POLICY_BAD_MEMORY);
  assert_int_equal(bfm_policy_load(&other, file + 1, file_size - 1, memory, bytes, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_null(other);
  free(memory);
  assert_int_equal(bfm_policy_open(&other, "build/missing.safetensors", &error), BFM_POLICY_IO);
  assert_string_equal(error.text, "cannot open build/missing.safetensors");
  assert_int_equal(bfm_policy_open(&other, "build", &error), BFM_POLICY_IO);
  remove(MODEL);
  assert_int_equal(mkfifo(MODEL, 0600), 0);  // a pipe that nobody writes to
  assert_int_equal(bfm_policy_open(&other, MODEL, &error), BFM_POLICY_IO);
  assert_string_equal(error.text, "there is no model in " MODEL);
  remove(MODEL);
}

// A model that replaces another one in the same memory has its address, but other sizes.
static void test_replaced(void **state) {
  (void)state;
  size_t small_size = file_size, bytes, most;
  char *small = file;
  bfm_agent *agent;
  assert_int_equal(
      bfm_agent_new(&agent, 2 * OBS, 2 * ACT,
                    "{\"d\":48,\"blocks\":3,\"hidden\":64,\"feat\":32,\"b-hidden\":48}"),
      0);
  assert_int_equal(bfm_agent_save_model(agent, 0, MODEL), 0);
  bfm_agent_free(agent);
  read_file(MODEL);
  remove(MODEL);
  assert_int_equal(bfm_policy_bytes(file, file_size, &most, &error), 0);
  assert_int_equal(bfm_policy_bytes(small, small_size, &bytes, &error), 0);
  if (bytes > most) most = bytes;
  bfm_policy *one;
  bfm_policy_prompt *prompt;
  void *memory = memory_of(most), *prompt_memory = memory_of(1 << 16);
  assert_int_equal(bfm_policy_load(&one, small, small_size, memory, most, &error), 0);
  bfm_policy_work *work;
  bytes = bfm_policy_work_bytes(one, 0);
  void *work_memory = memory_of(bytes);
  assert_int_equal(bfm_policy_work_init(&work, one, 0, work_memory, bytes, &error), 0);
  assert_int_equal(bfm_policy_prompt_init(&prompt, one, BFM_POLICY_REWARDS, prompt_memory, 1 << 16,
                                          &error),
                   0);
  assert_int_equal(bfm_policy_load(&one, file, file_size, memory, most, &error), 0);
  float large[2 * OBS] = {0}, act[2 * ACT], any_z[48] = {1}, out[96];
  assert_int_equal(bfm_policy_act(one, work, large, any_z, NULL, act, NULL, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_string_equal(error.text, "the workspace was made for another model");
  assert_int_equal(bfm_policy_B(one, work, 1, large, any_z, out, &error), BFM_POLICY_BAD_ARGUMENT);
  assert_int_equal(bfm_policy_F(one, work, large, act, any_z, out, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_int_equal(bfm_policy_set_limits(work, NULL, &error), BFM_POLICY_BAD_ARGUMENT);
  bfm_policy_set_last(work, act);
  assert_int_equal(bfm_policy_prompt_add(prompt, work, 1, large, NULL, &error),
                   BFM_POLICY_BAD_ARGUMENT);
  assert_int_equal(bfm_policy_prompt_pass(prompt, any_z, &error), BFM_POLICY_FAILED);
  free(work_memory);
  free(prompt_memory);
  free(memory);
  free(file);
  file = small, file_size = small_size;
}

static void test_nothing(void **state) {
  (void)state;
  bfm_policy_set_last(NULL, NULL);
  bfm_policy_close(NULL);
  bfm_policy_close(policy);  // of bfm_policy_load: its memory is ours
  assert_null(bfm_policy_get_info(NULL));
  assert_null(bfm_policy_prompt_obs(NULL));
  assert_null(bfm_policy_observation(NULL, 0));
  assert_null(bfm_policy_action(NULL, 0));
  assert_int_equal(bfm_policy_work_bytes(NULL, 0), 0);
  assert_int_equal(bfm_policy_prompt_bytes(NULL, BFM_POLICY_STATES), 0);
  assert_int_equal(bfm_policy_get_info(policy)->act_dim, ACT);
}

// ------------------------------- files -----------------------------------------------------------

// loads a copy of the model, with room that is exact, so that sanitizers see every step beyond it
static int load_copy(const char *bytes, size_t size) {
  size_t need;
  char *copy = NULL;
  void *memory = NULL;
  assert_int_equal(posix_memalign((void **)&copy, 64, size ? size : 1), 0);
  memcpy(copy, bytes, size);
  bfm_policy *loaded = NULL;
  int status = bfm_policy_bytes(copy, size, &need, &error);
  if (!status) {
    assert_int_equal(posix_memalign(&memory, 64, need), 0);
    status = bfm_policy_load(&loaded, copy, size, memory, need, &error);
    free(memory);
  }
  free(copy);
  if (status) assert_true((int)error.status == status && *error.text);
  return status;
}

// the model with the first `from` in its header replaced by `to`
static void refuse_changed(const char *from, const char *to, const char *text) {
  uint64_t header;
  memcpy(&header, file, 8);
  char *at = memmem(file, header, from, strlen(from)), *rest = at + strlen(from);
  assert_non_null(at);
  size_t end = header + 8, before = (size_t)(at - file), after = end - before - strlen(from);
  size_t length = before + strlen(to) + after, padded = (length + 7) / 8 * 8;
  char *copy = memory_of(padded + file_size - end);
  memset(copy, ' ', padded);
  memcpy(copy, file, before);
  memcpy(copy + before, to, strlen(to));
  memcpy(copy + before + strlen(to), rest, after);
  memcpy(copy + padded, file + end, file_size - end);
  header = padded - 8;
  memcpy(copy, &header, 8);
  assert_int_equal(load_copy(copy, padded + file_size - end), BFM_POLICY_BAD_FILE);
  assert_string_equal(error.text, text);
  free(copy);
}

static void test_bad_files(void **state) {
  (void)state;
  assert_int_equal(load_copy(file, file_size), 0);
  refuse_changed("\"layout\":\"1\"", "\"layout\":\"2\"",
                 "the file has layout 2, and this runtime reads layout 1: update it");
  refuse_changed("\"bfm\":\"model\"", "\"bfm\":\"state\"",
                 "this is not a model of bfm: export one");
  refuse_changed("\"bfm\":\"model\"", "\"mfb\":\"model\"", "the file was not written by bfm");
  refuse_changed("\\\"d\\\":24", "\\\"d\\\":-4", "d of the model must be 1 to 4096, not -4");
  refuse_changed("\\\"d\\\":24", "\\\"d\\\":25",
                 "tensor F.sz.in.weight has another shape than the configuration implies");
  refuse_changed("fb-aware", "fb-swear",
                 "the model has an algorithm that this runtime does not know");
  refuse_changed("pi.trunk.2.bias", "pi.trunk.7.bias", "tensor pi.trunk.2.bias is missing");
  refuse_changed("\"obs_dim\":\"24\"", "\"obs_dim\":\"x4\"",
                 "the metadata of the file is not valid");
  refuse_changed("\"obs_dim\":\"24\"", "\"obs_dim\":\"24.5\"",
                 "the metadata of the file is not valid");
  char goal[280] = "\\\"goal\\\":\\\"0";  // a list that is longer than any of bfm
  for (int i = 0; i < 130; i++) strcat(goal, ",1");
  refuse_changed("\\\"goal\\\":\\\"", goal, "the goal space of the model is not valid");
  refuse_changed("\\\"goal\\\":\\\"", "\\\"goal\\\":\\\"0:24,3",
                 "the goal space of the model is not valid");
  refuse_changed(
      "\"dtype\":\"F32\"", "\"dtype\":\"F16\"",
      "tensor F.sa.in.weight has a type that this runtime does not read: export the model "
      "with --weights f32, bf16 or int8");
  char *copy = memory_of(file_size);
  memcpy(copy, file, file_size);
  memset(copy + file_size - 4, 0xff, 4);  // NaN
  assert_int_equal(load_copy(copy, file_size), BFM_POLICY_BAD_FILE);
  assert_non_null(strstr(error.text, "is not finite"));
  free(copy);
  static const char *const foreign[] = {"",
                                        "{}",
                                        "\x89HDF\r\n\x1a\nabcdefgh",
                                        "PK\3\4abcdefghijkl",
                                        "\2\0\0\0\0\0\0\0{}",
                                        "\2\0\0\0\0\0\0\0[]",
                                        "\3\0\0\0\0\0\0\0{}x"};
  static const size_t sizes[] = {0, 2, 16, 16, 10, 10, 11};
  for (int i = 0; i < 7; i++) {
    assert_int_equal(load_copy(foreign[i], sizes[i]), BFM_POLICY_BAD_FILE);
  }
  assert_string_equal(error.text, "the header of the file is not valid JSON");
}

// cut anywhere in its header and at places in the data, or with bytes changed: a status, never a crash
static void test_damaged_files(void **state) {
  (void)state;
  uint64_t header;
  memcpy(&header, file, 8);
  size_t end = header + 8;
  for (size_t size = 0; size < file_size; size += size < end ? 7 : file_size / 64 + 1) {
    assert_int_not_equal(load_copy(file, size), 0);
  }
  // only the header and the size of the data matter for what is read where
  float draws[4];
  char *copy = memory_of(file_size);
  memcpy(copy, file, file_size);
  for (int i = 0; i < 3000; i++) {
    bfm_random_uniform(1, 1000, i, 4, draws);
    size_t at = (size_t)(draws[0] * (float)end), count = 1 + (size_t)(draws[1] * 3);
    for (size_t k = at; k < at + count && k < end; k++) {
      copy[k] = draws[3] < 0.5f ? (char)(int)(draws[2] * 255)
                                : "0123456789{}[]\",:"[(int)(draws[2] * 17)];
    }
    size_t bytes;
    bfm_policy_bytes(copy, file_size, &bytes, &error);
    memcpy(copy + at, file + at, at + count <= end ? count : end - at);
  }
  free(copy);
}

// ------------------------------- what a model says -----------------------------------------------

static void test_signals(void **state) {
  (void)state;
  bfm_policy *walker;
  bfm_agent *agent;
  assert_int_equal(bfm_agent_load(&agent, "models/cheetah.safetensors", "{\"device\":\"cpu\"}"), 0);
  assert_int_equal(bfm_agent_export(agent, 0, MODEL, 1, BFM_WEIGHTS_INT8, 0), 0);
  bfm_agent_free(agent);
  assert_int_equal(bfm_policy_open(&walker, MODEL, &error), 0);
  const bfm_policy_info *info = bfm_policy_get_info(walker);
  assert_true(info->control_dt == 0.01);
  assert_int_equal(info->prompt_rows, 0);
  assert_null(bfm_policy_prompt_obs(walker));
  assert_string_equal(bfm_policy_observation(walker, 0)->name, "rootz.q");
  assert_string_equal(bfm_policy_observation(walker, 0)->unit, "m");
  assert_string_equal(bfm_policy_observation(walker, 16)->part, "velocity");
  assert_string_equal(bfm_policy_observation(walker, 16)->unit, "rad/s");
  assert_true(bfm_policy_observation(walker, 16)->std > 0);
  assert_null(bfm_policy_observation(walker, 17));
  assert_string_equal(bfm_policy_action(walker, 0)->name, "bthigh");
  assert_true(bfm_policy_action(walker, 0)->high == 120);
  assert_string_equal(bfm_policy_action(walker, 0)->unit, "N m");
  bfm_policy_close(walker);
  remove(MODEL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#ifndef SANITIZED
      cmocka_unit_test(test_no_allocation), cmocka_unit_test(test_no_system_call),
#endif
      cmocka_unit_test(test_threads),       cmocka_unit_test(test_floating_point),
      cmocka_unit_test(test_refusals),      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_memory),        cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_replaced),
      cmocka_unit_test(test_nothing),       cmocka_unit_test(test_signals),
      cmocka_unit_test(test_traps),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
