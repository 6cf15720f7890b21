// An agent's options: one table.

#include "agent/config.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets/device.h"

#define AT(field) offsetof(Config, field)

const Option agent_options[] = {
    {"algo", OPTION_CHOICE, AT(algo), "fb-aware", 0, 0, "fb|fb-aw|fb-are|fb-aware|lap|lap-aw",
     "algorithm: -aw weights actions by advantage, -are has auto-regressive features, -aware both"},
    {"d", OPTION_INT, AT(d), "64", 1, 4096, NULL, "length of the task vector z"},
    {"blocks", OPTION_INT, AT(blocks), "0", 0, 64, NULL,
     "auto-regressive blocks K of z; 0: 8 for fb-are and fb-aware (d/2 if d is below 16), else 1"},
    {"batch", OPTION_INT, AT(batch), "1024", 2, 65536, NULL, "transitions in a training step"},
    {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL, "seed of every random draw"},
    {"seeds", OPTION_INT, AT(seeds), "1", 1, 64, NULL,
     "replicas trained side by side, with the seeds seed, seed+1, …"},
    {"preset", OPTION_CHOICE, AT(preset), "paper", 0, 0, "paper|small",
     "network widths (hidden/feat/b-hidden): paper 1024/512/256; small 256/128/128, for a CPU"},
    {"hidden", OPTION_INT, AT(hidden), "0", 0, 4096, NULL, "width of F and pi; 0: the preset's"},
    {"feat", OPTION_INT, AT(feat), "0", 0, 4096, NULL,
     "width of each branch's output in F and pi; 0: the preset's"},
    {"b-hidden", OPTION_INT, AT(b_hidden), "0", 0, 4096, NULL, "width of B; 0: the preset's"},
    {"gamma", OPTION_REAL, AT(gamma), "0.98", 0, 1, NULL,
     "discount of future rewards, per transition"},
    {"lr", OPTION_REAL, AT(lr), "1e-4", 0, 10, NULL, "Adam's learning rate"},
    {"b-lr", OPTION_REAL, AT(b_lr), "0", 0, 10, NULL, "learning rate of B; 0: lr"},
    {"polyak", OPTION_REAL, AT(polyak), "0.01", 0, 1, NULL,
     "how far target networks move towards the networks in each step"},
    {"ortho", OPTION_REAL, AT(ortho), "1", 0, 1e6, NULL, "weight of the orthonormality loss"},
    {"target", OPTION_CHOICE, AT(target), "mean", 0, 0, "mean|min",
     "targets take the mean or the minimum over the members of F"},
    {"ensemble", OPTION_CHOICE, AT(ensemble), "parallel", 0, 0, "parallel|shared",
     "members of F are separate networks, or shallow heads on shared branches: one hidden layer "
     "and "
     "the output each"},
    {"members", OPTION_INT, AT(members), "2", 1, 8, NULL, "members M of F"},
    {"b-norm", OPTION_BOOL, AT(b_norm), "on", 0, 0, NULL,
     "scale each block of B to norm sqrt(d_k)"},
    {"f-norm", OPTION_BOOL, AT(f_norm), "off", 0, 0, NULL, "layer norm in the trunk of F"},
    {"pi-norm", OPTION_BOOL, AT(pi_norm), "off", 0, 0, NULL, "layer norm in the trunk of pi"},
    {"weights", OPTION_CHOICE, AT(weights), "iwis", 0, 0, "iwis|wis",
     "importance weights of advantage weighting"},
    {"beta", OPTION_REAL, AT(beta), "10", 1e-6, 1e9, NULL,
     "temperature of advantage weighting: weights are softmax(advantage / beta)"},
    {"clip", OPTION_REAL, AT(clip), "4.6", 0, INFINITY, NULL,
     "largest value of advantage / beta; inf: no limit"},
    {"ess", OPTION_REAL, AT(ess), "0", 0, 1, NULL,
     "effective sample size of the weights as a share of the batch; each step finds the beta that "
     "gives it; 0: use beta and clip"},
    {"adv", OPTION_CHOICE, AT(adv), "mean", 0, 0, "mean|sum",
     "how the members' values of the data's action are combined (the paper prints a sum)"},
    {"adv-base", OPTION_CHOICE, AT(adv_base), "min", 0, 0, "min|mean",
     "how the members' values of the policy's action are combined"},
    {"sigma", OPTION_REAL, AT(sigma), "0.2", 1e-3, 10, NULL, "standard deviation of the policy"},
    {"noise-clip", OPTION_REAL, AT(noise_clip), "0.3", 0, 10, NULL,
     "limit of the policy's noise in training"},
    {"es", OPTION_INT, AT(es), "32", 0, 4096, NULL,
     "evaluation-based sampling: act by the best of so many sampled actions; 0: off"},
    {"es-base", OPTION_CHOICE, AT(es_base), "mean", 0, 0, ES_BASES,
     "how the members of F judge a sampled action: by the mean or the minimum of their values, or "
     "by "
     "the minimum of their gains over the policy's mean, which is then one of the actions"},
    {"z-mix", OPTION_REAL, AT(z_mix), "0.5", 0, 1, NULL,
     "share of z that is B of a random state; the rest is Gaussian"},
    {"z-whiten", OPTION_BOOL, AT(z_whiten), "off", 0, 0, NULL,
     "for lap and lap-aw: z of a random state is (E phi phi^T)^-1 phi, as prompts solve for z, not "
     "phi itself"},
    {"z-groups", OPTION_INT, AT(z_groups), "0", 0, 65536, NULL,
     "distinct z in a batch; 0: 1 if auto-regressive, else one per transition"},
    {"z-pool", OPTION_INT, AT(z_pool), "32", 1, 4096, NULL,
     "auto-regressive algorithms draw so many z at once, every so many steps"},
    {"goal", OPTION_TEXT, AT(goal), "", 0, 0, NULL,
     "goal space: the columns of the observation that B sees (0:4,7); bfm train also takes "
     "the names of parts (height,velocity). Default: the goal of the robot's file, or all columns"},
    {"mbar", OPTION_INT, AT(mbar), "0", 0, 4096, NULL,
     "rank of the term that does not depend on the action, in the advantage-only model; 0: off"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:n"},
    {"precision", OPTION_CHOICE, AT(precision), "auto", 0, 0, DEVICE_PRECISIONS,
     "precision of matrix products; auto: bf16 on a GPU, f32 on a CPU"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
    {0},
};

int algo_is_autoregressive(int algo) { return algo == ALGO_FB_ARE || algo == ALGO_FB_AWARE; }
int algo_is_laplacian(int algo) { return algo == ALGO_LAP || algo == ALGO_LAP_AW; }
int algo_is_weighted(int algo) {
  return algo == ALGO_FB_AW || algo == ALGO_FB_AWARE || algo == ALGO_LAP_AW;
}

int config_complete(Config *c) {
  int small = c->preset == PRESET_SMALL, autoregressive = algo_is_autoregressive(c->algo);
  if (!c->hidden) c->hidden = small ? 256 : 1024;
  if (!c->feat) c->feat = small ? 128 : 512;
  if (!c->b_hidden) c->b_hidden = small ? 128 : 256;
  // a block with one feature would be scaled to its sign, and learn nothing
  if (!c->blocks) c->blocks = !autoregressive || c->d < 4 ? 1 : c->d < 16 ? c->d / 2 : 8;
  if (!c->z_groups) c->z_groups = autoregressive ? 1 : c->batch;
  if (c->seeds < 1) c->seeds = 1;

  if (c->blocks > c->d) {
    return bfm_fail(BFM_BAD_ARGUMENT, "blocks must be at most d: %ld blocks, d = %ld",
                    (long)c->blocks, (long)c->d);
  }
  if (c->blocks > c->b_hidden) {
    return bfm_fail(BFM_BAD_ARGUMENT, "blocks must be at most b-hidden: %ld blocks, b-hidden = %ld",
                    (long)c->blocks, (long)c->b_hidden);
  }
  if (c->blocks > 1 && !autoregressive) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "blocks = %ld needs an auto-regressive algorithm: fb-are or fb-aware",
                    (long)c->blocks);
  }
  if (c->batch % c->z_groups) {
    return bfm_fail(BFM_BAD_ARGUMENT, "z-groups must divide the batch: %ld does not divide %ld",
                    (long)c->z_groups, (long)c->batch);
  }
  if (autoregressive && c->batch / c->z_groups < 2) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "z-groups = %ld leaves one transition per group: an auto-regressive algorithm needs two",
        (long)c->z_groups);
  }
  if (c->mbar && algo_is_laplacian(c->algo)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "mbar = %ld is for the fb algorithms: leave it out for lap",
                    (long)c->mbar);
  }
  if (c->z_whiten && !algo_is_laplacian(c->algo)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "z-whiten = on is for lap and lap-aw: the fb algorithms prompt with B itself");
  }
  return BFM_OK;
}

