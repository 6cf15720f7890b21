/// @file
/// bfm_policy: a model's policy on a robot. One small library of C99 (also C++17) that needs libc and
/// libm only. docs/policy.md is a page to copy from.
///
/// - Loading reads a model in place, from a buffer of yours. The file must stay where it is. To replace
///   a file that is in use, write the new one beside it and rename it.
/// - You give all memory: functions that end in _bytes say how much. It must be aligned to 64 bytes.
/// - After loading, nothing allocates, locks, starts threads, calls the system or keeps state of its
///   own. A bfm_policy is constant, and any number of threads may share one. Each thread that acts or
///   prompts needs a workspace of its own. A workspace and a prompt belong to one loaded model: after
///   you load another one, make new ones.
/// - A function that can fail returns a status, 0 on success, and writes one sentence to *error, unless
///   error is NULL.
/// - All arrays are dense and row-major, of 32-bit floats.

#ifndef BFM_POLICY_H
#define BFM_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef BFM_POLICY_API
#define BFM_POLICY_API
#endif

/// What went wrong.
typedef enum {
  BFM_POLICY_OK = 0,
  BFM_POLICY_BAD_ARGUMENT,  ///< An argument is missing or out of range.
  BFM_POLICY_BAD_FILE,      ///< The file is not a model, damaged, or newer than this runtime.
  BFM_POLICY_BAD_MEMORY,    ///< Memory that you gave is too small or not aligned to 64 bytes.
  BFM_POLICY_BAD_INPUT,  ///< An observation, reward or z is not finite, too large, or says nothing.
  BFM_POLICY_BAD_OUTPUT,  ///< The networks' result is not finite.
  BFM_POLICY_IO           ///< A file cannot be opened or mapped.
} bfm_policy_status;

/// One sentence about a failure, with the value in question.
typedef struct {
  bfm_policy_status status;
  char text[200];
} bfm_policy_error;

typedef struct bfm_policy bfm_policy;
typedef struct bfm_policy_work bfm_policy_work;
typedef struct bfm_policy_prompt bfm_policy_prompt;

// ---------------------------------- loading ------------------------------------------------------

/// The bytes of memory that bfm_policy_load needs for a model, of `size` bytes at `file`.
///
/// Errors: BFM_POLICY_BAD_FILE, BFM_POLICY_BAD_ARGUMENT for a file that is not aligned to 8 bytes.
BFM_POLICY_API bfm_policy_status bfm_policy_bytes(const void *file, size_t size, size_t *bytes,
                                                  bfm_policy_error *error);

/// Load a model that `bfm export` or `bfm train` wrote, with weights in float32, bfloat16 or int8.
///
/// The weights are used where they are in the file, which must stay there unchanged; the memory holds
/// the rest. Every number is checked to be finite. There is nothing to free.
///
/// Errors: BFM_POLICY_BAD_FILE, BFM_POLICY_BAD_MEMORY, BFM_POLICY_BAD_ARGUMENT.
BFM_POLICY_API bfm_policy_status bfm_policy_load(bfm_policy **policy, const void *file, size_t size,
                                                 void *memory, size_t bytes,
                                                 bfm_policy_error *error);

#if defined(__unix__) || defined(__APPLE__)
/// The same for a file that is mapped into memory, and memory from malloc. bfm_policy_close ends both.
///
/// Errors: as bfm_policy_load, and BFM_POLICY_IO.
BFM_POLICY_API bfm_policy_status bfm_policy_open(bfm_policy **policy, const char *path,
                                                 bfm_policy_error *error);
BFM_POLICY_API void bfm_policy_close(bfm_policy *policy);  ///< Only of bfm_policy_open, or NULL.
#endif

/// The instructions that compute the networks are chosen when a model is loaded. This call chooses
/// others, by name: "avx512", "avx2", "neon" or "plain". Call it before threads share the model.
///
/// Errors: BFM_POLICY_BAD_ARGUMENT when this machine or build does not have them.
BFM_POLICY_API bfm_policy_status bfm_policy_set_kernels(bfm_policy *policy, const char *name,
                                                        bfm_policy_error *error);

/// What a model is.
typedef struct {
  int obs_dim, act_dim;   ///< Numbers of an observation and of an action.
  int d;                  ///< Numbers of z.
  int blocks;             ///< Blocks of z: prompts pass over their observations so often.
  int members;            ///< Networks F; with two or more, their spread is known.
  double control_dt;      ///< Seconds from one action to the next; 0: the file does not say.
  double sigma;           ///< Standard deviation of the actions that best-of-M samples.
  long long prompt_rows;  ///< Observations of the training data in the file: bfm_policy_prompt_obs.
  char env[64];           ///< The robot's name, or empty.
  char algo[16];          ///< "fb-aware".
  char weights[8];        ///< "f32", "bf16" or "int8": the type of most weights.
  const char *kernels;    ///< "avx512".
} bfm_policy_info;

