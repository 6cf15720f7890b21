// The common part of models, policies and training states as files: tensors that lie on a device,
// and metadata with a configuration, counts and names.

#ifndef BFM_NETS_CHECKPOINT_H
#define BFM_NETS_CHECKPOINT_H

#include "core/options.h"
#include "data/safetensors.h"
#include "nets/params.h"

// one tensor of a file, and where its values are
typedef struct {
  Tensor tensor;
  float *at;  // the values on the device; NULL: they are in tensor.data
  Padding padding;
} Entry;

#define CHECKPOINT_ENTRIES (3 * PARAMS_TENSORS + 8)  // at least the tensors of any file

// appends the tensors of one replica: of the networks in the bit mask `nets`, and the owner's
void checkpoint_add_replica(Entry *entries, int *count, const Params *params, int replica,
                            unsigned nets);
// Appends all tensors of all replicas, their targets and Adam's moments. The first axis of each is
// the replica.
void checkpoint_add_state(Entry *entries, int *count, const Params *params);

// the metadata, beside the version of the library
typedef struct {
  const char *kind;  // the value of the key "bfm"
  const Option *table;
  void *config;            // written with threads 0
  const char *env, *task;  // or NULL; env may be a user's own robot, whose files are written, too
  const char *signals;     // JSON of envs/signals.h, or NULL
  struct {
    const char *name;
    int64_t value;
  } counts[6];  // ends at the first without a name
} Head;

// How values of the device are written. With all but the first, float64 values become float32.
typedef enum {
  STORE_F32,
  STORE_BF16,
  // the large matrices as int8 with a scale for each row, a tensor X.scale beside X.weight; all else
  // as bfloat16
  STORE_INT8,
} Storage;

int checkpoint_write(Ops *ops, const Head *head, const Entry *entries, int count, Storage storage,
                     const char *path);

// Opens a file and registers the robot that it carries, if it does.
int checkpoint_open(SafeTensors **file, const char *path);
// the same with a copy of the file in memory (safetensors.h)
int checkpoint_open_copy(SafeTensors **file, const char *path);

// Uploads all entries. Fails if the file lacks one, has another shape or a value that is not finite,
// or has further tensors of the same networks. half: accept bfloat16 and int8, too
int checkpoint_read(Ops *ops, const SafeTensors *file, const Entry *entries, int count, int half);

// a whole number of the metadata, which must be in least … most
int checkpoint_count(const SafeTensors *file, const char *name, int64_t least, int64_t most,
                     int64_t *out);

// Reads the configuration in the metadata, sets device and threads to their defaults, then applies
// the options in `given` (JSON, or NULL).
int checkpoint_config(const SafeTensors *file, const Option *table, void *config,
                      const char *given);

// whether `given` (JSON, or NULL) has the option
int checkpoint_is_given(const char *given, const char *option);

#endif
