// Whole runs: what the callback is told, a run that it stops and that is resumed, and arguments that
// cannot be used.

#define _GNU_SOURCE  // nftw

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"

#define TINY                                                                             \
  "\"d\": 4, \"blocks\": 2, \"batch\": 8, \"hidden\": 8, \"feat\": 4, \"b-hidden\": 8, " \
  "\"z_pool\": 4, \"device\": \"cpu\", \"threads\": 1, \"prompt-states\": 50, \"log-every\": 4"

static char folder[64], data[96];
static const char *const files[] = {data};

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

static void refused(int status, const char *word) {
  if (status != BFM_BAD_ARGUMENT) fail_msg("%s: status %d", word, status);
  if (!strstr(bfm_error(), word)) fail_msg("\"%s\" does not name %s", bfm_error(), word);
}

// a path in the folder; four results are valid at a time
static const char *at(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int is_there(const char *name) { return !access(at(name), F_OK); }

static void assert_same_file(const char *a, const char *b) {
  enum { MOST = 1 << 20 };
  static char bytes[2][MOST];
  const char *const names[] = {a, b};
  size_t sizes[2];
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(at(names[i]), "rb");
    if (!file) fail_msg("there is no %s", names[i]);
    sizes[i] = fread(bytes[i], 1, MOST, file);
    fclose(file);
  }
  assert_true(sizes[0] > 0 && sizes[0] < MOST);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(bytes[0], bytes[1], sizes[0]);
}

// what a run told, and when it is to stop
typedef struct {
  const char *stop_stage;
  int64_t stop_at;  // the first call of the stage with so many done stops the run
  int calls;
  char stages[64];  // each once: "open train "
  bfm_progress last;
  char note[128];
} Seen;

static int see(void *context, const bfm_progress *progress) {
  Seen *seen = context;
  assert_int_equal(progress->size, sizeof *progress);
  assert_true(progress->done >= progress->first && progress->seconds >= 0);
  seen->calls++;
  if (!strstr(seen->stages, progress->stage)) {
    strcat(strcat(seen->stages, progress->stage), " ");
  }
  seen->last = *progress;
  snprintf(seen->note, sizeof seen->note, "%s", progress->note);
  if (seen->stop_stage) usleep(150000);  // long enough for a call after every chunk of steps
  return seen->stop_stage && !strcmp(seen->stop_stage, progress->stage) &&
         progress->done >= seen->stop_at;
}

static bfm_training training_of(const char *output, const char *options, Seen *seen) {
  return (bfm_training){.size = sizeof(bfm_training), .data = files, .data_count = 1,
                        .output = output, .options = options, .progress = see, .context = seen};
}

// ------------------------------- collecting ------------------------------------------------------

static bfm_collection collection_of(const char *output, const char *options, Seen *seen) {
  return (bfm_collection){.size = sizeof(bfm_collection), .env = "point_mass", .output = output,
                          .options = options, .progress = see, .context = seen};
}

static void test_collect(void **state) {
  (void)state;
  Seen seen = {.calls = 0};
  bfm_collection run = collection_of(data, "{\"steps\": 300, \"envs\": 4, \"threads\": 1}", &seen);
  good(bfm_collect(&run));
  assert_string_equal(seen.stages, "collect ");
  assert_string_equal(seen.last.unit, "transitions");
  assert_int_equal(seen.last.done, 300);
  assert_int_equal(seen.last.total, 300);
  assert_int_equal(seen.last.first, 0);

  assert_int_equal(bfm_collect(&run), BFM_IO);  // does not overwrite
  run.env = NULL;
  run.resume = 1;
  run.options = "{\"steps\": \"400\"}";
  good(bfm_collect(&run));
  assert_int_equal(seen.last.first, 300);
  assert_int_equal(seen.last.done, 400);
}

