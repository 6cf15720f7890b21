// The folder of a run. It is created when needed and removed again if the run fails at its start.
// It holds logs of JSON lines; a resumed run first cuts off the lines that it will write again.

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
  DIR *lock;                 // open while this process holds the lock
} Folder;

int folder_name(Folder *folder, const char *path);
int folder_make(Folder *folder);  // like mkdir -p

// Locks the folder until folder_unlock or the end of this process; fails if another process holds
// the lock.
int folder_lock(Folder *folder);
void folder_unlock(Folder *folder);

// Whether a process holds the lock of the folder at this path; -1: there is none, or its file system
// does not tell.
int folder_is_locked(const char *path);

// Removes these files (NULL after the last) if the folder is locked, then the folders that
// folder_make created, as far as they are empty.
void folder_take_back(Folder *folder, const char *const *files);

void folder_file(const Folder *folder, const char *name, char *out, size_t size);

// Opens a log for appending. `count` is a key such as "step": the log is cut before the first line
// whose count exceeds `last`, because a resumed run writes that line again.
int folder_open_log(const Folder *folder, const char *name, const char *count, int64_t last,
                    FILE **log);
// the value of a key in the last line of a log that has it; 0 if no line has it
double folder_log_last(const Folder *folder, const char *name, const char *key);

// appends a JSON line and flushes
int folder_log(const Folder *folder, FILE *log, const cJSON *line);

// a number with 7 digits, as many as a float32 holds; NaN and infinity, which JSON lacks, as text
cJSON *log_number(double value);

#endif
