// Policies of one task. The file is looked at first, since how many rows there will be depends on
// the tasks to measure, and those may be its own.

#include "rollout/policy.h"

#include <stdio.h>
#include <string.h>

#include "data/safetensors.h"

int policy_find(Policy *p, const char *path, int *found) {
  *p = (Policy){.path = path};
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  const char *kind = safetensors_metadata(file, "bfm"), *env = safetensors_metadata(file, "env");
  const char *task = safetensors_metadata(file, "task");
  *found = kind && !strcmp(kind, "policy");
  if (env) snprintf(p->env, sizeof p->env, "%s", env);
  if (task) snprintf(p->task, sizeof p->task, "%s", task);
  safetensors_close(file);
  return BFM_OK;
}

static int act(void *context, int replica, int64_t rows, const float *obs, const float *z,
               uint64_t seed, uint64_t step, float *out) {
  (void)replica, (void)rows, (void)z, (void)seed;
  return bfm_explorer_act(context, obs, 0, step, out);
}

int policy_load(Policy *p, int rows, const char *options, Actor *actor) {
  const Domain *domain;
  if (!*p->env) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s does not say of which domain it is", p->path);
  }
  TRY(domain_find(&domain, p->env));
  TRY(world_acquire(&p->world, domain));
  TRY(bfm_explorer_load(&p->explorer, p->path, rows, options));
  bfm_explorer_sizes sizes = {.size = sizeof sizes};
  bfm_explorer_get_sizes(p->explorer, &sizes);
  if (sizes.obs_dim != domain->obs_dim || sizes.act_dim != p->world->model->nu) {
    return bfm_fail(BFM_BAD_FILE, "%s is no policy of %s: it has %ld observations and %ld actions",
                    p->path, p->env, (long)sizes.obs_dim, (long)sizes.act_dim);
  }
  *actor = (Actor){.act = act, .actor = p->explorer, .env = p->env, .obs_dim = sizes.obs_dim,
                   .act_dim = sizes.act_dim, .replicas = 1};
  return BFM_OK;
}

void policy_free(Policy *p) {
  bfm_explorer_free(p->explorer);
  world_release(p->world);
  *p = (Policy){.path = NULL};
}