static void test_collect_stops_and_continues(void **state) {
  (void)state;
  Seen seen = {.stop_stage = "collect", .stop_at = 1};
  const char *path = at("stopped.h5");
  bfm_collection run = collection_of(path, "{\"steps\": 1000000, \"threads\": 1}", &seen);
  assert_int_equal(bfm_collect(&run), BFM_INTERRUPTED);
  assert_non_null(strstr(bfm_error(), "of 1000000"));
  assert_in_range(seen.last.done, 1, 999999);

  // the callback is also asked while learners are evaluated
  seen = (Seen){.stop_stage = "collect"};
  run = collection_of(at("learners.h5"),
                      "{\"with\": \"td3\", \"task\": \"easy\", \"steps\": 64, \"envs\": 4, "
                      "\"eval-every\": 8, \"hidden\": 8, \"batch\": 8, \"random-steps\": 4, "
                      "\"device\": \"cpu\", \"threads\": 1}",
                      &seen);
  assert_int_equal(bfm_collect(&run), BFM_INTERRUPTED);
  assert_true(is_there("learners.state.safetensors"));
  seen = (Seen){.calls = 0};
  run.options = "{\"eval-episodes\": 1}";
  run.resume = 1;
  good(bfm_collect(&run));
  assert_true(is_there("learners.easy.safetensors"));
  assert_memory_equal(seen.note, "easy ", 5);
}

static void test_collect_arguments(void **state) {
  (void)state;
  bfm_collection run = collection_of(at("none.h5"), NULL, NULL);
  run.progress = NULL;
  refused(bfm_collect(NULL), "collection");
  bfm_collection bad = run;
  bad.size = 0;
  refused(bfm_collect(&bad), "sizeof(bfm_collection)");
  bad = run;
  bad.output = NULL;
  refused(bfm_collect(&bad), "output");
  bad = run;
  bad.env = NULL;
  refused(bfm_collect(&bad), "environment");
  bad.env = "walkr";
  refused(bfm_collect(&bad), "walker");
  bad = run;
  bad.options = "{\"stpes\": 5}";
  refused(bfm_collect(&bad), "did you mean steps?");
  bad.options = "{\"steps\": 1}";
  refused(bfm_collect(&bad), "steps is 1");
  bad.options = "steps";
  refused(bfm_collect(&bad), "JSON");
  assert_false(is_there("none.h5"));
}

// ------------------------------- training --------------------------------------------------------

static void test_train(void **state) {
  (void)state;
  Seen seen = {.calls = 0};
  bfm_training run = training_of(at("whole"), "{" TINY ", \"steps\": 40}", &seen);
  good(bfm_train(&run));
  assert_string_equal(seen.stages, "open train ");
  assert_string_equal(seen.last.unit, "steps");
  assert_int_equal(seen.last.done, 40);
  assert_memory_equal(seen.note, "fb ", 3);

  bfm_agent *agent;
  good(bfm_agent_load(&agent, at("whole/model.safetensors"), NULL));
  assert_int_equal(bfm_agent_d(agent), 4);
  assert_int_equal(bfm_agent_prompt_count(agent), 50);
  assert_string_equal(bfm_agent_env(agent), "point_mass");
  bfm_agent_free(agent);
  refused(bfm_train(&run), "has a run in it");
}

static void test_a_stopped_run_resumes_with_the_same_bits(void **state) {
  (void)state;
  Seen seen = {.stop_stage = "train", .stop_at = 3};
  bfm_training run = training_of(at("parts"), "{" TINY ", \"steps\": 40}", &seen);
  assert_int_equal(bfm_train(&run), BFM_INTERRUPTED);
  assert_non_null(strstr(bfm_error(), "of 40"));
  int64_t stopped = seen.last.done;
  assert_in_range(stopped, 3, 39);
  assert_true(is_there("parts/model.safetensors"));

  seen = (Seen){.calls = 0};
  bfm_training rest = {.size = sizeof rest, .output = run.output, .resume = 1, .progress = see,
                       .context = &seen, .options = "{\"device\": \"cpu\", \"threads\": 1}"};
  good(bfm_train(&rest));
  assert_int_equal(seen.last.first, stopped);
  assert_int_equal(seen.last.done, 40);
  assert_same_file("parts/model.safetensors", "whole/model.safetensors");
  assert_same_file("parts/state.safetensors", "whole/state.safetensors");
}

