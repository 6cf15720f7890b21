// Reading datasets: find each path's format, append its rows, check the result. Also the operations
// on rows that were read.

#include "data/dataset.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/files.h"
#include "core/rng.h"
#include "data/format.h"
#include "data/robot_files.h"

// ---------------------------------- formats ------------------------------------------------------

// the first format that matches reads the file
static const Format *const formats[] = {&format_exorl, &format_minari, &format_d4rl};

int path_is_npz(const char *path) {
  size_t n = strlen(path);
  return n > 4 && !strcmp(path + n - 4, ".npz");
}

static int read_format(Dataset *data, const char *path, hid_t file) {
  int k = 0, last = sizeof formats / sizeof formats[0] - 1;
  while (k < last && !formats[k]->matches(path, file)) k++;  // format_d4rl matches every HDF5 file
  return formats[k]->read(data, path, file);
}

typedef struct {
  Dataset *data;
  const char *path;
} Hdf5Source;

static int read_hdf5(hid_t file, void *context) {
  const Hdf5Source *source = context;
  int64_t first_row = source->data->count;
  int status = robot_files_read(file);
  if (!status) status = read_format(source->data, source->path, file);
  if (!status && source->data->with_extras) {
    status = dataset_merge_notes(source->data, file, first_row);
  }
  return status ? bfm_fail_prefix(status, "%s: ", source->path) : BFM_OK;
}

static int read_path(Dataset *data, const char *path) {
  char inside[PATH_MAX];  // the HDF5 file inside a folder of Minari
  snprintf(inside, sizeof inside, "%s/data/main_data.hdf5", path);
  if (!access(inside, F_OK)) path = inside;
  else if (path_is_folder(path) || path_is_npz(path)) {
    return read_format(data, path, H5I_INVALID_HID);
  }
  return hdf5_use(path, read_hdf5, &(Hdf5Source){data, path});
}

// ---------------------------------- reading ------------------------------------------------------

static int read_paths(Dataset *data, const char *const *paths, int path_count, int with_extras) {
  *data = (Dataset){.with_extras = with_extras, .single_file = path_count == 1,
                    .first_path = path_count ? paths[0] : "no files",
                    .parts = with_extras ? PARTS_ALL : PARTS_NEEDED};
  for (int i = 0; i < path_count; i++) TRY(read_path(data, paths[i]));
  return BFM_OK;
}

enum { TO_LEARN, TO_DESCRIBE };

static int read_for(int use, Dataset *data, const char *const *paths, int path_count,
                    int with_extras) {
  int status = read_paths(data, paths, path_count, with_extras);
  int begun = use == TO_DESCRIBE && data->incomplete;
  if (!status && data->count < 2 && !begun) {
    status = bfm_fail(BFM_BAD_FILE, "%s%s: %" PRId64 " transitions are too few to learn from",
                      data->first_path, path_count > 1 ? " and the others" : "", data->count);
  }
  if (status) dataset_free(data);
  return status;
}

int dataset_read(Dataset *data, const char *const *paths, int path_count) {
  return read_for(TO_LEARN, data, paths, path_count, 0);
}

int dataset_read_all(Dataset *data, const char *const *paths, int path_count) {
  return read_for(TO_LEARN, data, paths, path_count, 1);
}

int dataset_read_to_describe(Dataset *data, const char *path) {
  return read_for(TO_DESCRIBE, data, &path, 1, 1);
}

int dataset_read_demo(Dataset *data, const char *path) {
  int status = read_paths(data, &path, 1, 0);
  if (!status && !data->count) {
    status =
        bfm_fail(BFM_BAD_FILE, "%s has no transitions: a demonstration needs at least one", path);
  }
  if (status) dataset_free(data);
  return status;
}

// ---------------------------------- rows ---------------------------------------------------------

int dataset_check_actions(const Dataset *data) {
  int64_t row = 0, episode = 0, column = 0;
  for (; row < data->count; row++) {
    const float *act = data->act + row * data->act_dim;
    column = 0;
    while (column < data->act_dim && fabsf(act[column]) <= 1 + ACTION_SLACK) column++;
    if (column < data->act_dim) break;
    episode += data->ends[row];
  }
  if (row == data->count) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "action %g of transition %" PRId64 " (episode %" PRId64 ", column %" PRId64
                  ") is not within ±1: scale actions to that range",
                  data->act[row * data->act_dim + column], row, episode, column);
}

// Skips numbers that are 0 already, because a write to a mapped page copies the page.
int dataset_clear(Dataset *data, int64_t first) {
  static const int parts[] = {PART_OBS, PART_NEXT_OBS};
  for (int k = 0; k < 2; k++) {
    TRY(row_buffer_make_writable(&data->buffers[parts[k]]));
    for (int64_t i = 0; i < data->count; i++) {
      float *row = part_at(data, parts[k], i);
      for (int64_t c = first; c < data->obs_dim; c++) {
        if (row[c] != 0) row[c] = 0;
      }
    }
  }
  return BFM_OK;
}

int64_t dataset_sample_row(const Dataset *data, int64_t rows, int64_t i) {
  int64_t begin = i * data->count / rows, end = (i + 1) * data->count / rows;
  return begin + (int64_t)random_below(0, STREAM_USER, 0, i, (uint64_t)(end - begin));
}

void dataset_trim(Dataset *data) {
  parts_drop(data, ~(BIT(PART_OBS) | BIT(PART_ACT) | BIT(PART_NEXT_OBS) | BIT(PART_DISCOUNT)));
  for (int k = 0; k < PART_COUNT; k++) row_buffer_expect_random_reads(&data->buffers[k]);
}

void dataset_free(Dataset *data) {
  for (int k = 0; k < PART_COUNT; k++) row_buffer_free(&data->buffers[k]);
  cJSON_Delete(data->notes);
  memset(data, 0, sizeof *data);
}
