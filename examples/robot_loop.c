// A robot's control loop: 500 times a second, on absolute deadlines, with the model's policy.
//
//   bfm export models/walker.safetensors --weights bf16 --prompt-states 5k -o small.safetensors
//   robot_loop small.safetensors [z.json [seconds]]
//
// z.json comes from bfm prompt -o z.json, on any computer; without it, the robot stands up. Nothing in
// the loop allocates, locks or prints. What happened is counted, and printed afterwards.

#define _GNU_SOURCE
#include <bfm_policy.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "robot.h"

#define RATE 500            // ticks per second
#define TICK 2000000        // nanoseconds
#define BUCKETS 20          // of a histogram: 1, 2, 4, 8 … microseconds
#define OBSERVATIONS 20000  // of the training data, at most, to prompt with

typedef struct {
  const char *what;
  long count[BUCKETS];
  long long worst;
} Histogram;

typedef struct {
  bfm_policy *policy;
  bfm_policy_info info;
  bfm_policy_work *work;
  Robot *robot;
  float *obs, *act, *z;
  Histogram late, thinking;
  long actions, failures, missed, far;
  bfm_policy_error first;  // failure
} Loop;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "robot_loop: %s: %s\n", what, why);
  exit(1);
}

static void *get(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) fail("memory", strerror(errno));
  return memset(memory, 0, bytes);
}

// ---------------------------------- before the loop ----------------------------------------------

// Pages that are not in memory and other programs make a loop late. Both calls need a privilege:
// CAP_IPC_LOCK and CAP_SYS_NICE, or limits in /etc/security/limits.conf.
static void become_real_time(void) {
  const struct sched_param priority = {.sched_priority = 80};
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
    printf("memory is not locked (%s): the first use of a page can delay a tick\n",
           strerror(errno));
  }
  if (sched_setscheduler(0, SCHED_FIFO, &priority)) {
    printf("no real-time priority (%s): other programs can delay a tick\n", strerror(errno));
  }
}

// the numbers of "z": [ … ] in a file of bfm prompt
static void read_z(const char *path, float *z, int d) {
  static char text[1 << 16];
  FILE *file = fopen(path, "r");
  if (!file) fail(path, strerror(errno));
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  char *at = strstr(text, "\"z\":");
  at = at ? strchr(at, '[') : NULL;
  for (int i = 0; i < d; i++) {
    char *begin = at ? at + 1 : text;
    z[i] = strtof(begin, &at);
    if (at == begin) fail(path, "is no z of this model: bfm prompt MODEL --task … -o z.json");
    at += strspn(at, " \n");
    if (*at != (i < d - 1 ? ',' : ']')) fail(path, "is the z of another model");
  }
}

// A reward of our own: the torso is high. Its z comes from the observations in the model.
static void prompt_to_stand(Loop *loop) {
  int height = 0;
  bfm_policy_error error;
  bfm_policy_prompt *prompt;
  const bfm_policy_signal *signal;
  const bfm_policy_info *info = &loop->info;
  const float *obs = bfm_policy_prompt_obs(loop->policy);
  size_t bytes = bfm_policy_prompt_bytes(loop->policy, BFM_POLICY_REWARDS);
  while ((signal = bfm_policy_observation(loop->policy, height)) && strcmp(signal->name, "torso.z"))
    height++;
  if (!signal || !obs) fail("the model has no torso.z or no prompt states", "name a z.json");

  void *memory = get(bytes);
  if (bfm_policy_prompt_init(&prompt, loop->policy, BFM_POLICY_REWARDS, memory, bytes, &error)) {
    fail("prompting", error.text);
  }
  int again = BFM_POLICY_MORE;
  while (again == BFM_POLICY_MORE) {
    for (long long i = 0; i < info->prompt_rows && i < OBSERVATIONS; i++) {
      const float *row = obs + i * info->obs_dim, reward = row[height] > 1.2f;
      if (bfm_policy_prompt_add(prompt, loop->work, 1, row, &reward, &error)) {
        fail("prompting", error.text);
      }
    }
    again = bfm_policy_prompt_pass(prompt, loop->z, &error);
  }
  if (again == BFM_POLICY_FAILED) fail("prompting", error.text);
  free(memory);
}

