// The fingerprint of a model: a checksum of B's parameters. z is a sum of B's outputs, so a z that was
// computed with one B is meaningless for a model with another.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/workspace.h"
#include "core/bf16.h"

// add the tensor's values as bfloat16, which survive bfm export --half
static int add_to_sum(Ops *ops, const Param *t, int replica, uLong *sum) {
  int64_t count = t->tensor.count;
  float *values = malloc((size_t)count * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->tensor.name);
  int status = padding_download(ops, t->tensor.padding, values, param_at(t, replica), count);
  for (int64_t i = 0; i < count && !status; i++) {
    uint16_t half = f32_to_bf16(values[i]);
    *sum = crc32_z(*sum, (const unsigned char *)&half, sizeof half);
  }
  free(values);
  return status;
}

bfm_status bfm_agent_fingerprint(bfm_agent *a, int replica, char out[9]) {
  NEED("agent, out", a, out);
  SHARED(a);
  TRY(agent_check_replica(a, replica));
  WORKSPACE(w, a);
  const char *b = a->net[NET_B].name;
  size_t length = strlen(b);
  uLong sum = crc32_z(0, NULL, 0);
  for (int i = 0; i < a->params.tensor_count; i++) {
    const char *name = a->params.tensors[i].tensor.name;
    if (strncmp(name, b, length) || name[length] != '.') continue;
    TRY(add_to_sum(w->ops, &a->params.tensors[i], replica, &sum));
  }
  snprintf(out, 9, "%08x", (unsigned)sum);
  return BFM_OK;
}
