// A model from a path, where POSIX can map files into memory.

#if defined(__unix__) || defined(__APPLE__)

// the C library declares these functions only when asked for, under -std=c99
#if !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"

static bfm_policy_status fail_path(bfm_policy_error *error, const char *words, const char *path) {
  PolicyText text = policy_text(error, BFM_POLICY_IO);
  say_text(&text, words);
  say_text(&text, path);
  return BFM_POLICY_IO;
}

static bfm_policy_status load_map(bfm_policy **policy, void *map, size_t size,
                                  bfm_policy_error *error) {
  size_t bytes;
  void *memory = NULL;
  bfm_policy_status status = bfm_policy_bytes(map, size, &bytes, error);
  if (!status && posix_memalign(&memory, 64, bytes)) {
    status = policy_fail(error, BFM_POLICY_IO, "out of memory for a model");
  }
  if (!status) status = bfm_policy_load(policy, map, size, memory, bytes, error);
  if (status) {
    free(memory);
    return status;
  }
  (*policy)->map = map;
  (*policy)->map_size = size;
  return BFM_POLICY_OK;
}

bfm_policy_status bfm_policy_open(bfm_policy **policy, const char *path, bfm_policy_error *error) {
  struct stat info;
  if (!policy || !path)
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "policy or path is NULL");
  *policy = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (fd < 0) return fail_path(error, "cannot open ", path);
  if (fstat(fd, &info) || !S_ISREG(info.st_mode) || info.st_size < 1) {
    close(fd);
    return fail_path(error, "there is no model in ", path);
  }
  size_t size = (size_t)info.st_size;
  void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return fail_path(error, "cannot map ", path);
  bfm_policy_status status = load_map(policy, map, size, error);
  if (status) munmap(map, size);
  return status;
}

void bfm_policy_close(bfm_policy *policy) {
  if (!policy || !policy->map) return;  // the memory of bfm_policy_load is its caller's
  void *map = (void *)(uintptr_t)policy->map;
  size_t size = policy->map_size;
  free(policy);
  munmap(map, size);
}

#endif
