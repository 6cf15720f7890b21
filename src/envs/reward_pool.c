// Copies of one reward for many threads. A free copy is a pointer in an array of atomic pointers, so
// that taking one is a single exchange and nobody waits for a lock.

#include "envs/reward_pool.h"

#include <stdatomic.h>
#include <stdlib.h>

#define PLACES 64  // copies that are kept; more threads than that make and free their own

struct RewardPool {
  Reward *original;
  _Atomic(Reward *) copies[PLACES];
};

int reward_pool_new(RewardPool **out, Reward *reward) {
  RewardPool *pool = *out = calloc(1, sizeof *pool);
  if (!pool) {
    reward_free(reward);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for copies of an expression");
  }
  pool->original = reward;
  return BFM_OK;
}

void reward_pool_free(RewardPool *pool) {
  if (!pool) return;
  for (int i = 0; i < PLACES; i++) reward_free(pool->copies[i]);
  reward_free(pool->original);
  free(pool);
}

Reward *reward_pool_take(RewardPool *pool) {
  for (int i = 0; i < PLACES; i++) {
    if (!atomic_load_explicit(&pool->copies[i], memory_order_relaxed)) continue;
    Reward *copy = atomic_exchange_explicit(&pool->copies[i], NULL, memory_order_acquire);
    if (copy) return copy;
  }
  Reward *copy;
  return reward_copy(&copy, pool->original) ? NULL : copy;
}

void reward_pool_give(RewardPool *pool, Reward *copy) {
  for (int i = 0; i < PLACES; i++) {
    Reward *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&pool->copies[i], &none, copy, memory_order_release,
                                                memory_order_relaxed)) {
      return;
    }
  }
  reward_free(copy);
}

const Reward *reward_pool_original(const RewardPool *pool) { return pool->original; }

double reward_pool_value(RewardPool *pool, const mjModel *model, const mjData *data) {
  Reward *reward = reward_pool_take(pool);
  if (!reward) mju_error("out of memory for a copy of an expression");
  double value = reward_value(reward, model, data);
  reward_pool_give(pool, reward);
  return value;
}
