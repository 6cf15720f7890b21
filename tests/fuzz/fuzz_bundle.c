// Fuzzes the model of a bundle: any text is refused with a sentence that names the file, or parsed by
// MuJoCo without a look at the disk.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "envs/bundle.h"

static int watching;

// MuJoCo looks at a file by the first of these, then opens it by one of the others. They take the place
// of the C library's.
int __xstat(int version, const char *path, struct stat *info);

int __xstat(int version, const char *path, struct stat *info) {
  (void)version;
  if (watching) abort();
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}

static FILE *open_file(const char *name, const char *path, const char *mode) {
  FILE *(*real)(const char *, const char *) = NULL;
  if (watching) abort();
  *(void **)&real = dlsym(RTLD_NEXT, name);
  return real(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
  return open_file("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
  return open_file("fopen64", path, mode);
}

static void ignore(const mjLogMessage *message) { (void)message; }

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  mju_setLogHandler(ignore);
  static const char *const names[] = {"robot.xml", "robot.urdf"};
  static const char png[] = "\x89PNG\r\n\x1a\n";
  if (!size) return 0;
  Bundle *bundle;
  mjSpec *spec;
  if (bundle_new(&bundle)) abort();
  if (bundle_add(bundle, names[bytes[0] & 1], bytes + 1, size - 1)) abort();
  if (bundle_add(bundle, "a.stl", "solid", 5) || bundle_add(bundle, "d/t.png", png, 8)) abort();
  watching = 1;
  int status = bundle_spec(bundle, BASE_DEFAULT, &spec);
  watching = 0;
  if (status && (spec || strncmp(bfm_error(), "robot.", 6) != 0)) abort();
  if (spec) mj_deleteSpec(spec);
  bundle_free(bundle);
  return 0;
}
