// Minari's format: an HDF5 file with one group per episode ("episode_0", …), or the folder that
// Minari puts it in. An episode has one more observation than actions.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/format.h"

static int matches(const char *path, hid_t file) {
  (void)path;
  return file >= 0 && hdf5_has(file, "episode_0") && !hdf5_has(file, "observations");
}

// The observation may be a dictionary with goals. Only its entry "observation" is read, because for
// an agent z is the goal.
static int read_episode(Dataset *data, hid_t group, const char *env) {
  static const char entry[] = "observations/observation";
  const char *name = hdf5_has(group, entry) ? entry : "observations";
  int64_t n = 0, obs_dim = 0, act_dim = 0, rows = 0;
  int axes;
  TRY(hdf5_shape(group, "actions", &n, &act_dim, &axes));
  TRY(hdf5_shape(group, name, &rows, &obs_dim, &axes));
  if (rows != n + 1) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s has %" PRId64
                    " rows, but must have one more than actions, which has %" PRId64,
                    name, rows, n);
  }
  TRY(dataset_agree(data, obs_dim, act_dim, env));
  TRY(parts_reserve(data, rows));

  int64_t at = data->count;
  float *obs = data->obs + at * obs_dim, *act = data->act + at * act_dim;
  TRY(hdf5_read(group, name, rows, obs_dim, obs));
  TRY(hdf5_read(group, "actions", n, act_dim, act));
  if (!hdf5_has(group, "rewards")) parts_drop(data, BIT(PART_REWARDS));
  if (data->rewards) TRY(hdf5_read(group, "rewards", n, 1, data->rewards + at));
  TRY(hdf5_read_flags(group, "terminations", n, data->ends + at));
  if (n == 0) return BFM_OK;

  memcpy(data->next_obs + at * obs_dim, obs + obs_dim, n * obs_dim * sizeof(float));
  for (int64_t i = at; i < at + n; i++) {
    data->discount[i] = !data->ends[i];
    data->ends[i] |= i == at + n - 1;
    data->episodes += data->ends[i];
  }
  data->count += n;
  return BFM_OK;
}

static int read_file(Dataset *data, const char *path, hid_t file) {
  (void)path;
  char env[sizeof data->env], name[32];
  hdf5_attribute(file, "env", env, sizeof env);
  parts_drop(data, PARTS_STATES | PARTS_INFOS);
  H5G_info_t info;
  if (H5Gget_info(file, &info) < 0) return bfm_fail(BFM_BAD_FILE, "cannot list the episodes");
  for (hsize_t k = 0; k < info.nlinks; k++) {
    snprintf(name, sizeof name, "episode_%" PRIu64, (uint64_t)k);
    hid_t group = hdf5_has(file, name) ? H5Gopen2(file, name, H5P_DEFAULT) : H5I_INVALID_HID;
    if (group < 0) {
      return bfm_fail(BFM_BAD_FILE, "%s is missing among %" PRIu64 " episodes", name,
                      (uint64_t)info.nlinks);
    }
    int status = read_episode(data, group, env);
    H5Gclose(group);
    if (status) return bfm_fail_prefix(status, "%s: ", name);
  }
  return BFM_OK;
}

const Format format_minari = {"Minari", matches, read_file};
