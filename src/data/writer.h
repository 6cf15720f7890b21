// A dataset file written in a stream: rows are appended to all tables, memory stays constant, and a
// writer killed at any moment leaves a file that opens and holds what was there at the last flush.

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

// bytes of a row of the table in memory
size_t table_row_bytes(const Table *table);

// a new file with room for the planned rows, refused when the path is taken. Beside the notes it
// says "bfm" (the version) and "planned_rows": it is complete when they are there
int writer_create(Writer **writer, const char *path, const Table *tables, int table_count,
                  int64_t planned, const Note *notes, int note_count);

// go on with a file that was cut off or completed; its tables must be these, and are cut to the
// shortest. Another plan than the file's rewrites it, with its notes
int writer_resume(Writer **writer, const char *path, const Table *tables, int table_count,
                  int64_t planned);

int64_t writer_rows(const Writer *writer);

// append rows: one array a table, in the tables' order. When it fails, those before are flushed
int writer_append(Writer *writer, int64_t rows, const void *const *values);

// whether a process has the file open for writing
int writer_is_open(const char *path);

// make all rows visible to readers, and safe from the end of this process
int writer_flush(Writer *writer);

// close the file, after a flush to the disk. Frees the writer in any case
int writer_close(Writer *writer);

// after a failure: let go of the file, which keeps what was flushed
void writer_abandon(Writer *writer);

#endif
