// What models, policies and training states have in common as files: tensors that are on a device,
// and a configuration, counts and names in the metadata.

#ifndef BFM_NETS_CHECKPOINT_H
#define BFM_NETS_CHECKPOINT_H

#include "core/options.h"
#include "data/safetensors.h"
#include "nets/params.h"

// one tensor of a file and where its values are
typedef struct {
  Tensor tensor;
  float *at;  // on the device; NULL: tensor.data has them
  Padding padding;
} Entry;

#define CHECKPOINT_ENTRIES (3 * PARAMS_TENSORS + 8)  // room for what any file holds

// append the tensors of one replica: those of the networks in the bit mask `nets` and the owner's
void checkpoint_add_replica(Entry *entries, int *count, const Params *params, int replica,
                            unsigned nets);
// append all tensors of all replicas, their targets and Adam's moments; the first axis is the
// replica
void checkpoint_add_state(Entry *entries, int *count, const Params *params);

// the metadata; its version is this library's
typedef struct {
  const char *kind;  // under "bfm"
  const Option *table;
  void *config;            // its threads are not written
  const char *env, *task;  // or NULL
  struct {
    const char *name;
    int64_t value;
  } counts[6];  // up to the first without a name
} Head;

// half: float32 on the device as bfloat16, float64 as float32
int checkpoint_write(Ops *ops, const Head *head, const Entry *entries, int count, int half,
                     const char *path);

// to the device, where all are there in their shapes and finite, and no others of their networks;
// half: bfloat16 is as good
int checkpoint_read(Ops *ops, const SafeTensors *file, const Entry *entries, int count, int half);

// a number of the metadata, least … most
int checkpoint_count(const SafeTensors *file, const char *name, int64_t least, int64_t most,
                     int64_t *out);

// the configuration of the metadata but for the machine it was made on, then what is given (JSON,
// or NULL)
int checkpoint_config(const SafeTensors *file, const Option *table, void *config,
                      const char *given);

#endif
