// bfm: behavioral foundation models.
//
// From reward-free transitions bfm learns one agent (F, B and a policy pi) that is told what to do
// at test time: a reward, a goal or a demonstration becomes a vector z, and the agent acts on it.
//
// Conventions: functions that can fail return a bfm_status and leave a sentence behind bfm_error().
// They answer BFM_BAD_ARGUMENT to a NULL they cannot do without; the others need their handles.
// Arrays are row-major; float32 unless said otherwise. Letters are the paper's: N rows of a batch,
// d the length of z, K blocks, M members of F, R replicas (seeds trained side by side).

#ifndef BFM_H
#define BFM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version: MAJOR.MINOR.PATCH, as numbers, as one number to compare with, and as a string.
#define BFM_VERSION_MAJOR 0
#define BFM_VERSION_MINOR 2
#define BFM_VERSION_PATCH 0
#define BFM_VERSION_NUMBER (BFM_VERSION_MAJOR * 10000 + BFM_VERSION_MINOR * 100 + BFM_VERSION_PATCH)
#define BFM_VERSION                \
  BFM_TO_STRING(BFM_VERSION_MAJOR) \
  "." BFM_TO_STRING(BFM_VERSION_MINOR) "." BFM_TO_STRING(BFM_VERSION_PATCH)
#define BFM_TO_STRING(number) BFM_TO_STRING_(number)
#define BFM_TO_STRING_(number) #number
#define BFM_API __attribute__((visibility("default")))

typedef enum {
  BFM_OK = 0,
  BFM_BAD_ARGUMENT = 2,  // a value the caller gave: dimension, option, NaN, expression
  BFM_BAD_FILE = 3,      // a file that cannot be trusted or has another layout
  BFM_IO = 4,            // reading or writing failed: no such file, disk full
  BFM_NO_MEMORY = 5,
  BFM_UNAVAILABLE = 6,  // no such device, plugin or library here
  BFM_DIVERGED = 7,     // a loss or a parameter is no longer finite
  BFM_INTERRUPTED = 8,  // stopped by the user; what was promised is saved
} bfm_status;

// the calling thread's last error, one sentence
BFM_API const char *bfm_error(void);
BFM_API const char *bfm_version(void);
BFM_API int bfm_version_number(void);

// ---------------------------------- agent --------------------------------------------------------

typedef struct bfm_agent bfm_agent;

// options: a JSON object of option names and values, as `bfm train --help` lists them
// ({"algo": "fb-aware", "d": 64, "blocks": 8, "seeds": 1, "device": "cpu"}); NULL: defaults
BFM_API bfm_status bfm_agent_new(bfm_agent **agent, int64_t obs_dim, int64_t act_dim,
                                 const char *options);
BFM_API void bfm_agent_free(bfm_agent *agent);

BFM_API int64_t bfm_agent_obs_dim(const bfm_agent *agent);
BFM_API int64_t bfm_agent_act_dim(const bfm_agent *agent);
BFM_API int64_t bfm_agent_d(const bfm_agent *agent);
BFM_API int64_t bfm_agent_batch(const bfm_agent *agent);
BFM_API int bfm_agent_members(const bfm_agent *agent);   // M
BFM_API int bfm_agent_replicas(const bfm_agent *agent);  // R
BFM_API int64_t bfm_agent_step(const bfm_agent *agent);  // training steps done

// every option and its value as a JSON object, malloc'ed; NULL when out of memory
BFM_API char *bfm_agent_options(const bfm_agent *agent);

// parameters by name ("F.sa.in.weight", weight is [out, in]), one replica at a time;
// the leading axis is the ensemble member, left out where there is one
BFM_API int bfm_agent_tensor_count(const bfm_agent *agent);
BFM_API bfm_status bfm_agent_tensor_info(const bfm_agent *agent, int index, const char **name,
                                         int *dims, int64_t shape[4]);
BFM_API bfm_status bfm_agent_get_tensor(bfm_agent *agent, int replica, const char *name, float *out,
                                        int64_t count);
BFM_API bfm_status bfm_agent_set_tensor(bfm_agent *agent, int replica, const char *name,
                                        const float *values, int64_t count);

