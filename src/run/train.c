// The training loop. The agent runs in chunks of about half a second, so that progress, the log and
// Ctrl-C are served without the device waiting; chunks end where a log line or a save is due. Neither
// chunks nor saves change a bit of the result.

#include "run/train.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/newfile.h"
#include "core/progress.h"
#include "data/dataset.h"

#define CHUNK_SECONDS 0.5
#define SAVE_SECONDS 600.0

static void path_in(const Training *t, const char *name, char *out, size_t size) {
  snprintf(out, size, "%s/%s", t->folder, name);
}

void training_model_path(const Training *t, int replica, char *out, size_t size) {
  char name[64] = "model.safetensors";
  if (bfm_agent_replicas(t->agent) > 1) {
    snprintf(name, sizeof name, "model.%d.safetensors", replica);
  }
  path_in(t, name, out, size);
}

// ---------------------------------- the folder ---------------------------------------------------

// mkdir -p; *made counts the folders that are new
static int make_folders(char *path, int *made) {
  if (!mkdir(path, 0777)) {
    ++*made;
    return 0;
  }
  if (errno == EEXIST) return 0;
  char *slash = strrchr(path, '/');
  if (errno != ENOENT || !slash || slash == path) return -1;
  *slash = 0;
  int bad = make_folders(path, made);
  *slash = '/';
  return bad || mkdir(path, 0777) ? -1 : (++*made, 0);
}

static int make_folder(Training *t) {
  struct stat info;
  t->begun = 1;
  if (make_folders(t->folder, &t->made)) {
    return bfm_fail(BFM_IO, "cannot make the folder %s: %s", t->folder, strerror(errno));
  }
  if (stat(t->folder, &info) || !S_ISDIR(info.st_mode)) {
    return bfm_fail(BFM_IO, "%s is there and not a folder", t->folder);
  }
  if (access(t->folder, W_OK | X_OK)) {
    return bfm_fail(BFM_IO, "cannot write into %s: %s", t->folder, strerror(errno));
  }
  return BFM_OK;
}

// a run that came to nothing takes its traces with it
static void take_back(Training *t) {
  char path[PATH_MAX];
  path_in(t, "run.json", path, sizeof path);
  unlink(path);
  path_in(t, "log.jsonl", path, sizeof path);
  unlink(path);
  snprintf(path, sizeof path, "%s", t->folder);
  while (t->made > 0) {
    if (!rmdir(path))
      t->made--;
    else if (errno != ENOENT)
      break;
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) break;
    *slash = 0;
  }
}

// a fresh run must not overwrite another, a resume must find one
static int check_folder(Training *t) {
  if (!*t->plan.folder) return bfm_fail(BFM_BAD_ARGUMENT, "the output folder has no name");
  if (snprintf(t->folder, sizeof t->folder, "%s", t->plan.folder) >= (int)sizeof t->folder) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a folder's name of %zu characters is too long",
                    strlen(t->plan.folder));
  }
  for (size_t n = strlen(t->folder); n > 1 && t->folder[n - 1] == '/';) t->folder[--n] = 0;

  char state[PATH_MAX];
  path_in(t, "state.safetensors", state, sizeof state);
  int there = !access(state, F_OK);
  if (there && !t->plan.resume) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has a run in it: add --resume to go on with it, or name another folder",
                    t->folder);
  }
  if (!there && t->plan.resume) {
    return bfm_fail(BFM_IO, "%s has no run to resume: there is no state.safetensors", t->folder);
  }
  return BFM_OK;
}

// ---------------------------------- run.json -----------------------------------------------------

// fill in what this start of the run was given; a resume may be given nothing
static int update_record(const Training *t, cJSON *record, uint32_t checksum) {
  if (t->plan.data_count) {
    cJSON_DeleteItemFromObject(record, "data");
    cJSON *files = cJSON_AddArrayToObject(record, "data");
    for (int i = 0; i < t->plan.data_count; i++) {
      // absolute, so that a resume may start anywhere
      char *absolute = realpath(t->plan.data[i], NULL);
      cJSON_AddItemToArray(files, cJSON_CreateString(absolute ? absolute : t->plan.data[i]));
      free(absolute);
    }
  }
  cJSON_DeleteItemFromObject(record, "checksum");
  cJSON_AddNumberToObject(record, "checksum", checksum);
  cJSON_DeleteItemFromObject(record, "steps");
  cJSON_AddNumberToObject(record, "steps", (double)t->plan.steps);

  char *text = cJSON_Print(record), path[PATH_MAX];
  if (!text) return bfm_fail(BFM_NO_MEMORY, "no memory for run.json");
  path_in(t, "run.json", path, sizeof path);
  NewFile file;
  int status = newfile_open(&file, path);
  if (!status) status = newfile_write(&file, text, strlen(text));
  if (!status) status = newfile_write(&file, "\n", 1);
  if (!status) status = newfile_commit(&file);
  free(text);
  return status;
}

