// The results of many processes in one folder: each process appends JSON lines to a file of its own,
// HOST-PROCESS.jsonl, because machines that append to one file over NFS would overwrite each other.
// Readers merge all files by the time of their lines.

#ifndef BFM_SWEEP_JOURNAL_H
#define BFM_SWEEP_JOURNAL_H

#include <cjson/cJSON.h>
#include <limits.h>

#include "core/status.h"

typedef struct {
  char folder[PATH_MAX - 128];
  char path[PATH_MAX];  // of this process's file, which its first line creates; "": none yet
} Journal;

int journal_open(Journal *journal, const char *folder);

// Append an array of lines in one write; the caller still owns it.
int journal_append(Journal *journal, const cJSON *lines);

// The same for a file that processes of one machine share. If a killed process has left a partial line,
// it is removed first.
int lines_append(const char *path, const cJSON *lines);

typedef struct {
  cJSON *item;
  int file, number;  // where it is: an index of paths, and the line
  const char *time;  // "": the line has none
} JournalLine;

typedef struct {
  JournalLine *lines;  // by time, then in the order of their files
  int count;
  char **paths;  // [files]
  int files;
} JournalLines;

// Read a file (NULL: none) and the files of a folder; what is missing is empty. A last line that was cut
// off is skipped. `what` a line is, such as "a result of bfm sweep", is for the error.
int journal_read(JournalLines *lines, const char *file, const char *folder, const char *what);
void journal_free(JournalLines *lines);

// Add the version, the commit, the machine and the time to a line.
void journal_sign(cJSON *line);

#endif