static void test_a_run_stops_in_an_evaluation(void **state) {
  (void)state;
  Seen seen = {.stop_stage = "evaluate"};
  bfm_training run =
      training_of(at("judged"),
                  "{" TINY ", \"steps\": 2, \"eval-every\": 2, \"eval-episodes\": 2000}", &seen);
  assert_int_equal(bfm_train(&run), BFM_INTERRUPTED);
  assert_string_equal(seen.stages, "open train evaluate ");
  assert_true(is_there("judged/pending.safetensors") && is_there("judged/model.safetensors"));
  assert_false(is_there("judged/eval.jsonl"));

  bfm_training rest = {.size = sizeof rest, .output = run.output, .resume = 1,
                       .options = "{\"eval-episodes\": 1, \"eval-steps\": 3}"};
  good(bfm_train(&rest));
  assert_true(is_there("judged/eval.jsonl") && is_there("judged/best.safetensors"));
}

static void test_a_run_that_stops_while_it_opens_leaves_nothing(void **state) {
  (void)state;
  Seen seen = {.stop_stage = "open"};
  bfm_training run = training_of(at("early"), "{" TINY "}", &seen);
  assert_int_equal(bfm_train(&run), BFM_INTERRUPTED);
  assert_int_equal(seen.calls, 1);
  assert_false(is_there("early"));
}

static void test_train_arguments(void **state) {
  (void)state;
  const bfm_training run = {.size = sizeof run, .data = files, .data_count = 1,
                            .output = at("none")};
  refused(bfm_train(NULL), "training");
  bfm_training bad = run;
  bad.size = 0;
  refused(bfm_train(&bad), "sizeof(bfm_training)");
  bad = run;
  bad.output = NULL;
  refused(bfm_train(&bad), "output");
  bad = run;
  bad.data = NULL;
  refused(bfm_train(&bad), "data");
  bad = run;
  bad.data_count = 0;
  refused(bfm_train(&bad), "data_count");
  bad.data_count = -1;
  refused(bfm_train(&bad), "-1");
  bad = run;
  bad.data = (const char *[]){NULL};
  refused(bfm_train(&bad), "data[0]");

  static const char *const options[][2] = {
      {"{\"stesp\": 5}", "did you mean steps?"},    // an option of the run …
      {"{\"blokcs\": 5}", "did you mean blocks?"},  // … and one of the agent
      {"{\"steps\": 0}", "steps is 0"},             // out of its range
      {"{\"d\": 1.5}", "d is \"1.5\""},             // of another type
      {"{\"d\": 4, \"d\": 8}", "given twice"},      // ambiguous
      {"{\"d\": 4, \"z-mix\": 1, \"z_mix\": 1}", "z-mix"},
      {"{\"eval-es\": \"on\"}", "--eval-every"},
      {"[]", "not a JSON object"},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    bad = run;
    bad.options = options[i][0];
    refused(bfm_train(&bad), options[i][1]);
  }
  assert_false(is_there("none"));
  bad = run;
  bad.resume = 1;
  assert_int_equal(bfm_train(&bad), BFM_IO);
  assert_non_null(strstr(bfm_error(), "no run to resume"));
}

// ------------------------------- the folder ------------------------------------------------------

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/bfm-runs-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(data, sizeof data, "%s/data.h5", folder);
  return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

static int remove_folder(void **state) {
  (void)state;
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_collect),
      cmocka_unit_test(test_collect_stops_and_continues),
      cmocka_unit_test(test_collect_arguments),
      cmocka_unit_test(test_train),
      cmocka_unit_test(test_a_stopped_run_resumes_with_the_same_bits),
      cmocka_unit_test(test_a_run_stops_in_an_evaluation),
      cmocka_unit_test(test_a_run_that_stops_while_it_opens_leaves_nothing),
      cmocka_unit_test(test_train_arguments),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