// one training step on given transitions; NULL fields are drawn inside
typedef struct {
  const float *obs;         // [R, N, obs]
  const float *act;         // [R, N, act], within [-1, 1]
  const float *next_obs;    // [R, N, obs]
  const float *discount;    // [R, N], multiplies gamma: 0 where an episode terminated; NULL: ones
  const float *z;           // [R, N, d] of norm sqrt(d), or NULL
  const float *noise_next;  // [R, N, act] standard normal for a' ~ pi(s', z), or NULL
  const float *noise_pi;    // [R, N, act] standard normal for a ~ pi(s, z), or NULL
} bfm_batch;

// names of the losses: "fb", "ortho", "actor" (lap: "psi", "lap", "ortho", "actor")
BFM_API int bfm_agent_loss_count(const bfm_agent *agent);
BFM_API const char *bfm_agent_loss_name(const bfm_agent *agent, int index);
BFM_API bfm_status bfm_agent_update(bfm_agent *agent, const bfm_batch *batch,
                                    float *losses /* [R, loss_count] or NULL */);

// metrics of the last step: mean norms of F, of its target and of B ("F", "F.target", "B"),
// eigenvalues of E[BBᵀ] ("B.eig.min", "B.eig.max"), the largest |F·B| ("M.max"), mean values at the
// data's and at the policy's actions ("Q.data", "Q.pi"), the policy's distance from the data
// ("pi.dist"), with advantage weighting mean and spread of the advantage and the weights' effective
// sample size as a share of the batch ("adv", "adv.std", "ess"); lap has psi and phi for F and B,
// and "psi.norm", as "psi" is a loss. Computed when asked
BFM_API int bfm_agent_metric_count(const bfm_agent *agent);
BFM_API const char *bfm_agent_metric_name(const bfm_agent *agent, int index);
BFM_API bfm_status bfm_agent_metrics(bfm_agent *agent, float *out /* [R, metric_count] */);

// hand over the transitions to sample from (copied to the agent's device), then train on them
BFM_API bfm_status bfm_agent_set_data(bfm_agent *agent, int64_t count, const float *obs,
                                      const float *act, const float *next_obs,
                                      const float *discount /* NULL: ones */);
BFM_API bfm_status bfm_agent_train(bfm_agent *agent, int64_t steps,
                                   float *losses /* of the last step, [R, loss_count] or NULL */);

// the networks, for one replica
BFM_API bfm_status bfm_agent_F(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                               const float *act, const float *z, float *out /* [M, rows, d] */);
BFM_API bfm_status bfm_agent_B(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                               const float *z /* may be NULL when K = 1 */,
                               float *out /* [rows, d] */);
BFM_API bfm_status bfm_agent_pi(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                const float *z, float *out /* [rows, act], the mean */);

// ---------------------------------- prompting ----------------------------------------------------

// z of a reward known at `rows` states; softmax > 0: weights softmax(reward / softmax) in its place.
// Rewards of which none reaches 1e-6 are scaled up to 1 first: only the direction of z counts
BFM_API bfm_status bfm_agent_prompt_reward(bfm_agent *agent, int replica, int64_t rows,
                                           const float *obs, const float *reward, double softmax,
                                           float *z /* [d] */);
// z of a goal state (rows = 1) or of a demonstration (its states)
BFM_API bfm_status bfm_agent_prompt_states(bfm_agent *agent, int replica, int64_t rows,
                                           const float *obs, float *z /* [d] */);

// prompt states: states of a domain that the model carries, so that a text can be asked of them.
// All copied; obs [count, obs], qpos [count, nq], qvel [count, nv], act [count, na] (NULL: zeros,
// or na = 0). count 0: the name of the domain alone
BFM_API bfm_status bfm_agent_set_prompt(bfm_agent *agent, const char *env, int64_t count,
                                        const float *obs, const double *qpos, const double *qvel,
                                        const double *act);
BFM_API const char *bfm_agent_env(const bfm_agent *agent);  // the domain, empty when not known
BFM_API int64_t bfm_agent_prompt_count(const bfm_agent *agent);