static int read_record(const Training *t, cJSON **record) {
  char path[PATH_MAX], text[1 << 16];
  path_in(t, "run.json", path, sizeof path);
  FILE *file = fopen(path, "r");
  if (!file) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);

  *record = cJSON_Parse(text);
  int good = cJSON_IsNumber(cJSON_GetObjectItem(*record, "checksum")) &&
             cJSON_IsNumber(cJSON_GetObjectItem(*record, "steps")) &&
             cJSON_GetArraySize(cJSON_GetObjectItem(*record, "data")) > 0;
  const cJSON *name;
  cJSON_ArrayForEach(name, cJSON_GetObjectItem(*record, "data")) good &= cJSON_IsString(name);
  if (good) return BFM_OK;
  cJSON_Delete(*record);
  *record = NULL;
  return bfm_fail(BFM_BAD_FILE, "%s is damaged: it names no data files, checksum and steps", path);
}

// ---------------------------------- data and agent -----------------------------------------------

static uint32_t checksum_of(const Dataset *data) {
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

static int make_agent(Training *t, const Dataset *data) {
  if (!t->plan.resume) {
    TRY(bfm_agent_new(&t->agent, data->obs_dim, data->act_dim, t->plan.options));
  } else {
    char path[PATH_MAX];
    path_in(t, "state.safetensors", path, sizeof path);
    TRY(bfm_agent_load(&t->agent, path, t->plan.options));
  }
  int64_t obs_dim = bfm_agent_obs_dim(t->agent), act_dim = bfm_agent_act_dim(t->agent);
  if (obs_dim != data->obs_dim || act_dim != data->act_dim) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "the data has observations of %" PRId64 " and actions of %" PRId64
                    ", but the agent was trained on %" PRId64 " and %" PRId64,
                    data->obs_dim, data->act_dim, obs_dim, act_dim);
  }
  t->first_step = bfm_agent_step(t->agent);
  t->losses = calloc((size_t)bfm_agent_replicas(t->agent) * bfm_agent_loss_count(t->agent),
                     sizeof *t->losses);
  if (!t->losses) return bfm_fail(BFM_NO_MEMORY, "no memory for the losses");
  return bfm_agent_set_data(t->agent, data->count, data->obs, data->act, data->next_obs,
                            data->discount);
}

static int read_data(Training *t, Dataset *data, const cJSON *record) {
  if (t->plan.data_count || !t->plan.resume) {
    return dataset_read(data, t->plan.data, t->plan.data_count);
  }
  const cJSON *names = cJSON_GetObjectItem(record, "data");
  int count = cJSON_GetArraySize(names);
  const char **paths = calloc(count, sizeof *paths);
  if (!paths) return bfm_fail(BFM_NO_MEMORY, "no memory for %d names", count);
  for (int i = 0; i < count; i++) paths[i] = cJSON_GetArrayItem(names, i)->valuestring;
  int status = dataset_read(data, paths, count);
  free(paths);
  return status;
}

// the bits of a run are those of its data: a resume on other data is refused
static int take_data(Training *t, const Dataset *data, cJSON *record) {
  t->transitions = data->count;
  t->episodes = data->episodes;
  memcpy(t->env, data->env, sizeof t->env);
  uint32_t checksum = checksum_of(data);
  if (t->plan.resume && checksum != cJSON_GetObjectItem(record, "checksum")->valuedouble) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the data is not that of the run in %s, or not in its order",
                    t->folder);
  }
  TRY(make_agent(t, data));
  TRY(make_folder(t));
  return update_record(t, record, checksum);
}

// ---------------------------------- the log ------------------------------------------------------

// drop what was logged after the last save: those steps are done again
static int open_log(Training *t) {
  char path[PATH_MAX];
  path_in(t, "log.jsonl", path, sizeof path);
  FILE *old = fopen(path, "r");
  off_t keep = 0;
  char *line = NULL;
  size_t size = 0;
  for (ssize_t n; old && (n = getline(&line, &size, old)) > 0; keep += n) {
    cJSON *entry = line[n - 1] == '\n' ? cJSON_Parse(line) : NULL;
    const cJSON *step = cJSON_GetObjectItem(entry, "step");
    int good = cJSON_IsNumber(step) && step->valuedouble <= (double)t->first_step;
    cJSON_Delete(entry);
    if (!good) break;
  }
  free(line);
  if (old) fclose(old);

  t->log = fopen(path, "a");
  if (!t->log || ftruncate(fileno(t->log), keep)) {
    return bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno));
  }
  return BFM_OK;
}

// a float32 in as many digits as it has
static cJSON *number_item(float value) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", value);
  return cJSON_CreateRaw(text);
}

// one number, or with several seeds one a seed
static cJSON *loss_item(const Training *t, int loss) {
  int R = bfm_agent_replicas(t->agent), count = bfm_agent_loss_count(t->agent);
  if (R == 1) return number_item(t->losses[loss]);
  cJSON *items = cJSON_CreateArray();
  for (int r = 0; r < R; r++) cJSON_AddItemToArray(items, number_item(t->losses[r * count + loss]));
  return items;
}

