// safetensors files. The reader maps the file, and its tensors point into the mapping. Before the
// writer writes anything, it runs the reader's check on its own header, so it cannot write a file
// that the reader would refuse.

#include "data/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/files.h"
#include "core/units.h"

#define LENGTH_BYTES 8
#define HEADER_MAX ((uint64_t)100000000)  // the limit of the format's own implementation
#define EXACT_INTEGER 9007199254740992.0  // 2^53, the largest count a JSON number can hold
#define METADATA "__metadata__"

static const struct {
  const char *name;
  int size;
} types[] = {
    [TENSOR_F32] = {"F32", 4}, [TENSOR_F64] = {"F64", 8}, [TENSOR_I64] = {"I64", 8},
    [TENSOR_I32] = {"I32", 4}, [TENSOR_U8] = {"U8", 1},   [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_F16] = {"F16", 2}, [TENSOR_I8] = {"I8", 1},
};
#define TYPE_COUNT ((int)(sizeof types / sizeof *types))

typedef struct {
  Tensor tensor;
  size_t begin;  // of its data, from the end of the header
} Entry;

struct SafeTensors {
  cJSON *header;
  const cJSON *metadata;       // inside header, or NULL
  const cJSON **pairs;         // of the metadata, in the header's order
  const cJSON **sorted_pairs;  // by key
  int pair_count;
  Entry *entries;  // in the header's order
  Entry **sorted;  // by name
  int count;
  void *map;  // of the file, or NULL
  size_t map_size;
  char *copy;  // of the file, or NULL; without both, the bytes belong to the caller
};

int64_t tensor_count(const Tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < t->dims; i++) count *= t->shape[i];
  return count;
}

size_t tensor_bytes(const Tensor *t) { return (size_t)tensor_count(t) * types[t->type].size; }

const char *tensor_type_name(TensorType type) { return types[type].name; }

// ---------------------------------- the check of a header ----------------------------------------

// converts a JSON number to a count; it must be whole and at most 2^53
static int as_count(const cJSON *item, int64_t *out) {
  if (!cJSON_IsNumber(item)) return 0;
  double value = item->valuedouble;
  if (!(value >= 0 && value <= EXACT_INTEGER) || value != (double)(int64_t)value) return 0;
  *out = (int64_t)value;
  return 1;
}

static int check_name(const char *name) {
  size_t length = strlen(name);
  if (length == 0) return bfm_fail(BFM_BAD_FILE, "a tensor has no name");
  if (length >= sizeof((Tensor *)0)->name) {
    return bfm_fail(
        BFM_BAD_FILE,
        "the name of tensor \"%.40s…\" has %zu characters, but at most %zu are supported", name,
        length, sizeof((Tensor *)0)->name - 1);
  }
  for (const char *c = name; *c; c++) {
    if ((unsigned char)*c < 32 || *c == 127) {
      return bfm_fail(BFM_BAD_FILE, "a tensor's name contains the control character %d", *c);
    }
  }
  return BFM_OK;
}

static int read_type(Tensor *t, const cJSON *dtype) {
  if (!cJSON_IsString(dtype)) { return bfm_fail(BFM_BAD_FILE, "tensor %s has no dtype", t->name); }
  for (int i = 0; i < TYPE_COUNT; i++) {
    if (!strcmp(types[i].name, dtype->valuestring)) {
      t->type = (TensorType)i;
      return BFM_OK;
    }
  }
  return bfm_fail(BFM_BAD_FILE,
                  "tensor %s has dtype \"%.20s\", but must be F32, F64, I64, I32, U8, BF16 or F16",
                  t->name, dtype->valuestring);
}

