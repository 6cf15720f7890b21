// Prompts saved in files by bfm prompt -o: z, and the fingerprint of its model. z is a sum of that
// model's B and meaningless for any other model, so the fingerprints must match.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/json.h"
#include "prompt/prompt.h"

cJSON *prompt_file_json(const char *model, const char *fingerprint, const char *env,
                        const char *name, const char *text, const float *z, int64_t d) {
  char number[32];
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "model", model);
  if (fingerprint) cJSON_AddStringToObject(json, "fingerprint", fingerprint);
  cJSON_AddStringToObject(json, "env", env);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(json, "prompt"), name, text);
  cJSON *array = cJSON_AddArrayToObject(json, "z");
  for (int64_t i = 0; i < d; i++) {
    snprintf(number, sizeof number, "%.9g", z[i]);
    cJSON_AddItemToArray(array, cJSON_CreateRaw(number));
  }
  return json;
}

// The prompt must come from this model, or from one that was exported from it or to it.
static int check_maker(bfm_agent *a, int replica, const cJSON *kept, const char *path) {
  const char *env = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "env"));
  if (env && *env && *a->prompt.env && strcmp(env, a->prompt.env)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is a prompt for %s, but the model is for %s", path, env,
                    a->prompt.env);
  }
  const cJSON *made = cJSON_GetObjectItemCaseSensitive(kept, "fingerprint");
  if (!made) return BFM_OK;  // a version before fingerprints wrote it
  char own[9];
  TRY(bfm_agent_fingerprint(a, replica, own));
  if (cJSON_IsString(made) && !strcmp(made->valuestring, own)) return BFM_OK;
  const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "model"));
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s is a prompt for another model, %.256s with the fingerprint %.16s, not %s: "
                  "prompt this model again",
                  path, model ? model : "one", cJSON_IsString(made) ? made->valuestring : "?", own);
}

bfm_status bfm_agent_prompt_file(bfm_agent *a, int replica, const char *path, float *z) {
  NEED("agent, path, z", a, path, z);
  SHARED(a);
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
