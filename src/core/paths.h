// Paths as text: cleaned and joined without a look at the disk, as MuJoCo does it.

#ifndef BFM_CORE_PATHS_H
#define BFM_CORE_PATHS_H

#include <limits.h>

#include "core/status.h"

// without ".", "..", doubled and backward slashes, as far as the path itself tells: "a/./b/../c" → "a/c"
int path_clean(char out[PATH_MAX], const char *path);
// the path of `name`, which is relative to the folder of `file` unless it is absolute
int path_beside(char out[PATH_MAX], const char *file, const char *name);
// folder/name; "" stands for no folder
int path_join(char out[PATH_MAX], const char *folder, const char *name);
// A path that stays below its folder: "../../a/b" → "a/b", "/home/me/a" → "a".
int path_inside(char out[PATH_MAX], const char *path);

const char *path_base(const char *path);                 // behind the last slash of either kind
int path_ends(const char *path, const char *extension);  // ".xml", in any case

#endif