static int read_shape(Tensor *t, const cJSON *shape, int64_t *bytes) {
  if (!cJSON_IsArray(shape)) return bfm_fail(BFM_BAD_FILE, "tensor %s has no shape", t->name);

  *bytes = types[t->type].size;
  for (const cJSON *item = shape->child; item; item = item->next) {
    if (t->dims == TENSOR_MAX_DIMS) {
      return bfm_fail(BFM_BAD_FILE, "tensor %s has %d axes, but at most %d are supported", t->name,
                      cJSON_GetArraySize(shape), TENSOR_MAX_DIMS);
    }
    int64_t *extent = &t->shape[t->dims++];
    if (!as_count(item, extent)) {
      return bfm_fail(BFM_BAD_FILE, "axis %d of tensor %s is not a whole number", t->dims - 1,
                      t->name);
    }
    if (__builtin_mul_overflow(*bytes, *extent, bytes)) {
      return bfm_fail(BFM_BAD_FILE, "tensor %s has an impossible shape: axis %d is %" PRId64,
                      t->name, t->dims - 1, *extent);
    }
  }
  return BFM_OK;
}

// data_start: offset in the file of the data_size bytes of data
static int read_offsets(Entry *entry, const cJSON *offsets, int64_t bytes, size_t data_start,
                        size_t data_size) {
  const Tensor *t = &entry->tensor;
  int64_t begin, end;
  if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
      !as_count(offsets->child, &begin) || !as_count(offsets->child->next, &end)) {
    return bfm_fail(BFM_BAD_FILE, "data_offsets of tensor %s are not two whole numbers", t->name);
  }
  if (begin > end || (uint64_t)end > data_size) {
    return bfm_fail(BFM_BAD_FILE,
                    "tensor %s spans bytes %" PRId64 " to %" PRId64
                    ", but there are %zu bytes of data",
                    t->name, begin, end, data_size);
  }
  if (end - begin != bytes) {
    return bfm_fail(BFM_BAD_FILE,
                    "tensor %s has %" PRId64 " bytes, but its shape and dtype need %" PRId64,
                    t->name, end - begin, bytes);
  }
  if ((data_start + (size_t)begin) % types[t->type].size) {
    return bfm_fail(BFM_BAD_FILE, "tensor %s begins at byte %zu, which is not aligned to its %s",
                    t->name, data_start + (size_t)begin, types[t->type].name);
  }
  entry->begin = (size_t)begin;
  return BFM_OK;
}

static int read_entry(Entry *entry, const cJSON *item, size_t data_start, size_t data_size) {
  Tensor *t = &entry->tensor;
  TRY(check_name(item->string));
  strcpy(t->name, item->string);
  if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3) {
    return bfm_fail(BFM_BAD_FILE, "tensor %s is not described by dtype, shape and data_offsets",
                    t->name);
  }

  int64_t bytes = 0;
  TRY(read_type(t, cJSON_GetObjectItemCaseSensitive(item, "dtype")));
  TRY(read_shape(t, cJSON_GetObjectItemCaseSensitive(item, "shape"), &bytes));
  return read_offsets(entry, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), bytes,
                      data_start, data_size);
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static int read_metadata(SafeTensors *file, const cJSON *metadata) {
  if (file->metadata) return bfm_fail(BFM_BAD_FILE, "there are two entries " METADATA);
  if (!cJSON_IsObject(metadata)) return bfm_fail(BFM_BAD_FILE, METADATA " is not an object");
  file->metadata = metadata;
  size_t count = (size_t)cJSON_GetArraySize(metadata);
  file->pairs = malloc((count + 1) * sizeof *file->pairs);
  file->sorted_pairs = malloc((count + 1) * sizeof *file->sorted_pairs);
  if (!file->pairs || !file->sorted_pairs) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu entries of " METADATA, count);
  }
  for (const cJSON *item = metadata->child; item; item = item->next) {
    if (!cJSON_IsString(item)) {
      return bfm_fail(BFM_BAD_FILE, "the value of \"%.40s\" in " METADATA " is not a string",
                      item->string);
    }
    file->pairs[file->pair_count] = file->sorted_pairs[file->pair_count] = item;
    file->pair_count++;
  }
  qsort(file->sorted_pairs, count, sizeof *file->sorted_pairs, by_key);
  for (size_t i = 1; i < count; i++) {
    const char *key = file->sorted_pairs[i]->string;
    if (!strcmp(file->sorted_pairs[i - 1]->string, key)) {
      return bfm_fail(BFM_BAD_FILE, "\"%.40s\" appears twice in " METADATA, key);
    }
  }
  return BFM_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(Entry *const *)a)->tensor.name, (*(Entry *const *)b)->tensor.name);
}