/// What a model is; NULL if policy is NULL.
BFM_POLICY_API const bfm_policy_info *bfm_policy_get_info(const bfm_policy *policy);

/// One number of an observation or an action.
typedef struct {
  char name[80];    ///< "right_hip.v"
  char part[48];    ///< The part of the observation, "velocity"; empty for actions.
  char unit[24];    ///< "rad/s", "1" for plain numbers; empty: the file does not say.
  float low, high;  ///< What the actions -1 and 1 command, in the unit; both 0: unknown.
  float mean, std;  ///< Of an observation in the training data; std < 0: unknown.
} bfm_policy_signal;

/// Number i of an observation, or of an action. NULL if the file does not say what it is. The networks
/// take observations in these units, without normalization, and give actions in [-1, 1].
BFM_POLICY_API const bfm_policy_signal *bfm_policy_observation(const bfm_policy *policy, int i);
BFM_POLICY_API const bfm_policy_signal *bfm_policy_action(const bfm_policy *policy, int i);

/// Observations of the training data, [info.prompt_rows, obs_dim], to prompt with rewards of your own.
/// NULL if the model was exported without them. They lie in the file.
BFM_POLICY_API const float *bfm_policy_prompt_obs(const bfm_policy *policy);

// ---------------------------------- acting -------------------------------------------------------

/// The bytes of a workspace that can act by the best of `samples` actions; 0: by the policy's mean.
/// Prompts need one, too, and are faster with 8 or more.
BFM_POLICY_API size_t bfm_policy_work_bytes(const bfm_policy *policy, int samples);

/// Make a workspace in memory of yours, for one thread.
///
/// Errors: BFM_POLICY_BAD_MEMORY, BFM_POLICY_BAD_ARGUMENT for samples outside 0 to 4096.
BFM_POLICY_API bfm_policy_status bfm_policy_work_init(bfm_policy_work **work,
                                                      const bfm_policy *policy, int samples,
                                                      void *memory, size_t bytes,
                                                      bfm_policy_error *error);

/// Limits of the actions, which are applied last, also to the safe action. All arrays are [act_dim] and
/// are copied; NULL means: no such limit, and zeros for the safe action.
typedef struct {
  const float *low, *high;  ///< Limits of each action; within -1 and 1 in any case.
  const float *rate;  ///< The most by which an action may differ from the one before, above 0.
  const float *safe;  ///< What act becomes when bfm_policy_act fails.
} bfm_policy_limits;

/// Set the limits of a workspace; NULL: none.
///
/// Errors: BFM_POLICY_BAD_ARGUMENT when low is above high, or a limit is not finite. The limits then
/// stay as they were.
BFM_POLICY_API bfm_policy_status bfm_policy_set_limits(bfm_policy_work *work,
                                                       const bfm_policy_limits *limits,
                                                       bfm_policy_error *error);

/// Tell a workspace which action the robot has now, for the limit of rates: `last` is [act_dim], within
/// -1 and 1; larger numbers count as 1, and an array with a number that is not finite is ignored. NULL:
/// unknown, so that the next action may be any. bfm_policy_act remembers its own actions. If the last
/// action is outside of low and high, the next ones return to them as fast as the rate allows.
BFM_POLICY_API void bfm_policy_set_last(bfm_policy_work *work, const float *last);

/// How the networks F judge a sampled action: by the mean or the minimum of their values, or by the
/// minimum of their gains over the policy's mean, which is then one of the actions.
typedef enum { BFM_POLICY_MEAN, BFM_POLICY_MIN, BFM_POLICY_GAIN } bfm_policy_base;

/// How to act. Zeros mean: by the policy's mean.
typedef struct {
  int samples;           ///< Act by the best of so many actions around the mean; 0: by the mean.
  bfm_policy_base base;  ///< How to choose among them.
  int want_q;            ///< Not 0: report q and spread also without samples, which costs one F.
  uint64_t seed, step;   ///< Of the samples: the same numbers give the same samples.
} bfm_policy_how;

/// What bfm_policy_act found out.
typedef struct {
  float q;       ///< F·z of the action, before limits: the mean of the members. NaN: not computed.
  float spread;  ///< The largest less the smallest value of the members. 0 with one member.
  float distance;  ///< How far the observation is from the training data: the root mean square of
      ///< its deviations from the mean in standard deviations, about 1 for the training
      ///< data itself. NaN: the file does not say.
  float worst;    ///< The largest of these deviations,
  int worst_obs;  ///< and the number of the observation that has it.
  int limited;    ///< How many actions the limits changed.
} bfm_policy_report;

