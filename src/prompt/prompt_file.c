// Prompts kept in files, as bfm prompt -o writes them: z, and of which model it is. z is a sum of
// that model's B and means nothing to another, which its fingerprint tells.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/agent.h"
#include "core/bf16.h"
#include "core/json.h"

// by its values as bfloat16, which half a model has too
static int add_to_sum(bfm_agent *a, const Param *t, int replica, uLong *sum) {
  int64_t count = t->tensor.count;
  float *values = malloc((size_t)count * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->tensor.name);
  int status = padding_download(a->ops, t->tensor.padding, values, param_at(t, replica), count);
  for (int64_t i = 0; i < count && !status; i++) {
    uint16_t half = f32_to_bf16(values[i]);
    *sum = crc32_z(*sum, (const unsigned char *)&half, sizeof half);
  }
  free(values);
  return status;
}

bfm_status bfm_agent_fingerprint(bfm_agent *a, int replica, char out[9]) {
  NEED("agent, out", a, out);
  TRY(agent_check_replica(a, replica));
  const char *b = a->net[NET_B].name;
  size_t length = strlen(b);
  uLong sum = crc32_z(0, NULL, 0);
  for (int i = 0; i < a->params.tensor_count; i++) {
    const char *name = a->params.tensors[i].tensor.name;
    if (strncmp(name, b, length) || name[length] != '.') continue;
    TRY(add_to_sum(a, &a->params.tensors[i], replica, &sum));
  }
  snprintf(out, 9, "%08x", (unsigned)sum);
  return BFM_OK;
}

// z means something to the model that made it, and to those exported from it
static int check_maker(bfm_agent *a, int replica, const cJSON *kept, const char *path) {
  const char *env = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "env"));
  if (env && *env && *a->prompt.env && strcmp(env, a->prompt.env)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is a prompt for %s, the model is one of %s", path, env,
                    a->prompt.env);
  }
  const cJSON *made = cJSON_GetObjectItemCaseSensitive(kept, "fingerprint");
  if (!made) return BFM_OK;  // by a version that did not write it
  char own[9];
  TRY(bfm_agent_fingerprint(a, replica, own));
  if (cJSON_IsString(made) && !strcmp(made->valuestring, own)) return BFM_OK;
  const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "model"));
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s is a prompt for another model, %.256s of the fingerprint %.16s, not %s: "
                  "prompt this one anew",
                  path, model ? model : "one", cJSON_IsString(made) ? made->valuestring : "?", own);
}

bfm_status bfm_agent_prompt_kept(bfm_agent *a, int replica, const char *path, float *z) {
  NEED("agent, path, z", a, path, z);
  cJSON *kept;
  int found = 0;
  TRY(agent_check_replica(a, replica));
  TRY(json_read(&kept, path));
  int status = check_maker(a, replica, kept, path);
  if (!status) status = json_floats(kept, path, "z", a->d, z, &found);
  if (!status && !found) status = bfm_fail(BFM_BAD_ARGUMENT, "%s has no \"z\"", path);
  if (!status && (status = agent_check_z(z, a->d))) bfm_fail_prefix(status, "%s: ", path);
  cJSON_Delete(kept);
  return status;
}