static int by_data(const void *a, const void *b) {
  const Entry *s = *(Entry *const *)a, *t = *(Entry *const *)b;
  if (s->begin != t->begin) return s->begin < t->begin ? -1 : 1;
  size_t m = tensor_bytes(&s->tensor), n = tensor_bytes(&t->tensor);
  return (m > n) - (m < n);
}

// the tensors must cover the data without overlaps, gaps and a rest
static int check_tiling(SafeTensors *file, size_t data_size) {
  qsort(file->sorted, file->count, sizeof *file->sorted, by_data);
  size_t at = 0;
  for (int i = 0; i < file->count; i++) {
    const Entry *entry = file->sorted[i];
    if (entry->begin < at) {
      return bfm_fail(BFM_BAD_FILE,
                      "tensor %s begins at byte %zu, but the one before it ends at %zu",
                      entry->tensor.name, entry->begin, at);
    }
    if (entry->begin > at) {
      return bfm_fail(BFM_BAD_FILE, "there is a gap of %zu bytes before tensor %s",
                      entry->begin - at, entry->tensor.name);
    }
    at += tensor_bytes(&entry->tensor);
  }
  if (at != data_size) {
    return bfm_fail(BFM_BAD_FILE, "the last %zu bytes belong to no tensor", data_size - at);
  }
  return BFM_OK;
}

static int check_unique(SafeTensors *file) {
  qsort(file->sorted, file->count, sizeof *file->sorted, by_name);
  for (int i = 1; i < file->count; i++) {
    const char *name = file->sorted[i]->tensor.name;
    if (!strcmp(file->sorted[i - 1]->tensor.name, name)) {
      return bfm_fail(BFM_BAD_FILE, "tensor %s appears twice", name);
    }
  }
  return BFM_OK;
}

static int read_header(SafeTensors *file, const char *text, size_t length, size_t data_size) {
  const char *end = text;
  if (length > 0 && *text == '{') file->header = cJSON_ParseWithLengthOpts(text, length, &end, 0);
  if (!cJSON_IsObject(file->header)) {
    return bfm_fail(BFM_BAD_FILE, "the header is not valid JSON from its byte %zu on",
                    (size_t)(end - text));
  }
  for (; end < text + length; end++) {
    if (*end != ' ') return bfm_fail(BFM_BAD_FILE, "the header has text after its JSON object");
  }

  int entries = cJSON_GetArraySize(file->header);
  file->entries = calloc(entries + 1, sizeof *file->entries);
  file->sorted = calloc(entries + 1, sizeof *file->sorted);
  if (!file->entries || !file->sorted) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the names of %d tensors", entries);
  }

  for (const cJSON *item = file->header->child; item; item = item->next) {
    if (!strcmp(item->string, METADATA)) {
      TRY(read_metadata(file, item));
      continue;
    }
    Entry *entry = &file->entries[file->count];
    TRY(read_entry(entry, item, LENGTH_BYTES + length, data_size));
    file->sorted[file->count++] = entry;
  }
  TRY(check_unique(file));
  TRY(check_tiling(file, data_size));
  qsort(file->sorted, file->count, sizeof *file->sorted, by_name);
  return BFM_OK;
}

// ---------------------------------- reading ------------------------------------------------------

static int parse(SafeTensors *file, const void *bytes, size_t size) {
  if (size < LENGTH_BYTES) {
    return bfm_fail(BFM_BAD_FILE, "the file has %zu bytes, too few for a safetensors file", size);
  }
  const unsigned char *p = bytes;
  uint64_t length = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | p[i];

  size_t rest = size - LENGTH_BYTES;
  if (!memcmp(bytes, "\x89HDF\r\n\x1a\n", LENGTH_BYTES)) {
    return bfm_fail(BFM_BAD_FILE, "this is a dataset (HDF5), not a model");
  }
  if (length > HEADER_MAX) return bfm_fail(BFM_BAD_FILE, "this is not a safetensors file");
  if (length > rest) {
    return bfm_fail(BFM_BAD_FILE,
                    "the header should have %" PRIu64
                    " bytes, but the file has %zu: it is cut short or not a safetensors file",
                    length, size);
  }
  const char *header = (const char *)bytes + LENGTH_BYTES;
  TRY(read_header(file, header, (size_t)length, rest - (size_t)length));
  for (int i = 0; i < file->count; i++) {
    file->entries[i].tensor.data = header + length + file->entries[i].begin;
  }
  return BFM_OK;
}

