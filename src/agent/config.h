// An agent's options: every choice and ablation of the paper, and the machine it runs on.

#ifndef BFM_AGENT_CONFIG_H
#define BFM_AGENT_CONFIG_H

#include "core/options.h"

typedef enum { ALGO_FB, ALGO_FB_AW, ALGO_FB_ARE, ALGO_FB_AWARE, ALGO_LAP, ALGO_LAP_AW } Algo;

typedef struct {
  int algo, preset, precision;
  int64_t d, blocks, batch, seed, seeds, threads;
  char device[OPTION_TEXT_SIZE];
  int64_t hidden, feat, b_hidden, members;
  double gamma, polyak, lr, b_lr, ortho, sigma, noise_clip, beta, clip, ess, z_mix;
  int weights, target, ensemble, adv, adv_base, es_base, b_norm, f_norm, pi_norm, z_whiten;
  int64_t es, z_groups, z_pool, mbar;
  char goal[OPTION_TEXT_SIZE];
} Config;

enum { WEIGHTS_IWIS, WEIGHTS_WIS };
enum { TARGET_MEAN, TARGET_MIN };
enum { ENSEMBLE_PARALLEL, ENSEMBLE_SHARED };
enum { ADV_MEAN, ADV_SUM };
enum { ADV_BASE_MIN, ADV_BASE_MEAN };
enum { ES_BASE_MEAN, ES_BASE_MIN, ES_BASE_GAIN };
enum { PRESET_PAPER, PRESET_SMALL };

#define ES_BASES "mean|min|gain"  // choices of es-base

extern const Option agent_options[];

int algo_is_autoregressive(int algo);
int algo_is_weighted(int algo);
int algo_is_laplacian(int algo);

// Replace zeros that stand for a default of the preset or the algorithm, and check combinations of
// options: blocks ≤ d, z-groups divides the batch, …
int config_complete(Config *config);

// the columns of a goal space, "0:4,7" → 0 1 2 3 7, into a malloc'ed array; empty text: NULL, 0
int config_goal_columns(const Config *config, int64_t obs_dim, int32_t **columns, int64_t *count);

// the options that say where an agent runs, as JSON: {"device": "cpu", "threads": 2}
#define MACHINE_SIZE (6 * OPTION_TEXT_SIZE + 64)  // JSON may escape a character as six
void config_machine(const char *device, int64_t threads, char out[MACHINE_SIZE]);

// the same with es-base, a choice of ES_ACT_BASES: "model" keeps the model's own
#define ES_ACT_BASES "model|" ES_BASES
void config_acting(const char *device, int64_t threads, int es_base, char out[MACHINE_SIZE]);

// a value of es-base as text
void es_base_name(int es_base, char out[OPTION_TEXT_SIZE]);

#endif