int config_goal_columns(const Config *config, int64_t obs_dim, int32_t **out, int64_t *count) {
  *out = NULL;
  *count = 0;
  if (!config->goal[0]) return BFM_OK;
  int32_t *columns = malloc(obs_dim * sizeof *columns);
  char *used = calloc(obs_dim, 1);
  int status =
      !columns || !used ? bfm_fail(BFM_NO_MEMORY, "out of memory for a goal space") : BFM_OK;
  const char *at = config->goal;
  while (!status && *at) {
    char *end;
    long first = strtol(at, &end, 10), last = first < obs_dim ? first + 1 : first;
    int good = end != at;
    if (good && *end == ':') {
      at = end + 1;
      last = strtol(at, &end, 10);
      good = end != at;
    }
    if (good && *end) good = *end == ',' && end[1];
    if (!good || first < 0 || last <= first || last > obs_dim) {
      status =
          bfm_fail(BFM_BAD_ARGUMENT,
                   "goal must list columns 0 to %ld of the observation, such as 0:4,7, not \"%s\"",
                   (long)obs_dim - 1, config->goal);
      break;
    }
    for (long i = first; i < last; i++) {
      if (used[i]++) {
        status = bfm_fail(BFM_BAD_ARGUMENT, "goal names column %ld twice: \"%s\"", i, config->goal);
        break;
      }
      columns[(*count)++] = (int32_t)i;
    }
    at = *end ? end + 1 : end;
  }
  free(used);
  if (status) {
    free(columns);
    *count = 0;
    return status;
  }
  *out = columns;
  return BFM_OK;
}

void es_base_name(int es_base, char out[OPTION_TEXT_SIZE]) {
  Config c = {.es_base = es_base};
  options_get(options_find(agent_options, "es-base"), &c, out, OPTION_TEXT_SIZE);
}

void config_acting(const char *device, int64_t threads, int es_base, char out[MACHINE_SIZE]) {
  cJSON *options = cJSON_CreateObject();
  cJSON_AddStringToObject(options, "device", device);
  cJSON_AddNumberToObject(options, "threads", (double)threads);
  if (es_base) {
    char name[OPTION_TEXT_SIZE];
    es_base_name(es_base - 1, name);
    cJSON_AddStringToObject(options, "es-base", name);
  }
  if (!cJSON_PrintPreallocated(options, out, MACHINE_SIZE, 0)) strcpy(out, "{}");
  cJSON_Delete(options);
}

void config_machine(const char *device, int64_t threads, char out[MACHINE_SIZE]) {
  config_acting(device, threads, 0, out);
}