int safetensors_parse(SafeTensors **file, const void *bytes, size_t size) {
  *file = calloc(1, sizeof **file);
  if (!*file) return bfm_fail(BFM_NO_MEMORY, "out of memory to read a safetensors file");
  int status = parse(*file, bytes, size);
  if (status) {
    safetensors_close(*file);
    *file = NULL;
  }
  return status;
}

int safetensors_open(SafeTensors **file, const char *path) {
  *file = NULL;
  int fd;
  size_t size;
  TRY(input_open(path, &fd, &size));
  void *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  int error = errno;
  close(fd);
  if (!map) return bfm_fail(BFM_BAD_FILE, "%s is empty", path);
  if (map == MAP_FAILED) return bfm_fail(BFM_IO, "cannot read %s: %s", path, strerror(error));

  int status = safetensors_parse(file, map, size);
  if (status) {
    munmap(map, size);
    return bfm_fail_prefix(status, "%s: ", path);
  }
  (*file)->map = map;
  (*file)->map_size = size;
  return BFM_OK;
}

int safetensors_read(SafeTensors **file, const char *path) {
  char *bytes;
  size_t size;
  *file = NULL;
  TRY(input_bytes(path, &bytes, &size));
  int status = safetensors_parse(file, bytes, size);
  if (status) {
    free(bytes);
    return bfm_fail_prefix(status, "%s: ", path);
  }
  (*file)->copy = bytes;
  return BFM_OK;
}

static void free_header(SafeTensors *file) {
  cJSON_Delete(file->header);
  free(file->pairs);
  free(file->sorted_pairs);
  free(file->entries);
  free(file->sorted);
}

void safetensors_close(SafeTensors *file) {
  if (!file) return;
  free_header(file);
  if (file->map) munmap(file->map, file->map_size);
  free(file->copy);
  free(file);
}

int safetensors_count(const SafeTensors *file) { return file->count; }

const Tensor *safetensors_at(const SafeTensors *file, int index) {
  return index >= 0 && index < file->count ? &file->entries[index].tensor : NULL;
}

static int name_against(const void *name, const void *entry) {
  return strcmp(name, (*(Entry *const *)entry)->tensor.name);
}

const Tensor *safetensors_find(const SafeTensors *file, const char *name) {
  Entry **found = bsearch(name, file->sorted, file->count, sizeof *file->sorted, name_against);
  return found ? &(*found)->tensor : NULL;
}

static int key_against(const void *key, const void *pair) {
  return strcmp(key, (*(const cJSON *const *)pair)->string);
}

const char *safetensors_metadata(const SafeTensors *file, const char *key) {
  if (!file->pair_count) return NULL;
  const cJSON **found =
      bsearch(key, file->sorted_pairs, file->pair_count, sizeof *file->sorted_pairs, key_against);
  return found ? (*found)->valuestring : NULL;
}

int safetensors_metadata_at(const SafeTensors *file, int index, const char **key,
                            const char **value) {
  if (index < 0 || index >= file->pair_count) return 0;
  *key = file->pairs[index]->string;
  *value = file->pairs[index]->valuestring;
  return 1;
}

// ---------------------------------- writing ------------------------------------------------------

// tensors with larger elements come first, so that all are aligned without gaps
static const int sizes[] = {8, 4, 2, 1};

static int check_given(const Tensor *t) {
  if ((unsigned)t->type >= (unsigned)TYPE_COUNT || t->dims < 0 || t->dims > TENSOR_MAX_DIMS) {
    return bfm_fail(BFM_BAD_ARGUMENT, "tensor %.64s has type %d and %d axes", t->name, t->type,
                    t->dims);
  }
  int64_t bytes = types[t->type].size;
  for (int i = 0; i < t->dims; i++) {
    if (t->shape[i] < 0 || __builtin_mul_overflow(bytes, t->shape[i], &bytes)) {
      return bfm_fail(BFM_BAD_ARGUMENT, "tensor %.64s has an impossible shape: axis %d is %" PRId64,
                      t->name, i, t->shape[i]);
    }
  }
  if (bytes > 0 && !t->data) {
    return bfm_fail(BFM_BAD_ARGUMENT, "tensor %.64s has no data", t->name);
  }
  return BFM_OK;
}

