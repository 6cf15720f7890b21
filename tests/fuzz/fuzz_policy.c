// Any bytes as a model, as the header of one, and as changes to a sound model. What loads also acts and
// prompts.

#include <stdint.h>
#include <stdio.h>
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
  int status = bfm_policy_load(&policy, file, size, memory, MEMORY, &error);
  if (!status) use(policy);
  else if ((int)error.status != status || !*error.text) abort();
}

static char base[MOST / 2];  // a small model
static size_t base_size;

// fuzz_policy.safetensors is an export of a model of 3 observations and 1 action, with d 4, 2 blocks,
// hidden 5, feat 3 and b-hidden 4
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  size_t bytes;
  FILE *in = fopen("tests/fuzz/fuzz_policy.safetensors", "rb");
  base_size = in ? fread(base, 1, sizeof base, in) : 0;
  if (!base_size) abort();
  fclose(in);
  memcpy(file, base, base_size);
  if (bfm_policy_bytes(file, base_size, &bytes, NULL)) abort();
  return 0;
}

// The first byte says what the others are: a file, its header, or changes to a sound model, each of
// them a place of two bytes and a byte to write there.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > MOST / 2) return 0;
  int kind = data[0] % 3;
  data++, size--;
  if (kind == 0) {
    memcpy(file, data, size);
    load(size);
  } else if (kind == 1) {
    memset(file, 0, 8);
    file[0] = (char)size, file[1] = (char)(size >> 8);
    memcpy(file + 8, data, size);
    memset(file + 8 + size, 0, 256);
    load(8 + size + 256);
  } else {
    memcpy(file, base, base_size);
    for (; size >= 3; data += 3, size -= 3) {
      file[(size_t)(data[0] | data[1] << 8) % base_size] = (char)data[2];
    }
    load(base_size);
  }
  return 0;
}
