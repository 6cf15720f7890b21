// The interface of a file format's reader, and the functions with which it appends a file's rows to
// those of the files before it.

#ifndef BFM_DATA_FORMAT_H
#define BFM_DATA_FORMAT_H

#include "data/hdf5.h"
#include "data/parts.h"

// One row of the table of formats in dataset.c. `file` is the open HDF5 file at the path, or
// negative when the path is a folder or an .npz file. Since HDF5 files are read by a child process
// first (see hdf5_probe.h), a reader changes nothing but the dataset.
typedef struct {
  const char *name;
  int (*matches)(const char *path, hid_t file);
  int (*read)(Dataset *data, const char *path, hid_t file);  // appends the file's rows
} Format;

extern const Format format_d4rl, format_minari, format_exorl;

int path_is_npz(const char *path);  // by its name

// The first file determines sizes and environment; fails if a later file differs. env may be empty.
int dataset_agree(Dataset *data, int64_t obs_dim, int64_t act_dim, const char *env);

// Keeps the text attributes that this file shares with the files before it. The rows of the file
// begin at `first_row`. The lists "sources" and "tasks" are joined, and the file's indices into them
// renumbered.
int dataset_merge_notes(Dataset *data, hid_t file, int64_t first_row);

// the same for a file that has no attributes
void dataset_clear_notes(Dataset *data);

#endif