static int add_entry(cJSON *header, const Tensor *t, size_t begin) {
  char shape[128] = "[", offsets[64];
  for (int i = 0; i < t->dims; i++) {
    size_t n = strlen(shape);
    snprintf(shape + n, sizeof shape - n, "%s%" PRId64, i ? "," : "", t->shape[i]);
  }
  strcat(shape, "]");
  snprintf(offsets, sizeof offsets, "[%zu,%zu]", begin, begin + tensor_bytes(t));

  cJSON *entry = cJSON_AddObjectToObject(header, t->name);
  return entry && cJSON_AddStringToObject(entry, "dtype", types[t->type].name) &&
         cJSON_AddRawToObject(entry, "shape", shape) &&
         cJSON_AddRawToObject(entry, "data_offsets", offsets);
}

// the header as JSON in a new string, NULL if out of memory; also computes the size of the data
static char *header_json(const Tensor *tensors, int count, const char *const *metadata,
                         size_t *data_size) {
  cJSON *header = cJSON_CreateObject();
  char *json = NULL;
  if (metadata && *metadata) {
    cJSON *object = cJSON_AddObjectToObject(header, METADATA);
    for (; *metadata; metadata += 2) {
      if (!cJSON_AddStringToObject(object, metadata[0], metadata[1])) goto done;
    }
  }

  *data_size = 0;
  for (int s = 0; s < 4; s++) {
    for (int i = 0; i < count; i++) {
      if (types[tensors[i].type].size != sizes[s]) continue;
      if (!add_entry(header, &tensors[i], *data_size)) goto done;
      *data_size += tensor_bytes(&tensors[i]);
    }
  }
  json = cJSON_PrintUnformatted(header);

done:
  cJSON_Delete(header);
  return json;
}

// the header preceded by its length and padded with spaces, so that the data is aligned
static int make_header(const Tensor *tensors, int count, const char *const *metadata, char **out,
                       size_t *size) {
  size_t data_size;
  char *json = header_json(tensors, count, metadata, &data_size);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the header of %d tensors", count);

  size_t length = (strlen(json) + 7) / 8 * 8;
  *size = LENGTH_BYTES + length;
  *out = malloc(*size);
  if (!*out) {
    free(json);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a header of %s",
                    size_of_bytes((double)*size).text);
  }
  for (int i = 0; i < LENGTH_BYTES; i++) (*out)[i] = (char)(length >> 8 * i);
  memset(*out + LENGTH_BYTES, ' ', length);
  memcpy(*out + LENGTH_BYTES, json, strlen(json));
  free(json);

  SafeTensors check = {0};
  int status = read_header(&check, *out + LENGTH_BYTES, length, data_size);
  free_header(&check);
  if (status) free(*out);
  return status;
}

static int write_file(const char *path, const Tensor *tensors, int count, const char *header,
                      size_t header_size) {
  OutputFile file;
  TRY(output_open(&file, path));
  TRY(output_write(&file, header, header_size));
  for (int s = 0; s < 4; s++) {
    for (int i = 0; i < count; i++) {
      if (types[tensors[i].type].size != sizes[s]) continue;
      TRY(output_write(&file, tensors[i].data, tensor_bytes(&tensors[i])));
    }
  }
  return output_commit(&file);
}

int safetensors_write(const char *path, const Tensor *tensors, int count,
                      const char *const *metadata) {
  for (int i = 0; i < count; i++) TRY(check_given(&tensors[i]));
  char *header = NULL;
  size_t header_size = 0;
  int status = make_header(tensors, count, metadata, &header, &header_size);
  if (status == BFM_BAD_FILE) status = BFM_BAD_ARGUMENT;  // because the caller passed the tensors
  if (status) return bfm_fail_prefix(status, "cannot write %s: ", path);
  status = write_file(path, tensors, count, header, header_size);
  free(header);
  return status;
}
