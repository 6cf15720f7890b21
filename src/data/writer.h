// A dataset file written in a stream: rows are appended to all tables, and memory stays constant. A
// writer that is killed at any moment leaves a valid file with the rows of the last flush.

#ifndef BFM_DATA_WRITER_H
#define BFM_DATA_WRITER_H

#include <stdint.h>

#include "core/status.h"
#include "data/hdf5.h"

typedef struct Writer Writer;

#define WRITER_TABLES 16

// one table of the file: "infos/qpos", [rows, columns]; columns 0: a single axis, [rows]
typedef struct {
  const char *name;
  ColumnType type;
  int64_t columns;
} Table;

// bytes per row of the table in memory
size_t table_row_bytes(const Table *table);

// Creates a file with room for the planned rows; fails if the path exists. Beside the notes it has
// the attributes "bfm" (the version) and "planned_rows": the file is complete when it has that many. If
// the note "env" names a user's own robot, the robot's files are in it, too.
int writer_create(Writer **writer, const char *path, const Table *tables, int table_count,
                  int64_t planned, const Note *notes, int note_count);

// The same for a file that appears at its path only when writer_close succeeds.
int writer_create_whole(Writer **writer, const char *path, const Table *tables, int table_count,
                        int64_t planned, const Note *notes, int note_count);

// Continues an interrupted or complete file. Its tables must have these names, types and columns;
// they are cut to the shortest. If `planned` differs from the file's, the file is rewritten with its
// notes.
int writer_resume(Writer **writer, const char *path, const Table *tables, int table_count,
                  int64_t planned);

int64_t writer_rows(const Writer *writer);

// Appends rows: one array per table, in the tables' order. If it fails, earlier rows are flushed.
int writer_append(Writer *writer, int64_t rows, const void *const *values);

// whether a process has the file open for writing
int writer_is_open(const char *path);

// makes all rows visible to readers; they survive the end of this process
int writer_flush(Writer *writer);

// Flushes the file to the disk and closes it. Always frees the writer.
int writer_close(Writer *writer);

// After a failure: closes the file, which keeps the flushed rows, and frees the writer. A file of
// writer_create_whole is removed.
void writer_abandon(Writer *writer);

#endif
