// Paths as text.

#include "core/paths.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int too_long(const char *path) {
  return bfm_fail(BFM_BAD_ARGUMENT, "a path is longer than %d characters: %.64s…", PATH_MAX - 1,
                  path);
}

int path_clean(char out[PATH_MAX], const char *path) {
  size_t used = 0, fixed = 0;  // characters written; of them, those that no ".." can take back
  if (strlen(path) >= PATH_MAX) return too_long(path);
  if (*path == '/' || *path == '\\') out[used++] = '/', fixed = used;
  while (*path) {
    size_t n = strcspn(path, "/\\");
    int up = n == 2 && path[0] == '.' && path[1] == '.';
    if (up && used > fixed) {
      while (used > fixed && out[used - 1] != '/') used--;
      if (used > fixed) used--;
    } else if (n && !(n == 1 && path[0] == '.') && !(up && fixed && out[0] == '/')) {
      if (used && out[used - 1] != '/') out[used++] = '/';
      memmove(out + used, path, n);
      used += n;
      if (up) fixed = used;
    }
    path += n + (path[n] != 0);
  }
  out[used] = 0;
  return BFM_OK;
}

const char *path_base(const char *path) {
  for (const char *c = path; *c; c++) {
    if (*c == '/' || *c == '\\') path = c + 1;
  }
  return path;
}

int path_ends(const char *path, const char *extension) {
  size_t n = strlen(path), end = strlen(extension);
  return n > end && !strcasecmp(path + n - end, extension);
}

int path_join(char out[PATH_MAX], const char *folder, const char *name) {
  char joined[PATH_MAX];
  int n = snprintf(joined, sizeof joined, "%s%s%s", folder, *folder ? "/" : "", name);
  return n < PATH_MAX ? path_clean(out, joined) : too_long(name);
}

int path_beside(char out[PATH_MAX], const char *file, const char *name) {
  char folder[PATH_MAX];
  if (*name == '/' || *name == '\\') return path_clean(out, name);
  if (strlen(file) >= PATH_MAX) return too_long(file);
  int length = (int)(path_base(file) - file);
  snprintf(folder, sizeof folder, "%.*s", length > 1 ? length - 1 : length, file);
  return path_join(out, folder, name);
}

int path_inside(char out[PATH_MAX], const char *path) {
  char clean[PATH_MAX];
  TRY(path_clean(clean, path));
  const char *from = *clean == '/' ? path_base(clean) : clean;
  while (!strncmp(from, "../", 3)) from += 3;
  if (!strcmp(from, "..")) from += 2;
  memmove(out, from, strlen(from) + 1);
  return BFM_OK;
}