static void open_all(Loop *loop, const char *path) {
  bfm_policy_error error;
  if (bfm_policy_open(&loop->policy, path, &error)) fail(path, error.text);
  const bfm_policy_info *info = &loop->info;
  loop->info = *bfm_policy_get_info(loop->policy);
  size_t bytes = bfm_policy_work_bytes(loop->policy, 0);
  if (bfm_policy_work_init(&loop->work, loop->policy, 0, get(bytes), bytes, &error)) {
    fail("workspace", error.text);
  }
  loop->obs = get(sizeof(float) * (size_t)info->obs_dim);
  loop->act = get(sizeof(float) * (size_t)info->act_dim);
  loop->z = get(sizeof(float) * (size_t)info->d);
  loop->robot = robot_open(info->env, info->obs_dim, info->act_dim, info->control_dt);
  if (!loop->robot) exit(1);
  printf("%s: %d observations, %d actions, weights in %s, kernels for %s\n", info->env,
         info->obs_dim, info->act_dim, info->weights, info->kernels);
  if (info->control_dt > 0) printf("one action lasts %g ms\n", 1e3 * info->control_dt);
  else puts("the model does not say how long an action lasts: a tick; bfm export writes it");
}

// ---------------------------------- the loop -----------------------------------------------------

static long long nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until(long long deadline) {
  const struct timespec at = {deadline / 1000000000, deadline % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) continue;
}

static void count(Histogram *histogram, long long duration) {
  int bucket = 0;
  while (bucket < BUCKETS - 1 && duration >= 1000LL << bucket) bucket++;
  histogram->count[bucket]++;
  if (duration > histogram->worst) histogram->worst = duration;
}

// On failure, act is the safe action: the motors get it like any other.
static void think(Loop *loop) {
  bfm_policy_report report;
  bfm_policy_error error;
  if (bfm_policy_act(loop->policy, loop->work, loop->obs, loop->z, NULL, loop->act, &report,
                     &error)) {
    if (!loop->failures++) loop->first = error;
  }
  loop->far += report.distance > 5;
  loop->actions++;
}

// The policy acts at the first tick of each of its control periods; between them, the motors hold.
static void run(Loop *loop, long ticks) {
  long long start = nanoseconds() + TICK, deadline = start;
  long long period = (long long)(loop->info.control_dt * 1e9), due = start;
  for (long tick = 0; tick < ticks; tick++, deadline += TICK) {
    sleep_until(deadline);
    long long awake = nanoseconds();
    count(&loop->late, awake - deadline);
    robot_read(loop->robot, loop->obs);
    if (deadline >= due) {
      long long begin = nanoseconds();
      think(loop);
      count(&loop->thinking, nanoseconds() - begin);
      robot_write(loop->robot, loop->act);
      due += period > TICK ? period : TICK;
    }
    while (nanoseconds() >= deadline + TICK) {  // too late: leave ticks out instead of hurrying
      loop->missed++;
      tick++;
      deadline += TICK;
    }
  }
}

// ---------------------------------- after the loop -----------------------------------------------

static void print_histogram(const Histogram *h) {
  long all = 0, most = 1;
  for (int b = 0; b < BUCKETS; b++) {
    all += h->count[b];
    if (h->count[b] > most) most = h->count[b];
  }
  printf("\n%s: %ld, the worst %.3f ms\n", h->what, all, 1e-6 * (double)h->worst);
  for (int b = 0; b < BUCKETS; b++) {
    if (!h->count[b]) continue;
    printf("  below %9.3f ms %8ld  %.*s\n", 1e-3 * (1L << b), h->count[b],
           (int)(40 * h->count[b] / most), "########################################");
  }
}

static void print_end(const Loop *loop) {
  print_histogram(&loop->late);
  print_histogram(&loop->thinking);
  printf(
      "\n%ld actions, %ld ticks missed, %ld observations far from the training data, %ld "
      "failures\n",
      loop->actions, loop->missed, loop->far, loop->failures);
  if (loop->failures) printf("the first failure: %s\n", loop->first.text);
  for (int i = 0; i < loop->info.obs_dim; i++) {
    const bfm_policy_signal *signal = bfm_policy_observation(loop->policy, i);
    if (signal && !strcmp(signal->name, "torso.z")) printf("torso.z is %.2f\n", loop->obs[i]);
  }
}

int main(int argc, char **argv) {
  static Loop loop = {.late = {.what = "wake-ups, after their deadline"},
                      .thinking = {.what = "actions, duration"}};
  if (argc < 2) fail("usage", "robot_loop MODEL.safetensors [z.json [SECONDS]]");
  double seconds = argc > 3 ? strtod(argv[3], NULL) : 5;
  if (!(seconds > 0 && seconds < 1e6)) fail(argv[3], "name a number of seconds");
  open_all(&loop, argv[1]);
  if (argc > 2 && *argv[2]) read_z(argv[2], loop.z, loop.info.d);
  else prompt_to_stand(&loop);
  become_real_time();
  run(&loop, (long)(RATE * seconds));
  print_end(&loop);
  robot_close(loop.robot);
  return loop.failures > 0;
}