/// Choose an action, [act_dim], for an observation, [obs_dim], and a task, z [d].
///
/// how and report may be NULL; the workspace must be made for how->samples or more. z need not be
/// normalized. Whatever happens, act is afterwards finite and within the limits: on failure it is the
/// safe action, and the report says NaN for what is unknown. The action is then remembered for the
/// limit of rates. If act, policy or work is NULL, or the workspace is of another model, act is not
/// written. An observation that is far from the training data is no failure: look at distance.
///
/// Errors: BFM_POLICY_BAD_INPUT for an observation or z that is not finite, an observation beyond
/// ±1e15, and a z whose norm is 0; BFM_POLICY_BAD_OUTPUT; BFM_POLICY_BAD_ARGUMENT.
BFM_POLICY_API bfm_policy_status bfm_policy_act(const bfm_policy *policy, bfm_policy_work *work,
                                                const float *obs, const float *z,
                                                const bfm_policy_how *how, float *act,
                                                bfm_policy_report *report, bfm_policy_error *error);

/// F(obs, act, z) of every member, [members, d], without normalization of the result. Q of member m is
/// its product with z at norm sqrt(d).
BFM_POLICY_API bfm_policy_status bfm_policy_F(const bfm_policy *policy, bfm_policy_work *work,
                                              const float *obs, const float *act, const float *z,
                                              float *out, bfm_policy_error *error);

// ---------------------------------- prompting ----------------------------------------------------

/// The features B(obs, z) of `rows` observations, [rows, d]. z [d] is needed with several blocks.
BFM_POLICY_API bfm_policy_status bfm_policy_B(const bfm_policy *policy, bfm_policy_work *work,
                                              long long rows, const float *obs, const float *z,
                                              float *out, bfm_policy_error *error);

/// The z that reaches or repeats observations: one is a goal, several are a demonstration, and a window
/// of a recorded motion is what to track next.
///
/// Errors: BFM_POLICY_BAD_INPUT, BFM_POLICY_BAD_ARGUMENT; z is then zero, which bfm_policy_act refuses.
BFM_POLICY_API bfm_policy_status bfm_policy_prompt_states(const bfm_policy *policy,
                                                          bfm_policy_work *work, long long rows,
                                                          const float *obs, float *z,
                                                          bfm_policy_error *error);

/// The z that tracks a recorded motion, obs [rows, obs_dim], at time `now`: of the `window` observations
/// after number now, or of as many as there are; at the end, of the last one.
BFM_POLICY_API bfm_policy_status bfm_policy_prompt_track(const bfm_policy *policy,
                                                         bfm_policy_work *work, long long rows,
                                                         const float *obs, long long now,
                                                         long long window, float *z,
                                                         bfm_policy_error *error);

/// A prompt from observations that come one by one, each with a weight: a reward, or 1.
///
///     bfm_policy_prompt_init(&prompt, policy, BFM_POLICY_REWARDS, memory, bytes, &error);
///     do {
///       for each observation: bfm_policy_prompt_add(prompt, work, 1, obs, &reward, &error);
///     } while (bfm_policy_prompt_pass(prompt, z, &error) == BFM_POLICY_MORE);
///
/// With K blocks the loop passes K times over the same observations, as each block of z depends on the
/// ones before. Memory does not grow with the number of observations.
typedef enum { BFM_POLICY_REWARDS, BFM_POLICY_STATES } bfm_policy_prompt_kind;

/// The bytes of a prompt.
BFM_POLICY_API size_t bfm_policy_prompt_bytes(const bfm_policy *policy,
                                              bfm_policy_prompt_kind kind);

/// Begin a prompt in memory of yours, which you may reuse after the last pass.
BFM_POLICY_API bfm_policy_status bfm_policy_prompt_init(bfm_policy_prompt **prompt,
                                                        const bfm_policy *policy,
                                                        bfm_policy_prompt_kind kind, void *memory,
                                                        size_t bytes, bfm_policy_error *error);

/// Add `rows` observations with a weight each; weight NULL: 1. On failure nothing is added.
///
/// Errors: BFM_POLICY_BAD_INPUT, BFM_POLICY_BAD_ARGUMENT.
BFM_POLICY_API bfm_policy_status bfm_policy_prompt_add(bfm_policy_prompt *prompt,
                                                       bfm_policy_work *work, long long rows,
                                                       const float *obs, const float *weight,
                                                       bfm_policy_error *error);

#define BFM_POLICY_MORE 1       ///< Of bfm_policy_prompt_pass: add the same observations once more.
#define BFM_POLICY_DONE 0       ///< z is complete.
#define BFM_POLICY_FAILED (-1)  ///< No z follows from these observations; *error says why.

/// End a pass over the observations; at the last one, write z [d].
BFM_POLICY_API int bfm_policy_prompt_pass(bfm_policy_prompt *prompt, float *z,
                                          bfm_policy_error *error);

#ifdef __cplusplus
}
#endif

#endif