// z of a reward in words, a task's name ("run") or an expression ("torso.z > 1.2")
BFM_API bfm_status bfm_agent_prompt_text(bfm_agent *agent, int replica, const char *reward,
                                         double softmax, float *z /* [d] */);
// z of the prompt state nearest to named values, "torso.z = 1.3, speed = 0": each is scaled by its
// spread over the prompt states. said (may be NULL): the state and how far it is, one sentence
BFM_API bfm_status bfm_agent_prompt_goal(bfm_agent *agent, int replica, const char *goal,
                                         float *z /* [d] */, char *said, size_t size);
// z of a goal given as a state of the domain: qpos [nq], qvel [nv], act [na]; the last two may be
// NULL: zeros
BFM_API bfm_status bfm_agent_prompt_state(bfm_agent *agent, int replica, const double *qpos,
                                          const double *qvel, const double *act,
                                          float *z /* [d] */);
// z of a demonstration: the observations of a dataset's file
BFM_API bfm_status bfm_agent_prompt_demo(bfm_agent *agent, int replica, const char *path,
                                         float *z /* [d] */);

// z that bfm prompt -o has kept in a file, for a model with the same B: another one is refused by
// its fingerprint, unless the file is an old one without
BFM_API bfm_status bfm_agent_prompt_kept(bfm_agent *agent, int replica, const char *path,
                                         float *z /* [d] */);
// of B's parameters, eight hexadecimal digits; an exported model has that of its origin
BFM_API bfm_status bfm_agent_fingerprint(bfm_agent *agent, int replica, char out[9]);

// actions for `rows` observations; z is [rows, d]. es = 0: the policy's mean; es > 0: the best of
// es samples by F·z, drawn from (seed, step)
BFM_API bfm_status bfm_agent_act(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                 const float *z, int es, uint64_t seed, uint64_t step, float *act);

// ---------------------------------- files --------------------------------------------------------

// model: parameters of one replica and the configuration. state: everything needed to go on
// training (all replicas, optimizer, counters) with the bits of the run that never stopped.
BFM_API bfm_status bfm_agent_save_model(bfm_agent *agent, int replica, const char *path);
BFM_API bfm_status bfm_agent_save_state(bfm_agent *agent, const char *path);
// a smaller model of one replica, that acts everywhere: the first `members` of F (0: all), half:
// parameters as bfloat16 and states as float32, which they stay when a model that has them so is
// exported again; so many prompt states at random (-1: all)
BFM_API bfm_status bfm_agent_export(bfm_agent *agent, int replica, const char *path, int members,
                                    int half, int64_t prompt_states);
// either kind of file; options override what the file says ({"device": "cuda"}), or NULL
BFM_API bfm_status bfm_agent_load(bfm_agent **agent, const char *path, const char *options);

// ---------------------------------- explorers ----------------------------------------------------

// agents that make data: T of them, one a task, each in E environments of its own, trained side by
// side from one ring of transitions. td3 learns the task's reward, rnd seeks what it has not seen.
typedef struct bfm_explorer bfm_explorer;

// options: a JSON object as bfm_agent_new's ({"algo": "td3", "hidden": 512, "device": "cpu"})
BFM_API bfm_status bfm_explorer_new(bfm_explorer **explorer, int64_t obs_dim, int64_t act_dim,
                                    int tasks, int envs, const char *options);
BFM_API void bfm_explorer_free(bfm_explorer *explorer);

typedef struct {
  int64_t obs_dim, act_dim, batch;
  int tasks, envs;  // T, E
} bfm_explorer_sizes;
BFM_API void bfm_explorer_get_sizes(const bfm_explorer *explorer, bfm_explorer_sizes *sizes);

// actions of all environments, obs [T, E, obs] → act [T, E, act]: the policies' means, or with
// explore noise around them, drawn from (seed, step), and uniform actions in the first random-steps
BFM_API bfm_status bfm_explorer_act(bfm_explorer *explorer, const float *obs, int explore,
                                    uint64_t step, float *act);

