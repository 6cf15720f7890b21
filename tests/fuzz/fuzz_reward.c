// Fuzzes the reward language: any text is compiled, or refused with an error sentence that is not
// muParser's. Compiled rewards must have a finite value, and copies of them the same.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/reward_model.h"
#include "envs/reward.h"

static const Alias aliases[] = {
    {"speed", "com.vx", ""},
    {"hand", "left_hand", ""},
    {"fast", "tolerance_linear(speed, 1, inf, 1, 0)", ""},
    {"circle", "1 + circle", ""},
    {NULL, NULL, NULL},
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static mjModel *model;
  static mjData *data;
  if (!model) {
    model = reward_model();
    data = mj_makeData(model);
    for (int i = 0; i < model->nv; i++) data->qvel[i] = sin(i + 1);
    mj_forward(model, data);
  }

  char *text = malloc(size + 1);
  memcpy(text, bytes, size);
  text[size] = 0;
  Reward *reward, *copy;
  if (reward_new(&reward, model, aliases, text)) {
    if (reward || !*bfm_error() || !strncmp(bfm_error(), "muParser", 8)) abort();
  } else {
    double value = reward_value(reward, model, data);
    if (!isfinite(value) || reward_faults(reward) > 1) abort();
    if (reward_copy(&copy, reward)) abort();
    if (reward_value(copy, model, data) != value) abort();
    reward_free(copy);
    reward_free(reward);
  }
  free(text);
  return 0;
}
