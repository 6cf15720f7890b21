// The parameters of several networks in one array: values, targets (slow copies), gradients, Adam's
// moments and working copies. An agent owns one set (F, B, U, V, pi), an explorer another (Q, pi,
// RND's two networks). A set places the networks, initializes and updates their parameters, and
// finds every tensor by its name, for bfm_agent_get_tensor and for files.
//
// Order of calls: define the networks; params_place; params_layout with an arena; params_init.

#ifndef BFM_NETS_PARAMS_H
#define BFM_NETS_PARAMS_H

#include "nets/net.h"

#define PARAMS_TENSORS (9 * NET_MAX_TENSORS + 1)

// a tensor with its name
typedef struct {
  NetTensor tensor;
  float *at;   // values of replica 0, on the device
  int net;     // index of its network; -1: added by the owner and not trained
  int target;  // 1: part of the targets
} Param;

typedef struct {
  Ops *ops;
  Net *net;  // [nets], the owner's; a network without a name is absent
  int nets, replicas;
  const Net *masked;  // the network with blocks > 1, or NULL

  int64_t count, target_count;  // floats; networks with targets come first
  float *value, *target;        // [count], [target_count]
  float *adam_m, *adam_v;       // [count]
  void *grad;                   // T [count]
  void *work, *target_work;     // copies as T; if T is float32, value and target themselves
  uint8_t *mask;                // of the masked network
  void *masked_work, *masked_target_work;  // its copies as T, zero where the mask is 0
  uint64_t *seeds;                         // [replicas]
  int seed_count;                          // different seeds, which repeat; 0: one for each replica

  Param tensors[PARAMS_TENSORS];  // of the networks in their order, then targets, then the owner's
  int tensor_count;
} Params;

// sets the offset of each network's parameters and their total count
void params_place(Params *params, Ops *ops, Net *net, int nets);

// Take the buffers from the arena and set the networks' pointers into them. Acting needs the first
// function, training also the second.
void params_layout(Params *params, Arena *arena);
void params_training_layout(Params *params, Arena *arena);

// Lists the tensors and uploads the seeds (seed, seed+1, …), the masks and, with `start`, initial
// parameters. Without `start`, the parameters are zero until they are read from a file.
int params_init(Params *params, uint64_t seed, int start);

// appends a tensor of the owner
void params_add(Params *params, const NetTensor *tensor, float *at);

// updates the working copies after a change of values or targets
void params_refresh(Params *params);

typedef struct {
  int64_t first, end;   // parameters first … end-1; the masked network needs an update of its own
  const int64_t *step;  // on the device: the number of updates before this one
  double lr, tau;
  int64_t anneal;  // as in Adam of ops.h
  int targets;     // 1: move the targets of these parameters by tau
} ParamsUpdate;

// Adam, then targets += tau·(values − targets)
void params_update(Params *params, const ParamsUpdate *update);

// ------------------------------- tensors by name -------------------------------------------------

const Param *params_find(const Params *params, const char *name);  // or NULL
float *param_at(const Param *param, int replica);
// shape: without the replica axis
int params_info(const Params *params, int index, const char **name, int *dims, int64_t shape[4]);
// one replica's values; `count` must equal the tensor's
int params_get(Params *params, int replica, const char *name, float *out, int64_t count);
int params_set(Params *params, int replica, const char *name, const float *values, int64_t count);

#endif