static int write_log(Training *t, double seconds) {
  cJSON *entry = cJSON_CreateObject();
  cJSON_AddNumberToObject(entry, "step", (double)bfm_agent_step(t->agent));
  cJSON_AddNumberToObject(entry, "seconds", round(1e3 * seconds) / 1e3);
  for (int i = 0; i < bfm_agent_loss_count(t->agent); i++) {
    cJSON_AddItemToObject(entry, bfm_agent_loss_name(t->agent, i), loss_item(t, i));
  }
  char *text = cJSON_PrintUnformatted(entry);
  cJSON_Delete(entry);
  if (!text) return bfm_fail(BFM_NO_MEMORY, "no memory for a line of the log");
  int bad = fprintf(t->log, "%s\n", text) < 0 || fflush(t->log);
  free(text);
  if (bad) return bfm_fail(BFM_IO, "cannot write %s/log.jsonl: %s", t->folder, strerror(errno));
  t->kept = 1;
  return BFM_OK;
}

static void loss_note(const Training *t, char *out, size_t size) {
  int R = bfm_agent_replicas(t->agent), count = bfm_agent_loss_count(t->agent);
  size_t at = 0;
  for (int i = 0; i < count && at < size; i++) {
    double mean = 0;
    for (int r = 0; r < R; r++) mean += t->losses[r * count + i] / R;
    at += snprintf(out + at, size - at, "%s%s %.4g", i ? "  " : "",
                   bfm_agent_loss_name(t->agent, i), mean);
  }
}

// ---------------------------------- the run ------------------------------------------------------

int training_open(Training *t, const TrainPlan *plan) {
  *t = (Training){.plan = *plan};
  TRY(check_folder(t));
  t->kept = plan->resume;
  cJSON *record = NULL;
  if (plan->resume)
    TRY(read_record(t, &record));
  else
    record = cJSON_CreateObject();
  if (plan->resume && !plan->steps)
    t->plan.steps = (int64_t)cJSON_GetObjectItem(record, "steps")->valuedouble;

  Dataset data;
  int status = read_data(t, &data, record);
  if (!status) {
    status = take_data(t, &data, record);
    dataset_free(&data);
  }
  cJSON_Delete(record);
  if (!status) status = open_log(t);
  if (status) training_close(t);
  return status;
}

static int save(Training *t) {
  char path[PATH_MAX];
  for (int r = 0; r < bfm_agent_replicas(t->agent); r++) {
    training_model_path(t, r, path, sizeof path);
    TRY(bfm_agent_save_model(t->agent, r, path));
  }
  path_in(t, "state.safetensors", path, sizeof path);
  TRY(bfm_agent_save_state(t->agent, path));
  t->kept = 1;
  return BFM_OK;
}

static int64_t to_next(int64_t step, int64_t every) {
  return every > 0 ? every - step % every : INT64_MAX;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int train(Training *t, Progress *progress) {
  const TrainPlan *plan = &t->plan;
  int64_t chunk = 1, step = bfm_agent_step(t->agent), saved = plan->resume ? step : -1;
  double start = seconds_now(), last_save = start;

  while (step < plan->steps && !(plan->stop && *plan->stop)) {
    double before = seconds_now();
    int64_t due = min64(to_next(step, plan->log_every), to_next(step, plan->save_every));
    int64_t n = min64(chunk, min64(due, plan->steps - step));
    TRY(bfm_agent_train(t->agent, n, t->losses));
    step = bfm_agent_step(t->agent);

    double now = seconds_now();
    t->seconds = now - start;
    if (n == chunk) chunk = now - before < CHUNK_SECONDS ? 2 * chunk : chunk > 1 ? chunk / 2 : 1;
    if (step % plan->log_every == 0 || step == plan->steps) TRY(write_log(t, t->seconds));
    int by_time = plan->save_every == 0 && now - last_save > SAVE_SECONDS;
    if (by_time || (plan->save_every > 0 && step % plan->save_every == 0)) {
      TRY(save(t));
      saved = step;
      last_save = seconds_now();
    }
    char note[256];
    loss_note(t, note, sizeof note);
    progress_update(progress, step, note);
  }

  if (saved != step) TRY(save(t));
  if (step >= plan->steps) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at step %" PRId64 " of %" PRId64 "; bfm train --resume -o %s goes on",
                  step, plan->steps, t->folder);
}

int training_run(Training *t) {
  Progress progress;
  progress_start(&progress, "train", "steps", t->first_step, t->plan.steps, t->plan.quiet);
  int status = train(t, &progress);
  progress_end(&progress);
  return status;
}

void training_close(Training *t) {
  bfm_agent_free(t->agent);
  free(t->losses);
  if (t->log) fclose(t->log);
  if (t->begun && !t->kept) take_back(t);
  *t = (Training){.agent = NULL};
}
