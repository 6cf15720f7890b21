// The data of a training run: files read and checked, the domain they are of, their checksum.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/agent.h"
#include "data/hdf5.h"
#include "envs/robot_bundle.h"
#include "envs/tasks.h"
#include "train/training.h"

uint32_t training_checksum(const Dataset *data) {
  const struct {
    const float *values;
    int64_t columns;
  } arrays[] = {{data->obs, data->obs_dim},
                {data->act, data->act_dim},
                {data->next_obs, data->obs_dim},
                {data->discount, 1}};
  uint32_t sum = (uint32_t)crc32_z(0, NULL, 0);
  for (int i = 0; i < 4; i++) {
    size_t bytes = (size_t)(data->count * arrays[i].columns) * sizeof(float);
    sum = (uint32_t)crc32_z(sum, (const unsigned char *)arrays[i].values, bytes);
  }
  return sum;
}

static int read_collector(hid_t file, void *context) {
  Training *t = context;
  hdf5_attribute(file, "collector", t->collector, sizeof t->collector);
  return BFM_OK;
}

// The file names its collector. Without that name, a domain whose reward depends on the whole step
// is D4RL's
static void find_collector(Training *t, const char *path) {
  const Domain *domain;
  hdf5_use(path, read_collector, t);
  if (!*t->collector && !domain_find(&domain, t->env) && domain_rewards_steps(domain)) {
    strcpy(t->collector, "d4rl");
  }
}

const Domain *training_goal_domain(const Training *t) {
  const Domain *domain;
  if (domain_find(&domain, t->env) || domain->obs_dim != t->data.obs_dim) return NULL;
  return domain->goal_dim ? domain : NULL;
}

// named: the domain that the file names, or empty
static int choose_env(Training *t, const char *named) {
  const char *given = t->settings.env;
  const Domain *domain;
  snprintf(t->env, sizeof t->env, "%s", *given ? given : named);
  if (robot_is_path(given)) {
    TRY(domain_find(&domain, given));
    snprintf(t->env, sizeof t->env, "%s", given = domain->name);
  }
  if (!*given || !*named || !strcmp(given, named)) return BFM_OK;
  TRY(domain_find(&domain, given));
  return bfm_fail(BFM_BAD_ARGUMENT, "the data is of %s, not of %s: leave out --env", named, given);
}

int training_read_data(Training *t, const cJSON *record) {
  Dataset *data = &t->data;
  const cJSON *names = cJSON_GetObjectItem(record, "data");
  int given = t->plan.data_count > 0 || !t->plan.resume;
  int count = given ? t->plan.data_count : cJSON_GetArraySize(names);
  const char **paths = calloc(count + 1, sizeof *paths);
  if (!paths) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d names", count);
  for (int i = 0; i < count; i++) {
    paths[i] = given ? t->plan.data[i] : cJSON_GetArrayItem(names, i)->valuestring;
  }
  int status = (t->settings.prompt_states ? dataset_read_all : dataset_read)(data, paths, count);
  if (!status && (data->obs_dim > OBS_MOST || data->act_dim > ACT_MOST)) {
    status = bfm_fail(BFM_BAD_FILE,
                      "%s has observations of %" PRId64 " and actions of %" PRId64
                      " numbers: an agent takes at most %d and %d",
                      paths[0], data->obs_dim, data->act_dim, OBS_MOST, ACT_MOST);
  }
  if (!status) status = choose_env(t, data->env);
  if (!status) find_collector(t, paths[0]);
  if (!status) status = domain_check_obs(t->env, data->obs_dim, paths[0]);
  free(paths);
  TRY(status);
  TRY(dataset_check_actions(data));
  const Domain *domain = training_goal_domain(t);
  if (domain) TRY(dataset_clear(data, domain->obs_dim - domain->goal_dim));
  return dataset_stride(data, t->settings.stride);
}
