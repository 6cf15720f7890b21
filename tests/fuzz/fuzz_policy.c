// Any bytes as a model: first whole, then as the header of a file with some data, so that the reader
// goes on to the tensors. What loads also acts and prompts.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bfm_policy.h"

enum { MOST = 1 << 16, MEMORY = 1 << 20 };
static _Alignas(64) char file[MOST], memory[MEMORY], work_memory[MEMORY];

static void use(const bfm_policy *policy) {
  const bfm_policy_info *info = bfm_policy_get_info(policy);
  static float obs[4096], z[4096], act[4096];
  bfm_policy_error error;
  bfm_policy_report report;
  bfm_policy_work *work;
  const bfm_policy_how how = {2, BFM_POLICY_GAIN, 1, 1, 1};
  if (bfm_policy_work_bytes(policy, 2) > MEMORY || info->d > 4096) return;
  if (bfm_policy_work_init(&work, policy, 2, work_memory, MEMORY, &error)) abort();
  for (int i = 0; i < info->d; i++) z[i] = 1;
  bfm_policy_act(policy, work, obs, z, &how, act, &report, &error);
  for (int i = 0; i < info->act_dim; i++) {
    if (!(act[i] >= -1 && act[i] <= 1)) abort();
  }
  bfm_policy_prompt_states(policy, work, 1, obs, z, &error);
}

static void load(size_t size) {
  bfm_policy_error error;
  bfm_policy *policy;
  size_t bytes;
  if (bfm_policy_bytes(file, size, &bytes, &error)) {
    if (!error.status || !*error.text) abort();
    return;
  }
  if (bytes > MEMORY) return;
  if (!bfm_policy_load(&policy, file, size, memory, bytes, &error)) use(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > MOST / 2) return 0;
  memcpy(file, data, size);
  load(size);
  memset(file, 0, 8);
  file[0] = (char)size, file[1] = (char)(size >> 8);
  memcpy(file + 8, data, size);
  memset(file + 8 + size, 0, 4096);
  load(8 + size + 4096);
  return 0;
}
