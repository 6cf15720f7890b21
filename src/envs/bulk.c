// Rewards of many stored states. Each thread has its own mjData and its own copy of the reward. It
// computes only what the expression reads: kinematics for positions, mj_comVel for velocities, and
// contacts and constraints only for forces.

#include "envs/bulk.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/deadline.h"

#define CHUNK 256  // states per task

typedef struct {
  Reward *reward;
  mjData *data;
} Worker;

typedef struct {
  const mjModel *model;
  int64_t n;
  const double *qpos, *qvel, *act;
  double *out;
  Worker *workers;
  const Deadline *deadline;  // of the calling thread
  atomic_int_fast64_t bad;   // the first invalid state; n: none
} Bulk;

// whether MuJoCo would accept these numbers of a state
static int is_state(const double *values, int64_t count) {
  int good = 1;
  for (int64_t i = 0; i < count; i++) good &= fabs(values[i]) <= mjMAXVAL;
  return good;
}

static void remember_bad(Bulk *b, int64_t state) {
  int_fast64_t known = atomic_load(&b->bad);
  while (state < known && !atomic_compare_exchange_weak(&b->bad, &known, state)) continue;
}

static void run_chunk(void *context, int64_t task, int worker) {
  Bulk *b = context;
  const mjModel *m = b->model;
  Reward *reward = b->workers[worker].reward;
  mjData *d = b->workers[worker].data;
  if (deadline_passed(b->deadline)) return;

  int64_t end = (task + 1) * CHUNK < b->n ? (task + 1) * CHUNK : b->n;
  for (int64_t i = task * CHUNK; i < end; i++) {
    memcpy(d->qpos, b->qpos + i * m->nq, (size_t)m->nq * sizeof(double));
    if (b->qvel) memcpy(d->qvel, b->qvel + i * m->nv, (size_t)m->nv * sizeof(double));
    if (b->act) memcpy(d->act, b->act + i * m->na, (size_t)m->na * sizeof(double));
    if (!is_state(d->qpos, m->nq) || !is_state(d->qvel, m->nv) || !is_state(d->act, m->na)) {
      remember_bad(b, i);
      return;
    }
    // no warm start, because a stored state has no previous step
    memset(d->qacc_warmstart, 0, (size_t)m->nv * sizeof(double));
    reward_forward(reward, m, d);
    b->out[i] = reward_value(reward, m, d);
  }
}

static int workers_new(Worker *workers, int count, const mjModel *m, const Reward *reward) {
  for (int i = 0; i < count; i++) {
    TRY(reward_copy(&workers[i].reward, reward));
    workers[i].data = mj_makeData(m);
    if (!workers[i].data)
      return bfm_fail(BFM_NO_MEMORY, "out of memory for the data of a simulation");
  }
  return BFM_OK;
}

static void workers_free(Worker *workers, int count) {
  for (int i = 0; i < count; i++) {
    reward_free(workers[i].reward);
    if (workers[i].data) mj_deleteData(workers[i].data);
  }
  free(workers);
}

static int run(Bulk *b, const Reward *reward, Threads *threads) {
  int64_t tasks = (b->n + CHUNK - 1) / CHUNK;
  int count = threads ? threads_count(threads) : 1;
  b->workers = calloc((size_t)count, sizeof *b->workers);
  if (!b->workers) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d threads", count);

  int status = workers_new(b->workers, count, b->model, reward);
  if (!status && threads) threads_run(threads, tasks, run_chunk, b);
  for (int64_t task = 0; task < tasks && !status && !threads; task++) run_chunk(b, task, 0);

  int64_t faults = 0;
  for (int i = 0; i < count && !status; i++) faults += reward_faults(b->workers[i].reward);
  workers_free(b->workers, count);
  if (status) return status;

  TRY(deadline_check());
  if (b->bad < b->n) {
    return bfm_fail(BFM_BAD_ARGUMENT, "state %lld has NaN or a number beyond ±%g",
                    (long long)b->bad, mjMAXVAL);
  }
  if (faults == b->n && b->n > 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the reward is NaN or infinite in all %lld states",
                    (long long)b->n);
  }
  return BFM_OK;
}

int rewards_bulk(const mjModel *model, const Alias *aliases, const char *expression, int64_t n,
                 const double *qpos, const double *qvel, const double *act, Threads *threads,
                 double *out) {
  if (n < 0)
    return bfm_fail(BFM_BAD_ARGUMENT, "the number of states is %lld, but must be 0 or more",
                    (long long)n);
  Reward *reward;
  TRY(reward_new(&reward, model, aliases, expression));

  // forces: in a state that was just set, actuation is off
  mjModel *passive = NULL;
  int status = BFM_OK;
  if (reward_stage(reward) == REWARD_FORCE) {
    passive = mj_copyModel(NULL, model);
    if (passive) passive->opt.disableflags |= mjDSBL_ACTUATION;
    else status = bfm_fail(BFM_NO_MEMORY, "out of memory for a copy of the model");
  }
  Bulk bulk = {.model = passive ? passive : model, .n = n, .qpos = qpos, .qvel = qvel, .act = act,
               .out = out, .deadline = deadline_now(), .bad = n};
  if (!status) status = run(&bulk, reward, threads);
  mj_deleteModel(passive);
  reward_free(reward);
  return status;
}
