// The folder of a run: made when needed, taken back when the run comes to nothing, with logs of JSON
// lines that a resume cuts to where it begins.

#ifndef BFM_CORE_FOLDER_H
#define BFM_CORE_FOLDER_H

#include <cjson/cJSON.h>
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef struct {
  char path[PATH_MAX - 64];  // without a slash at its end
  int made;                  // how many folders at the end of the path are new
  DIR *lock;                 // held open while the folder is this process's
} Folder;

int folder_name(Folder *folder, const char *path);
int folder_make(Folder *folder);  // with the folders above it

// keep other processes that lock it out of the folder, until it is unlocked or this one ends
int folder_lock(Folder *folder);
void folder_unlock(Folder *folder);

// remove these files (NULL after the last) where the folder is locked, and the folders that were made and are empty
void folder_take_back(Folder *folder, const char *const *files);

void folder_file(const Folder *folder, const char *name, char *out, size_t size);

// open a log to append to, without its lines from the first on whose count, a key such as "step",
// is beyond the last: they are done again
int folder_open_log(const Folder *folder, const char *name, const char *count, int64_t last,
                    FILE **log);
// a number of a log's last line that has it, 0 without one
double folder_log_last(const Folder *folder, const char *name, const char *key);

// append a JSON line, and flush
int folder_log(const Folder *folder, FILE *log, const cJSON *line);

// a number for a line, in as many digits as a float32 has; JSON has no NaN and no infinity: as text
cJSON *log_number(double value);

#endif