// one transition of every environment, in order of time: rows [T, E, row], each row obs, act,
// reward, discount (0 where the episode terminated, else 1), next_obs, last (1 where it ended)
BFM_API int64_t bfm_explorer_row(const bfm_explorer *explorer);  // floats of a row
BFM_API bfm_status bfm_explorer_add(bfm_explorer *explorer, const float *rows);

// queue so many updates of the critics on drawn batches and return; every delay-th also updates
// policy and targets. On a CPU they are done on return
BFM_API bfm_status bfm_explorer_update(bfm_explorer *explorer, int64_t updates);
BFM_API int64_t bfm_explorer_step(const bfm_explorer *explorer);  // updates so far

// one update on given transitions: reward and discount of n steps, gamma included
typedef struct {
  const float *obs, *act;          // [T, N, ·]
  const float *reward, *discount;  // [T, N]; rnd takes its bonus in place of the reward
  const float *next_obs;           // [T, N, obs]
  const float *noise;              // [T, N, act] standard normal, of the targets' actions
} bfm_explorer_batch;
BFM_API bfm_status bfm_explorer_learn(bfm_explorer *explorer, const bfm_explorer_batch *batch);

// wait for the updates: [T, loss_count] of the last one; BFM_DIVERGED when one is not finite.
// "critic", "actor" (the last there was), "q" (mean Q of the batch); rnd: also "rnd", "bonus"
BFM_API int bfm_explorer_loss_count(const bfm_explorer *explorer);
BFM_API const char *bfm_explorer_loss_name(const bfm_explorer *explorer, int index);
BFM_API bfm_status bfm_explorer_losses(bfm_explorer *explorer, float *losses);

// parameters by name ("Q.sa.in.weight"), one task at a time, as bfm_agent_get_tensor
BFM_API int bfm_explorer_tensor_count(const bfm_explorer *explorer);
BFM_API bfm_status bfm_explorer_tensor_info(const bfm_explorer *explorer, int index,
                                            const char **name, int *dims, int64_t shape[4]);
BFM_API bfm_status bfm_explorer_get_tensor(bfm_explorer *explorer, int task, const char *name,
                                           float *out, int64_t count);
BFM_API bfm_status bfm_explorer_set_tensor(bfm_explorer *explorer, int task, const char *name,
                                           const float *values, int64_t count);

// model: the policy of one task, to act with; env and name of the task are kept beside it. state:
// all that is learned, to go on; the transitions are not in it: add them again
BFM_API bfm_status bfm_explorer_save_model(bfm_explorer *explorer, int task, const char *env,
                                           const char *name, const char *path);
BFM_API bfm_status bfm_explorer_save_state(bfm_explorer *explorer, const char *path);
// either file; envs 0: as many as it was made with. A model is one task and only acts
BFM_API bfm_status bfm_explorer_load(bfm_explorer **explorer, const char *path, int envs,
                                     const char *options);

// ---------------------------------- worlds -------------------------------------------------------

// a domain simulated n times over all cores: walker, cheetah, quadruped, humanoid, jaco,
// point_mass, halfcheetah, hopper, walker2d, kitchen. Observations, states, actions and rewards
// are float64.
typedef struct bfm_env bfm_env;

typedef enum {  // bits: why an episode is over
  BFM_ENDED_TERMINATED = 1,
  BFM_ENDED_TIME = 2,
  BFM_ENDED_DIVERGED = 4,  // the simulation failed; the environment kept the state before the step
} bfm_ended;

// threads 0: one per core. All environments are reset. Same bits for any number of threads
BFM_API bfm_status bfm_env_new(bfm_env **env, const char *domain, int count, uint64_t seed,
                               int threads);
BFM_API void bfm_env_free(bfm_env *env);

typedef struct {
  int count;  // n environments
  int obs_dim, act_dim;
  int nq, nv, na;     // sizes of a state: positions, velocities, activations
  int episode_steps;  // control steps until time is up
  double control_dt;  // seconds of a control step
} bfm_env_sizes;
BFM_API void bfm_env_get_sizes(const bfm_env *env, bfm_env_sizes *sizes);
BFM_API void bfm_env_action_range(const bfm_env *env, double *low, double *high /* [act_dim] */);

