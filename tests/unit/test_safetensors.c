// safetensors: files survive a round trip bit by bit, every kind of damage is refused with an error
// sentence, and a failed write leaves the previous file and nothing else.

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/files.h"
#include "data/safetensors.h"

static char folder[] = "/tmp/bfm-safetensors-XXXXXX";
static char path[sizeof folder + 32];

static int setup(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);  // fails if a temporary file was left behind
}

static int files_in_folder(void) {
  int count = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

static void assert_message(const char *part) {
  if (!strstr(bfm_error(), part)) fail_msg("\"%s\" lacks \"%s\"", bfm_error(), part);
}

static void test_round_trip(void **state) {
  (void)state;
  static const unsigned char bytes[3] = {1, 2, 255};
  static const float weight[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
  static const int64_t step[1] = {INT64_MAX};
  static const double wide[2] = {1.0 / 3, -0.0};
  const Tensor tensors[] = {
      {"bytes", TENSOR_U8, 1, {3}, bytes},    {"F.sa.in.weight", TENSOR_F32, 2, {2, 3}, weight},
      {"half", TENSOR_BF16, 1, {1}, bytes},   {"step", TENSOR_I64, 0, {0}, step},
      {"empty", TENSOR_F32, 2, {0, 4}, NULL}, {"wide", TENSOR_F64, 4, {1, 1, 2, 1}, wide},
  };
  const char *const metadata[] = {"config", "{\"d\": 64}", "note", "é \"x\"", NULL};
  assert_int_equal(safetensors_write(path, tensors, 6, metadata), BFM_OK);

  SafeTensors *file;
  assert_int_equal(safetensors_open(&file, path), BFM_OK);
  assert_int_equal(safetensors_count(file), 6);
  for (int i = 0; i < 6; i++) {
    const Tensor *t = safetensors_find(file, tensors[i].name);
    assert_non_null(t);
    assert_int_equal(t->type, tensors[i].type);
    assert_int_equal(t->dims, tensors[i].dims);
    for (int k = 0; k < t->dims; k++) assert_int_equal(t->shape[k], tensors[i].shape[k]);
    assert_memory_equal(t->data, tensors[i].data ? tensors[i].data : "", tensor_bytes(&tensors[i]));
  }
  assert_null(safetensors_find(file, "F"));
  assert_null(safetensors_at(file, 6));
  assert_null(safetensors_at(file, -1));
  assert_string_equal(safetensors_metadata(file, "config"), "{\"d\": 64}");
  assert_string_equal(safetensors_metadata(file, "note"), "é \"x\"");
  assert_null(safetensors_metadata(file, "nothing"));
  const char *key, *value;
  assert_true(safetensors_metadata_at(file, 1, &key, &value));
  assert_string_equal(key, "note");
  assert_false(safetensors_metadata_at(file, 2, &key, &value));
  safetensors_close(file);
}

static void test_a_file_without_tensors(void **state) {
  (void)state;
  SafeTensors *file;
  assert_int_equal(safetensors_write(path, NULL, 0, NULL), BFM_OK);
  assert_int_equal(safetensors_open(&file, path), BFM_OK);
  assert_int_equal(safetensors_count(file), 0);
  assert_null(safetensors_metadata(file, "config"));
  safetensors_close(file);
}

// parses a header, padded like the writer's, followed by data_size zero bytes of data
static int parse(const char *header, size_t data_size) {
  size_t length = (strlen(header) + 7) / 8 * 8, size = 8 + length + data_size;
  unsigned char *bytes = calloc(1, size);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> 8 * i);
  memset(bytes + 8, ' ', length);
  memcpy(bytes + 8, header, strlen(header));
  SafeTensors *file;
  int status = safetensors_parse(&file, bytes, size);
  if (status) assert_null(file);
  safetensors_close(file);
  free(bytes);
  return status;
}

#define A(shape, offsets) \
  "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define PAIR(name, first, second)                                              \
  "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first "},\"" name \
  "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data_size;
    const char *message;
  } bad[] = {
      {"", 0, "not valid JSON"},
      {"[]", 0, "not valid JSON"},
      {"{\"a\":", 0, "not valid JSON"},
      {"{} {}", 0, "text after its JSON"},
      {"{\"a\":3}", 0, "not described"},
      {"{\"a\":{}}", 0, "not described"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, "data_offsets"},
      {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no name"},
      {"{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "character 10"},
      {"{\"a\":{\"dtype\":\"Q4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "\"Q4\""},
      {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
      {A("3", "[0,4]"), 4, "no shape"},
      {A("[-1]", "[0,4]"), 4, "axis 0 of tensor a"},
      {A("[1.5]", "[0,4]"), 4, "axis 0"},
      {A("[\"1\"]", "[0,4]"), 4, "axis 0"},
      {A("[1e300]", "[0,4]"), 4, "axis 0"},
      {A("[1,1,1,1,1]", "[0,4]"), 4, "5 axes"},
      {A("[4294967296,4294967296]", "[0,4]"), 4, "impossible shape: axis 1 is 4294967296"},
      {A("[9007199254740992,512]", "[0,0]"), 0, "impossible shape"},
      {A("[1]", "[0]"), 4, "two whole numbers"},
      {A("[1]", "[0,4,8]"), 4, "two whole numbers"},
      {A("[1]", "[0,1e300]"), 4, "two whole numbers"},
      {A("[1]", "[4,0]"), 4, "bytes 4 to 0"},
      {A("[1]", "[0,4]"), 3, "there are 3 bytes"},
      {A("[2]", "[0,4]"), 4, "has 4 bytes, but its shape and dtype need 8"},
      {A("[1]", "[0,4]"), 8, "last 4 bytes belong to no tensor"},
      {A("[1]", "[4,8]"), 8, "gap of 4 bytes"},
      {PAIR("b", "[0,4]", "[2,6]"), 6, "begins at byte 2, but the one before it ends at 4"},
      {PAIR("b", "[0,4]", "[0,4]"), 4, "the one before it ends at 4"},
      {PAIR("b", "[0,4]", "[5,9]"), 9, "gap of 1 bytes before tensor b"},
      {PAIR("a", "[0,4]", "[4,8]"), 8, "tensor a appears twice"},
      {" {}", 0, "not valid JSON"},
      {"{\"__metadata__\":[]}", 0, "not an object"},
      {"{\"__metadata__\":{\"k\":3}}", 0, "\"k\""},
      {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "\"k\" appears twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two entries"},
      {"{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
       5, "not aligned"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (parse(bad[i].header, bad[i].data_size) != BFM_BAD_FILE) fail_msg("%s", bad[i].header);
    if (!strstr(bfm_error(), bad[i].message)) {
      fail_msg("%s: \"%s\" lacks \"%s\"", bad[i].header, bfm_error(), bad[i].message);
    }
  }
  char lengthy[400];
  snprintf(lengthy, sizeof lengthy,
           "{\"%0200d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
  assert_int_equal(parse(lengthy, 1), BFM_BAD_FILE);
  assert_message("has 200 characters");
}

static void test_every_truncation_is_refused(void **state) {
  (void)state;
  static const float weight[4] = {1, 2, 3, 4};
  const Tensor tensor = {"a", TENSOR_F32, 1, {4}, weight};
  assert_int_equal(safetensors_write(path, &tensor, 1, NULL), BFM_OK);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  for (off_t size = info.st_size - 1; size >= 0; size--) {
    assert_int_equal(truncate(path, size), 0);
    SafeTensors *file;
    assert_int_equal(safetensors_open(&file, path), BFM_BAD_FILE);
    assert_message(path);
    assert_int_equal(safetensors_read(&file, path), BFM_BAD_FILE);
    assert_message(path);
  }
}

// a mapping would end the process with SIGBUS
static void test_a_file_that_was_read_may_shrink(void **state) {
  (void)state;
  static float weight[4096];
  for (int i = 0; i < 4096; i++) weight[i] = (float)i;
  const Tensor tensor = {"a", TENSOR_F32, 1, {4096}, weight};
  assert_int_equal(safetensors_write(path, &tensor, 1, NULL), BFM_OK);
  SafeTensors *file;
  assert_int_equal(safetensors_read(&file, path), BFM_OK);
  assert_int_equal(truncate(path, 0), 0);
  assert_memory_equal(safetensors_find(file, "a")->data, weight, sizeof weight);
  safetensors_close(file);
}

static void test_open_refusals(void **state) {
  (void)state;
  SafeTensors *file;
  assert_int_equal(safetensors_open(&file, "/nonexistent/model"), BFM_IO);
  assert_message("No such file");
  assert_int_equal(safetensors_open(&file, NULL), BFM_BAD_ARGUMENT);
  assert_message("the file to read needs a name");
  assert_int_equal(safetensors_open(&file, folder), BFM_IO);
  assert_message("is a folder, not a file");
  assert_message(folder);
  static const unsigned char huge[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  assert_int_equal(safetensors_parse(&file, huge, 8), BFM_BAD_FILE);
  assert_message("this is not a safetensors file");
}

static void test_write_refusals(void **state) {
  (void)state;
  static const float one = 1;
  const Tensor good = {"a", TENSOR_F32, 1, {1}, &one};
  const Tensor twice[2] = {good, good};
  assert_int_equal(safetensors_write(path, twice, 2, NULL), BFM_BAD_ARGUMENT);
  assert_message("a appears twice");
  const struct {
    Tensor tensor;
    const char *message;
  } bad[] = {
      {{"", TENSOR_F32, 1, {1}, &one}, "no name"},
      {{"__metadata__", TENSOR_F32, 1, {1}, &one}, "not a string"},
      {{"a", TENSOR_F32, 1, {-1}, &one}, "axis 0 is -1"},
      {{"a", TENSOR_F32, 2, {INT64_MAX, 2}, &one}, "axis 0"},
      {{"a", TENSOR_F32, 1, {1}, NULL}, "no data"},
      {{"a", (TensorType)99, 1, {1}, &one}, "type 99"},
      {{"a", TENSOR_F32, 5, {1}, &one}, "5 axes"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(safetensors_write(path, &bad[i].tensor, 1, NULL), BFM_BAD_ARGUMENT);
    assert_message(bad[i].message);
  }
  assert_int_equal(safetensors_write("/nonexistent/m", &good, 1, NULL), BFM_IO);
  assert_message("No such file");
  assert_int_equal(safetensors_write(folder, &good, 1, NULL), BFM_IO);
  assert_message("not a regular file");
  assert_int_equal(safetensors_write("/dev/null", &good, 1, NULL), BFM_IO);
}

// simulates a full disk by a limit on the size of files: the write fails half-way
static void test_failed_write_keeps_the_old_file(void **state) {
  (void)state;
  static float values[65536];
  values[0] = 42;
  Tensor tensor = {"a", TENSOR_F32, 1, {4}, values};
  assert_int_equal(safetensors_write(path, &tensor, 1, NULL), BFM_OK);

  struct rlimit old, tight;
  getrlimit(RLIMIT_FSIZE, &old);
  tight = (struct rlimit){8192, old.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  values[0] = 43;
  tensor.shape[0] = 65536;
  int status = safetensors_write(path, &tensor, 1, NULL);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_DFL);

  assert_int_equal(status, BFM_IO);
  assert_message("File too large");
  assert_message(path);
  assert_int_equal(files_in_folder(), 1);
  SafeTensors *file;
  assert_int_equal(safetensors_open(&file, path), BFM_OK);
  assert_true(*(const float *)safetensors_find(file, "a")->data == 42);
  safetensors_close(file);
}

// a reader that has the old file open keeps its contents while a new file takes its name
static void test_replace_while_open(void **state) {
  (void)state;
  float value = 1;
  Tensor tensor = {"a", TENSOR_F32, 1, {1}, &value};
  assert_int_equal(safetensors_write(path, &tensor, 1, NULL), BFM_OK);
  SafeTensors *old, *new;
  assert_int_equal(safetensors_open(&old, path), BFM_OK);
  value = 2;
  assert_int_equal(safetensors_write(path, &tensor, 1, NULL), BFM_OK);
  assert_int_equal(safetensors_open(&new, path), BFM_OK);
  assert_true(*(const float *)safetensors_at(old, 0)->data == 1);
  assert_true(*(const float *)safetensors_at(new, 0)->data == 2);
  safetensors_close(old);
  safetensors_close(new);
}

static void *write_empty(void *status) {
  *(int *)status = safetensors_write(path, NULL, 0, NULL);
  return NULL;
}

// one writer begins before the other and ends after it
static void test_two_threads_write_the_same_file(void **state) {
  (void)state;
  pthread_t thread;
  OutputFile file;
  SafeTensors *read;
  int status = -1;
  assert_int_equal(output_open(&file, path), BFM_OK);
  assert_int_equal(output_write(&file, "not", 3), BFM_OK);
  assert_int_equal(pthread_create(&thread, NULL, write_empty, &status), 0);
  pthread_join(thread, NULL);
  assert_int_equal(status, BFM_OK);
  assert_int_equal(output_write(&file, " one", 4), BFM_OK);
  assert_int_equal(safetensors_open(&read, path), BFM_OK);
  safetensors_close(read);
  assert_int_equal(output_commit(&file), BFM_OK);
  assert_int_equal(safetensors_open(&read, path), BFM_BAD_FILE);
  assert_int_equal(files_in_folder(), 1);
}

// with a search of all keys for every key, this took minutes
static void test_many_metadata_keys_are_read_in_linear_time(void **state) {
  (void)state;
  enum { KEYS = 200000, KEY_BYTES = 16 };
  char *bytes = malloc(8 + 32 + (size_t)KEYS * (KEY_BYTES + 8));
  assert_non_null(bytes);
  size_t at = 8 + (size_t)sprintf(bytes + 8, "{\"__metadata__\":{");
  for (int i = 0; i < KEYS; i++) {
    at += (size_t)sprintf(bytes + at, "%s\"k%d\":\"%d\"", i ? "," : "", i, i % 10);
  }
  size_t last_key = at - strlen("\"k199999\":\"9\"") + 2;
  at += (size_t)sprintf(bytes + at, "}}");
  uint64_t length = at - 8;
  memcpy(bytes, &length, sizeof length);

  SafeTensors *file;
  const char *key, *value;
  assert_int_equal(safetensors_parse(&file, bytes, at), BFM_OK);
  assert_string_equal(safetensors_metadata(file, "k123456"), "6");
  assert_null(safetensors_metadata(file, "k200000"));
  for (int i = 0; i < KEYS; i++) assert_true(safetensors_metadata_at(file, i, &key, &value));
  assert_string_equal(key, "k199999");
  assert_string_equal(value, "9");
  assert_false(safetensors_metadata_at(file, KEYS, &key, &value));
  safetensors_close(file);

  memcpy(bytes + last_key, "100000", 6);  // k100000 twice
  assert_int_equal(safetensors_parse(&file, bytes, at), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "\"k100000\" appears twice in __metadata__");
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_a_file_without_tensors),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_every_truncation_is_refused),
      cmocka_unit_test(test_a_file_that_was_read_may_shrink),
      cmocka_unit_test(test_open_refusals),
      cmocka_unit_test(test_write_refusals),
      cmocka_unit_test(test_failed_write_keeps_the_old_file),
      cmocka_unit_test(test_replace_while_open),
      cmocka_unit_test(test_two_threads_write_the_same_file),
      cmocka_unit_test(test_many_metadata_keys_are_read_in_linear_time),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