// begin the random numbers of initial states anew, as those of a new environment
BFM_API void bfm_env_seed(bfm_env *env, uint64_t seed);
// draw new initial states for the environments whose entry in which [n] is not 0; NULL: all
BFM_API bfm_status bfm_env_reset(bfm_env *env, const uint8_t *which);
// one control step of all, actions [n, act_dim]; never resets by itself
BFM_API bfm_status bfm_env_step(bfm_env *env, const double *actions);
BFM_API void bfm_env_obs(const bfm_env *env, double *obs /* [n, obs_dim] */);
// bfm_ended bits of each environment's last step
BFM_API void bfm_env_ended(const bfm_env *env, uint8_t *ended /* [n] */);
BFM_API int64_t bfm_env_diverged(const bfm_env *env);  // failed simulations so far

// states: qpos [n, nq], qvel [n, nv], act [n, na]; NULL qvel or act: zeros
BFM_API bfm_status bfm_env_set_state(bfm_env *env, const double *qpos, const double *qvel,
                                     const double *act);
BFM_API void bfm_env_state(bfm_env *env, double *qpos, double *qvel, double *act);

// reward of the present states: a task's name ("run") or an expression ("torso.z > 1.2")
BFM_API bfm_status bfm_env_reward(bfm_env *env, const char *task, double *rewards /* [n] */);
// the same with a task for each of some equal groups of the environments, in their order
BFM_API bfm_status bfm_env_group_rewards(bfm_env *env, const char *const *tasks, int groups,
                                         double *rewards /* [n] */);

// what an expression can name: each(context, kind, name, help) for every one of them; the texts are
// valid during the call only
typedef void bfm_each_name(void *context, const char *kind, const char *name, const char *help);
BFM_API void bfm_env_names(const bfm_env *env, bfm_each_name *each, void *context);

// names of domains and of a domain's tasks, NULL after the last; help and expression may be NULL
BFM_API const char *bfm_domain_name(int index, const char **help);
BFM_API const char *bfm_task_name(const char *domain, int index, const char **help,
                                  const char **expression);

// states qpos [count, nq] as one PNG file: pictures of width x height, so many columns side by side
BFM_API bfm_status bfm_pictures(const char *domain, int64_t count, const double *qpos, int columns,
                                int width, int height, const char *path);

// the reward of many stored states of a domain, over threads (0: one per core)
BFM_API bfm_status bfm_rewards(const char *domain, const char *task, int64_t count,
                               const double *qpos, const double *qvel, const double *act,
                               int threads, double *rewards);

// ---------------------------------- evaluation ---------------------------------------------------

typedef struct {
  const char *const *tasks;  // names or expressions
  int task_count;
  const float *z;    // [R, task_count, d], in place of the prompts that the tasks are; or NULL
  int64_t episodes;  // of each task, simulated side by side; 0: 100
  int64_t steps;     // control steps an episode; 0: the domain's
  int es;            // actions of evaluation-based sampling; 0: the policy's mean
  uint64_t seed;
  double softmax;  // of the prompts, as in bfm_agent_prompt_reward
  int threads;     // of the simulation; 0: one per core
  // called after every control step with those done and those to come; not 0: stop, BFM_INTERRUPTED
  int (*each)(void *context, int64_t done, int64_t total);
  void *context;
} bfm_evaluation;

// sums of rewards [R, task_count, episodes] of the agent's replicas in its domain. Episode i begins
// in the same state for every task and replica
BFM_API bfm_status bfm_agent_evaluate(bfm_agent *agent, const bfm_evaluation *evaluation,
                                      double *returns);

// ---------------------------------- random numbers -----------------------------------------------

// the draws of bfm, for those who want to repeat them: count values of (seed, stream, step)
BFM_API void bfm_random_uniform(uint64_t seed, uint32_t stream, uint64_t step, int64_t count,
                                float *out);
BFM_API void bfm_random_normal(uint64_t seed, uint32_t stream, uint64_t step, int64_t count,
                               float *out);

#ifdef __cplusplus
}
#endif

#endif
