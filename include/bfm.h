/// @file bfm.h
/// bfm: behavioral foundation models.
///
/// bfm trains one agent from reward-free recordings of a robot; afterwards you give it any task. A
/// task is a reward, a goal or a demonstration. Prompting turns it into a vector z, and the agent
/// acts on observations and z without further training. In the terms of the papers: the agent has
/// forward embeddings F(s, a, z), backward embeddings B(s, z) and a policy pi(s, z), and z is the
/// mean of reward times B.
///
/// A whole program, without checks of the status:
///
///     #include <bfm.h>
///
///     int main(void) {
///       bfm_agent *agent;
///       float z[64], obs[24] = {0}, act[6];
///       bfm_agent_load(&agent, "models/walker.safetensors", NULL);
///       bfm_agent_prompt_text(agent, 0, "torso.z > 1.2", 0, z);  // stand up
///       bfm_agent_act(agent, 0, 1, obs, z, 0, 0, 0, act);        // at every control step
///       bfm_agent_free(agent);
///     }
///
/// Handles. A bfm_agent is an agent to train, or a trained one to prompt and to act with. A bfm_env
/// is a robot simulated many times in parallel. A bfm_explorer is a group of agents that make data.
/// A function with `new` or `load` in its name creates a handle, and the function with `free` ends
/// it. No other function takes or gives away memory, unless its comment says so: the library copies
/// what it keeps, and what you get is written into your arrays.
///
/// Status. A function that can fail returns a bfm_status: BFM_OK is 0, so `if (bfm_…(…))` is the
/// check. After a failure bfm_error() is one sentence that says what is wrong, with the offending
/// value. These functions answer BFM_BAD_ARGUMENT to a NULL that they need. All other functions
/// must be given a valid handle. The library never prints and never exits.
///
/// Arrays are dense and row-major, and float32 where the type says float. Shapes are written in
/// brackets, with the letters of the papers: N rows of a batch, d the length of z, K blocks of z,
/// M members of the ensemble F, R replicas of an agent (seeds that are trained side by side). A
/// `replica` is 0 to R-1; a model from a file has one, so pass 0.
///
/// Options are a JSON object of option names and values, the options of `bfm help train` and
/// `bfm help collect`: {"algo": "fb-aware", "d": 64, "device": "cpu"}. NULL stands for the defaults.
///
/// Threads. Any function may be called from any thread, and a handle is not bound to the thread that
/// created it. For calls that use the same handle at the same time, every comment below names one of
/// three rules:
///
/// - any: the function uses no handle;
/// - shared: the function only reads the handle. Such calls run side by side, and each gives the bits
///   that it gives alone;
/// - exclusive: the function changes the handle. The call waits until no other call uses the handle,
///   and other calls wait for it.
///
/// Only creating and freeing are the caller's to order: no call may use a handle that another thread
/// is freeing. A callback may call shared functions with the handle that calls it; an exclusive one
/// answers BFM_BAD_ARGUMENT there, as it would wait for ever.
///
/// bfm_error() is kept for each thread. The library starts threads of its own, as many as the option
/// `threads` says; when several threads act with one agent, a call beside the first uses one thread.
/// A program that handles signals must install its handlers with SA_ONSTACK and a sigaltstack: kernels
/// of the library keep values below the stack pointer, which a handler on their stack would overwrite.
/// After fork(), a child must create new handles: those of its parent have no threads there and
/// cannot even be freed.

#ifndef BFM_H
#define BFM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BFM_API __attribute__((visibility("default")))

// ---------------------------------- version and status -------------------------------------------

/// @defgroup status Version and status
/// @{

/// The version of this header, MAJOR.MINOR.PATCH. Before 1.0, a new MINOR may change the interface;
/// names of the version before then keep working with a warning.
#define BFM_VERSION_MAJOR 0
#define BFM_VERSION_MINOR 2
#define BFM_VERSION_PATCH 0

/// The version as one number to compare with: 200 is 0.2.0.
#define BFM_VERSION_NUMBER (BFM_VERSION_MAJOR * 10000 + BFM_VERSION_MINOR * 100 + BFM_VERSION_PATCH)

/// The version as a string: "0.2.0".
#define BFM_VERSION                \
  BFM_TO_STRING(BFM_VERSION_MAJOR) \
  "." BFM_TO_STRING(BFM_VERSION_MINOR) "." BFM_TO_STRING(BFM_VERSION_PATCH)
#define BFM_TO_STRING(number) BFM_TO_STRING_(number)
#define BFM_TO_STRING_(number) #number

/// What a function that can fail returns. The program `bfm` exits with the same numbers.
typedef enum {
  BFM_OK = 0,  ///< The function did what it says.
  BFM_BAD_ARGUMENT =
      2,                ///< The caller gave a wrong value: a size, an option, a NaN, an expression.
  BFM_BAD_FILE = 3,     ///< A file is damaged or has another layout.
  BFM_IO = 4,           ///< Reading or writing failed: no such file, no permission, disk full.
  BFM_NO_MEMORY = 5,    ///< Memory of the CPU or the GPU ran out.
  BFM_UNAVAILABLE = 6,  ///< A device, plugin, library or robot model is not on this machine.
  BFM_DIVERGED = 7,     ///< A loss, a parameter or a simulation is no longer finite.
  BFM_INTERRUPTED = 8,  ///< A callback asked to stop.
} bfm_status;

/// The calling thread's last error, one sentence without a final period. Empty before the first
/// error. Read it right after a call that failed: a later call may change it, even one that succeeds.
///
/// Threads: any.
BFM_API const char *bfm_error(void);

/// The version of the library at run time, as BFM_VERSION and BFM_VERSION_NUMBER are at compile
/// time.
///
/// Threads: any.
BFM_API const char *bfm_version(void);
BFM_API int bfm_version_number(void);

/// @}

// ---------------------------------- agents: making and loading -----------------------------------

/// @defgroup agents Agents: making, loading, saving
/// @{

/// An agent: the networks F, B and pi, everything needed to train them, and the prompt states.
typedef struct bfm_agent bfm_agent;

/// Create an agent with random parameters, to be trained.
///
/// obs_dim and act_dim are the lengths of an observation and of an action. The options are those of
/// `bfm help train`; the important ones are algo, d, blocks, batch, seed, seeds (the number R of
/// replicas) and device ("cpu", "cuda", "cuda:1" or "auto"). On failure *agent is NULL.
///
/// Errors: BFM_BAD_ARGUMENT for a size or an option, BFM_UNAVAILABLE for a device that is not here,
/// BFM_NO_MEMORY. Threads: any.
BFM_API bfm_status bfm_agent_new(bfm_agent **agent, int64_t obs_dim, int64_t act_dim,
                                 const char *options);

/// Create an agent from a file of bfm_agent_save_model, bfm_agent_export or bfm_agent_save_state.
///
/// The options override those in the file, such as {"device": "cuda"}; options that the parameters
/// depend on cannot change. On failure *agent is NULL.
///
/// Errors: BFM_IO, BFM_BAD_FILE, BFM_BAD_ARGUMENT for an option that the file cannot have,
/// BFM_UNAVAILABLE, BFM_NO_MEMORY. Threads: any.
BFM_API bfm_status bfm_agent_load(bfm_agent **agent, const char *path, const char *options);

/// Free an agent. NULL is allowed.
///
/// Threads: exclusive.
BFM_API void bfm_agent_free(bfm_agent *agent);

/// Write a model: the parameters of one replica, the options and the prompt states. It is what one
/// prompts and acts with.
///
/// Files of bfm are written to a temporary name, flushed and renamed: an interrupted write leaves
/// the old file as it was.
///
/// Errors: BFM_BAD_ARGUMENT for a replica, BFM_IO. Threads: exclusive.
BFM_API bfm_status bfm_agent_save_model(bfm_agent *agent, int replica, const char *path);

/// Write the training state: all replicas, the optimizer and the counters. An agent loaded from it
/// resumes bit-identically to an uninterrupted run on the same machine, once bfm_agent_set_data has
/// given it the same data. The file has no prompt states.
///
/// Errors: BFM_IO. Threads: exclusive.
BFM_API bfm_status bfm_agent_save_state(bfm_agent *agent, const char *path);

/// How bfm_agent_export stores the parameters.
enum {
  BFM_WEIGHTS_KEEP,  ///< float32; a model that was stored as bfloat16 stays so.
  BFM_WEIGHTS_BF16,  ///< bfloat16, and prompt states as float32: half the size.
  BFM_WEIGHTS_INT8,  ///< The large matrices of F and pi as int8 with a scale for each row, all else as
                     ///< with bfloat16: a quarter of the size.
  BFM_WEIGHTS_F32,  ///< float32 in any case.
};

/// Write a smaller model of one replica.
///
/// members: keep the first so many members of F; 0 keeps all. weights: how to store the parameters, one
/// of BFM_WEIGHTS_…. prompt_states: keep so many, chosen at random; -1 keeps all.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_IO, BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_agent_export(bfm_agent *agent, int replica, const char *path, int members,
                                    int weights, int64_t prompt_states);

/// Write one network of a replica as an ONNX file, for runtimes other than bfm.
///
/// part: "pi" takes obs [N, obs] and z [N, d] and gives action [N, act]. "B" takes obs, and z if the
/// agent has several blocks, and gives B [N, d]. "F" takes obs, action and z and gives F [M, N, d]
/// and Q [M, N]. NULL is "pi". members: write the first so many members of F; 0 writes all. weights:
/// BFM_WEIGHTS_KEEP and BFM_WEIGHTS_F32 store float32. With BFM_WEIGHTS_BF16, the graph converts the
/// parameters and computes in float32.
///
/// Errors: BFM_BAD_ARGUMENT, also for BFM_WEIGHTS_INT8 and for a network beyond the 2 GiB of an ONNX file, BFM_IO,
/// BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_agent_export_onnx(bfm_agent *agent, int replica, const char *path,
                                         const char *part, int members, int weights);

/// Sizes of an agent: lengths of an observation, of an action and of z, rows N of a training batch,
/// members M of F, replicas R.
///
/// Threads: shared.
BFM_API int64_t bfm_agent_obs_dim(const bfm_agent *agent);
BFM_API int64_t bfm_agent_act_dim(const bfm_agent *agent);
BFM_API int64_t bfm_agent_d(const bfm_agent *agent);
BFM_API int64_t bfm_agent_batch(const bfm_agent *agent);
BFM_API int bfm_agent_members(const bfm_agent *agent);
BFM_API int bfm_agent_replicas(const bfm_agent *agent);

/// The number of training steps done so far.
///
/// Threads: shared.
BFM_API int64_t bfm_agent_step(const bfm_agent *agent);

/// Every option and its value as a JSON object, or NULL when memory ran out. The caller frees the
/// text with free().
///
/// Threads: shared.
BFM_API char *bfm_agent_options(const bfm_agent *agent);

/// The name of the domain (the robot) that the agent was trained in, empty when it is not known. The
/// text is valid until bfm_agent_set_prompt or bfm_agent_free.
///
/// Threads: shared.
BFM_API const char *bfm_agent_env(const bfm_agent *agent);

/// The fingerprint of B's parameters, eight hexadecimal digits and a final 0. Equal fingerprints
/// mean that a z of one model fits the other: an exported model has the fingerprint of its original.
///
/// Errors: BFM_BAD_ARGUMENT for a replica, BFM_NO_MEMORY. Threads: shared.
BFM_API bfm_status bfm_agent_fingerprint(bfm_agent *agent, int replica, char out[9]);

/// @}

// ---------------------------------- agents: prompting --------------------------------------------

/// @defgroup prompting Prompting: from a task to z
///
/// Each function writes z [d]. The length of z carries the scale of the reward; F and pi normalize
/// it. All of them return BFM_BAD_ARGUMENT for a wrong replica, value or expression and
/// BFM_NO_MEMORY; other errors are named.
///
/// Text prompts are evaluated at the prompt states: states of the training data that a model
/// carries. Models written by `bfm train` have 100,000 of them by default.
/// @{

/// What the agent is told: one of reward, goal, demo and file; the others are NULL.
typedef struct {
  size_t size;         ///< Set to sizeof(bfm_prompt).
  const char *reward;  ///< The name of a task ("run") or an expression ("torso.z > 1.2").
  const char *goal;    ///< Named values ("torso.z = 1.3, speed = 0"), or a JSON file with a state.
  const char *demo;    ///< A dataset file: a demonstration.
  const char *file;    ///< A file that `bfm prompt -o` wrote.
  double softmax;      ///< Of a reward, as in bfm_agent_prompt_text.
} bfm_prompt;

/// z of any prompt. The functions below are its parts.
///
/// report, unless it is NULL, receives one line of at most `size` bytes for people: the mean and the
/// range of the reward over the prompt states, or the state that was chosen for a goal.
///
/// A prompt that says nothing is refused with BFM_BAD_ARGUMENT: a reward that is the same in all
/// prompt states, or a z whose norm is 0.
///
/// Errors also: BFM_UNAVAILABLE when the robot's model file is not found, BFM_IO, BFM_BAD_FILE.
/// Threads: shared.
BFM_API bfm_status bfm_agent_prompt(bfm_agent *agent, int replica, const bfm_prompt *prompt,
                                    float *z, char *report, size_t size);

/// z of a reward in words: the name of a task ("run") or an expression ("torso.z > 1.2").
///
/// softmax 0 weighs each prompt state by its reward. softmax > 0 is a temperature: states are
/// weighed by exp(reward / softmax), normalized to sum 1. The agent must carry prompt states.
///
/// Errors also: BFM_UNAVAILABLE when the robot's model file is not found. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_text(bfm_agent *agent, int replica, const char *reward,
                                         double softmax, float *z);

/// A warning about a reward in words: if it changes with something that the observations do not show,
/// such as x, y or the heading, the agent cannot pursue it. `warning` receives at most `size` bytes: a
/// sentence that says what this is, or nothing if there is no such thing. Tasks of the domain have no
/// warning.
///
/// Errors are those of bfm_agent_prompt_text. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_warning(bfm_agent *agent, const char *reward, char *warning,
                                            size_t size);

/// z of a goal in words, "torso.z = 1.3, speed = 0": the prompt state nearest to these values, each
/// scaled by its standard deviation over the prompt states.
///
/// report, unless it is NULL, receives one line of at most `size` bytes that says which state was
/// chosen and how far it is from the goal.
///
/// Errors also: BFM_UNAVAILABLE when the robot's model file is not found. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_goal(bfm_agent *agent, int replica, const char *goal, float *z,
                                         char *report, size_t size);

/// z of a goal given as a state of the simulator: qpos [nq], qvel [nv], act [na]. NULL for qvel or
/// act means zeros.
///
/// Errors also: BFM_UNAVAILABLE when the robot's model file is not found. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_state(bfm_agent *agent, int replica, const double *qpos,
                                          const double *qvel, const double *act, float *z);

/// z of a demonstration: the mean over the observations of a dataset file.
///
/// Errors also: BFM_IO, BFM_BAD_FILE. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_demo(bfm_agent *agent, int replica, const char *path, float *z);

/// z from a file of `bfm prompt -o`. A z means something only to the model that made it, so a file
/// with the fingerprint of another model is refused.
///
/// Errors also: BFM_IO, BFM_BAD_FILE. Threads: shared.
BFM_API bfm_status bfm_agent_prompt_file(bfm_agent *agent, int replica, const char *path, float *z);

/// z of a reward that is known at states of your own: obs [rows, obs_dim], reward [rows]; softmax as
/// in bfm_agent_prompt_text. No prompt states are needed.
///
/// When no reward exceeds 1e-6 in magnitude, all are scaled up so that the largest is 1.
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_prompt_reward(bfm_agent *agent, int replica, int64_t rows,
                                           const float *obs, const float *reward, double softmax,
                                           float *z);

/// z of observations of your own, obs [rows, obs_dim]: one row is a goal, many are a demonstration.
/// No prompt states are needed.
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_prompt_states(bfm_agent *agent, int replica, int64_t rows,
                                           const float *obs, float *z);

/// Give the agent the name of its domain, or the path of its robot, and prompt states, in place of
/// those it has.
///
/// obs is [count, obs_dim], qpos [count, nq], qvel [count, nv] and act [count, na]; NULL for qvel or
/// act means zeros. Everything is copied. With count 0 the agent gets only the name. On failure the
/// agent keeps what it had.
///
/// Errors also: BFM_UNAVAILABLE when the robot's model file is not found. Threads: exclusive.
BFM_API bfm_status bfm_agent_set_prompt(bfm_agent *agent, const char *env, int64_t count,
                                        const float *obs, const double *qpos, const double *qvel,
                                        const double *act);

/// The number of prompt states, 0 when the agent carries none.
///
/// Threads: shared.
BFM_API int64_t bfm_agent_prompt_count(const bfm_agent *agent);

/// The observations [count, obs_dim] of the prompt states, NULL when there are none. The agent owns
/// the array; it is valid until bfm_agent_set_prompt or bfm_agent_free.
///
/// Threads: shared.
BFM_API const float *bfm_agent_prompt_obs(const bfm_agent *agent);

/// The prompt states as states of the simulator: positions [count, nq], velocities [count, nv],
/// actuator activations [count, na]. Each function writes the number of columns unless its pointer
/// is NULL, and returns NULL when there are no states or no such columns. The agent owns the arrays;
/// they are valid until bfm_agent_set_prompt or bfm_agent_free.
///
/// Threads: shared.
BFM_API const double *bfm_agent_prompt_qpos(const bfm_agent *agent, int64_t *nq);
BFM_API const double *bfm_agent_prompt_qvel(const bfm_agent *agent, int64_t *nv);
BFM_API const double *bfm_agent_prompt_act(const bfm_agent *agent, int64_t *na);

/// @}

// ---------------------------------- agents: acting -----------------------------------------------

/// @defgroup acting Acting
///
/// These functions return BFM_BAD_ARGUMENT for a wrong replica, for fewer than one row and for an
/// input that is not finite, and BFM_NO_MEMORY. Buffers are allocated at the first call, for each
/// call that runs beside others, and grow with the number of rows; later calls with as many rows
/// allocate nothing. Actions are always finite: an observation so large that the networks overflow is
/// refused, and so is a z of zeros.
/// @{

/// Actions [rows, act_dim] within [-1, 1] for observations obs [rows, obs_dim] and z [rows, d].
///
/// es 0 takes the policy's mean, the quickest. es > 0, at most 4096, draws so many actions around
/// it and takes the one with the highest value F(s, a, z)·z; the draws depend on seed, step and the
/// row only. The agent's option es-base says how the members of F are combined: "mean" and "min" take
/// the mean and the minimum of their values; "gain" takes the minimum of their gains over the policy's
/// mean, which is then the first of the es actions.
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_act(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                 const float *z, int es, uint64_t seed, uint64_t step, float *act);

/// The same with one z [d] for all rows.
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_act_one_z(bfm_agent *agent, int replica, int64_t rows,
                                       const float *obs, const float *z, int es, uint64_t seed,
                                       uint64_t step, float *act);

/// The policy's mean pi(s, z) as out [rows, act_dim]; obs [rows, obs_dim], z [rows, d] or one z [d].
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_pi(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                const float *z, float *out);
BFM_API bfm_status bfm_agent_pi_one_z(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                      const float *z, float *out);

/// F(s, a, z) of every member as out [M, rows, d]; obs [rows, obs_dim], act [rows, act_dim],
/// z [rows, d] or one z [d].
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_F(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                               const float *act, const float *z, float *out);
BFM_API bfm_status bfm_agent_F_one_z(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                     const float *act, const float *z, float *out);

/// B(s, z) as out [rows, d]; obs [rows, obs_dim], z [rows, d] or one z [d]. z may be NULL when z has
/// one block (K = 1), since B does not depend on it then.
///
/// Threads: shared.
BFM_API bfm_status bfm_agent_B(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                               const float *z, float *out);
BFM_API bfm_status bfm_agent_B_one_z(bfm_agent *agent, int replica, int64_t rows, const float *obs,
                                     const float *z, float *out);

/// @}

// ---------------------------------- agents: evaluation -------------------------------------------

/// @defgroup evaluation Evaluation
/// @{

/// What bfm_agent_evaluate does. Fields that are left 0 or NULL mean the default.
typedef struct {
  size_t size;               ///< Set to sizeof(bfm_evaluation); 0: the fields of version 0.1.
  const char *const *tasks;  ///< [task_count] names of tasks or expressions.
  int task_count;            ///< The number of tasks, at least 1.
  const float *z;            ///< [R, task_count, d]; NULL: prompt each task.
  int64_t episodes;          ///< Episodes of each task, simulated in parallel; 0: 100.
  int64_t steps;             ///< Control steps of an episode; 0: as many as the domain has.
  int es;                    ///< As in bfm_agent_act.
  uint64_t seed;             ///< Seed of the initial states and of es.
  double softmax;            ///< As in bfm_agent_prompt_text.
  int threads;               ///< Threads of the simulation; 0: one per core.
  /// Called after every control step with the number of steps done and of all steps, in the calling
  /// thread; NULL: not at all. A result that is not 0 stops the evaluation with BFM_INTERRUPTED.
  int (*each)(void *context, int64_t done, int64_t total);
  void *context;  ///< Handed to `each`.
} bfm_evaluation;

/// Returns (sums of rewards) of whole episodes, [R, task_count, episodes], in the agent's domain.
/// Episode i begins in the same state for every task and replica.
///
/// Errors: BFM_BAD_ARGUMENT for a task, a size or an agent without domain, BFM_INTERRUPTED,
/// BFM_UNAVAILABLE, BFM_NO_MEMORY. Threads: shared.
BFM_API bfm_status bfm_agent_evaluate(bfm_agent *agent, const bfm_evaluation *evaluation,
                                      double *returns);

/// @}

// ---------------------------------- agents: training ---------------------------------------------

/// @defgroup training Training
/// @{

/// Give the agent the transitions to train on; they are copied to its device and replace those it
/// had.
///
/// obs and next_obs are [count, obs_dim], act [count, act_dim] within [-1, 1]. discount [count]
/// multiplies gamma: 0 where the episode terminated, else 1; NULL means ones. count is at least 2.
///
/// Errors: BFM_BAD_ARGUMENT for a value that is not finite or an action out of range, BFM_NO_MEMORY.
/// Threads: exclusive.
BFM_API bfm_status bfm_agent_set_data(bfm_agent *agent, int64_t count, const float *obs,
                                      const float *act, const float *next_obs,
                                      const float *discount);

/// Do so many training steps on batches drawn from the data. losses [R, loss_count] receives the
/// losses of the last step; NULL is allowed, and with steps 0 nothing is written.
///
/// Errors: BFM_BAD_ARGUMENT without data, BFM_DIVERGED when a loss is no longer finite.
/// Threads: exclusive.
BFM_API bfm_status bfm_agent_train(bfm_agent *agent, int64_t steps, float *losses);

/// The transitions of one training step. What is NULL is drawn by the agent.
typedef struct {
  size_t size;              ///< Set to sizeof(bfm_batch); 0: the fields of version 0.1.
  const float *obs;         ///< [R, N, obs_dim]
  const float *act;         ///< [R, N, act_dim], within [-1, 1]
  const float *next_obs;    ///< [R, N, obs_dim]
  const float *discount;    ///< [R, N] as in bfm_agent_set_data; NULL: ones.
  const float *z;           ///< [R, N, d], normalized by the agent; NULL: drawn.
  const float *noise_next;  ///< [R, N, act_dim] standard normal for a' ~ pi(s', z); NULL: drawn.
  const float *noise_pi;    ///< [R, N, act_dim] standard normal for a ~ pi(s, z); NULL: drawn.
} bfm_batch;

/// Do one training step on given transitions; losses as in bfm_agent_train.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_DIVERGED when a loss is no longer finite, BFM_NO_MEMORY.
/// Threads: exclusive.
BFM_API bfm_status bfm_agent_update(bfm_agent *agent, const bfm_batch *batch, float *losses);

/// The number of losses and the name of each: "fb", "ortho", "actor"; for the algorithm lap "psi",
/// "lap", "ortho", "actor". The name is NULL beyond the last.
///
/// Threads: shared.
BFM_API int bfm_agent_loss_count(const bfm_agent *agent);
BFM_API const char *bfm_agent_loss_name(const bfm_agent *agent, int index);

/// The number of metrics and the name of each; NULL beyond the last.
///
/// "F", "F.target" and "B" are mean norms; "B.eig.min" and "B.eig.max" the extreme eigenvalues of
/// E[BBᵀ]; "M.max" the largest |F·B|; "Q.data" and "Q.pi" the mean values of the data's and of the
/// policy's actions; "pi.dist" the mean distance between the two. With advantage weighting, "adv" and
/// "adv.std" are the mean and standard deviation of the advantage, and "ess" is the effective sample
/// size of the weights as a share of the batch. The algorithm lap says psi for F and phi for B, and
/// "psi.norm" for the norm, as "psi" is a loss.
///
/// Threads: shared.
BFM_API int bfm_agent_metric_count(const bfm_agent *agent);
BFM_API const char *bfm_agent_metric_name(const bfm_agent *agent, int index);

/// Compute the metrics of the last training step, out [R, metric_count].
///
/// Errors: BFM_BAD_ARGUMENT before the first step, BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_agent_metrics(bfm_agent *agent, float *out);

/// The number of parameter tensors of a replica, and the name, the number of dimensions (at most 4)
/// and the shape of one. A weight is [out, in], and the leading axis is the member of F where there
/// is more than one: "F.sa.in.weight" is [M, out, in]. The agent owns the name.
///
/// Errors: BFM_BAD_ARGUMENT for an index. Threads: shared.
BFM_API int bfm_agent_tensor_count(const bfm_agent *agent);
BFM_API bfm_status bfm_agent_tensor_info(const bfm_agent *agent, int index, const char **name,
                                         int *dims, int64_t shape[4]);

/// Copy a parameter tensor of a replica into out, or overwrite it with values. count is the number
/// of its values, as a check.
///
/// Errors: BFM_BAD_ARGUMENT for a name, a count or a value that is not finite. Threads: exclusive.
BFM_API bfm_status bfm_agent_get_tensor(bfm_agent *agent, int replica, const char *name, float *out,
                                        int64_t count);
BFM_API bfm_status bfm_agent_set_tensor(bfm_agent *agent, int replica, const char *name,
                                        const float *values, int64_t count);

/// @}

// ---------------------------------- environments -------------------------------------------------

/// @defgroup environments Environments
///
/// Observations, states, actions and rewards of environments are float64.
/// @{

/// n independent simulations of one domain, run in parallel.
typedef struct bfm_env bfm_env;

/// Create `count` simulations of a domain ("walker"; bfm_domain_name lists them), or of the robot whose
/// file is at a path ("my_robot.xml"), each in a random initial state.
///
/// threads 0 means one per core. The results are bit-identical for any number of threads. On failure
/// *env is NULL.
///
/// Errors: BFM_BAD_ARGUMENT for a name or a number, BFM_UNAVAILABLE when the robot's model file is
/// not found, BFM_BAD_FILE when it is damaged, BFM_NO_MEMORY. Threads: any.
BFM_API bfm_status bfm_env_new(bfm_env **env, const char *domain, int count, uint64_t seed,
                               int threads);

/// Free an environment. NULL is allowed.
///
/// Threads: exclusive.
BFM_API void bfm_env_free(bfm_env *env);

/// The sizes of an environment.
typedef struct {
  size_t size;  ///< Set to sizeof(bfm_env_sizes) before the call; after it, the bytes written.
  int count;    ///< The number n of simulations.
  int obs_dim;  ///< Numbers of an observation.
  int act_dim;  ///< Numbers of an action.
  int nq;       ///< Numbers of a state's positions, qpos.
  int nv;       ///< Numbers of its velocities, qvel.
  int na;       ///< Numbers of its actuator activations, act.
  int episode_steps;  ///< Control steps of an episode until its time is up.
  double control_dt;  ///< Seconds of a control step.
} bfm_env_sizes;

/// Write the sizes of an environment. The fields of version 0.1 are always written.
///
/// Threads: shared.
BFM_API void bfm_env_get_sizes(const bfm_env *env, bfm_env_sizes *sizes);

/// The lowest and highest value of each action, low [act_dim] and high [act_dim].
///
/// Threads: shared.
BFM_API void bfm_env_action_range(const bfm_env *env, double *low, double *high);

/// Restart the random numbers of initial states: the next reset draws what the first reset of a new
/// environment with this seed draws.
///
/// Threads: exclusive.
BFM_API void bfm_env_seed(bfm_env *env, uint64_t seed);

/// Draw new initial states for the simulations whose entry in which [n] is not 0; NULL means all.
///
/// Errors: BFM_DIVERGED when the simulator rejects a state. Threads: exclusive.
BFM_API bfm_status bfm_env_reset(bfm_env *env, const uint8_t *which);

/// Simulate one control step with actions [n, act_dim], which are clipped to their range. A step
/// never resets: read bfm_env_end_reasons and call bfm_env_reset.
///
/// A simulation that diverges keeps the state it had before the step and is marked with
/// BFM_END_DIVERGED; the call succeeds.
///
/// Errors: BFM_BAD_ARGUMENT for an action that is not finite. Threads: exclusive.
BFM_API bfm_status bfm_env_step(bfm_env *env, const double *actions);

/// The observations [n, obs_dim] of the present states.
///
/// Threads: shared.
BFM_API void bfm_env_obs(const bfm_env *env, double *obs);

/// Why an episode is over, as bits. 0 means that it goes on.
typedef enum {
  BFM_END_TERMINATED = 1,  ///< The state ends the episode: the robot fell.
  BFM_END_TIME_LIMIT = 2,  ///< The episode's time is up.
  BFM_END_DIVERGED = 4,    ///< The simulation failed; the state is the one before the step.
} bfm_env_end;

/// The bfm_env_end bits of each simulation after its last step, reasons [n].
///
/// Threads: shared.
BFM_API void bfm_env_end_reasons(const bfm_env *env, uint8_t *reasons);

/// How often simulations of this environment have diverged so far.
///
/// Threads: shared.
BFM_API int64_t bfm_env_diverged(const bfm_env *env);

/// Set the states of all simulations: qpos [n, nq], qvel [n, nv], act [n, na]. NULL for qvel or act
/// means zeros. An episode begins: time, controls and warm starts become zero.
///
/// Errors: BFM_BAD_ARGUMENT for a value that is not finite, BFM_DIVERGED. Threads: exclusive.
BFM_API bfm_status bfm_env_set_state(bfm_env *env, const double *qpos, const double *qvel,
                                     const double *act);

/// Copy the states of all simulations; arrays as in bfm_env_set_state, NULL where not wanted.
///
/// Threads: exclusive.
BFM_API void bfm_env_state(bfm_env *env, double *qpos, double *qvel, double *act);

/// The rewards [n] of the present states for the name of a task ("run") or an expression
/// ("torso.z > 1.2"). An expression is compiled once; asking for the same reward after every step
/// costs little.
///
/// Errors: BFM_BAD_ARGUMENT for an expression, with the place and the nearest known name,
/// BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_env_reward(bfm_env *env, const char *task, double *rewards);

/// The same with several tasks: the simulations are divided into `groups` equal parts, in their
/// order, and part i is paid by tasks[i].
///
/// Errors: as bfm_env_reward. Threads: exclusive.
BFM_API bfm_status bfm_env_group_rewards(bfm_env *env, const char *const *tasks, int groups,
                                         double *rewards);

/// What bfm_env_names calls for each name. The texts are valid during the call.
typedef void bfm_env_name_callback(void *context, const char *kind, const char *name,
                                   const char *help);

/// Call `each` for every name that a reward expression can use.
///
/// Threads: shared; `each` runs in the calling thread.
BFM_API void bfm_env_names(const bfm_env *env, bfm_env_name_callback *each, void *context);

/// @}

// ---------------------------------- domains ------------------------------------------------------

/// @defgroup domains Domains
///
/// A domain is a robot with its tasks: walker, cheetah, quadruped, humanoid, jaco, point_mass, fish,
/// finger, acrobot, dmc_hopper, halfcheetah, hopper, walker2d, ant, kitchen, hand. These functions need no handle.
///
/// Wherever a function takes a domain's name, it also takes the path of a robot of your own, a model
/// "my_robot.xml" or "my_robot.urdf" or a description "my_robot.yaml". Such a robot is called by the
/// name of its file and a hash of its contents, "my_robot#1f0c97e2"; datasets and models carry its
/// files, and once one has been read, that name is known, too. The file of a path is read at each
/// call.
/// @{

/// The name of domain number `index`, NULL beyond the last. help, unless NULL, receives a line about
/// it. The texts are static.
///
/// Threads: any.
BFM_API const char *bfm_domain_name(int index, const char **help);

/// The name of a domain's task number `index`, NULL beyond the last. help and expression, unless
/// NULL, receive a line about it and its reward; the expression is NULL when the reward depends on
/// more than the state. The texts are static. Also NULL for an unknown domain.
///
/// Threads: any.
BFM_API const char *bfm_domain_task(const char *domain, int index, const char **help,
                                    const char **expression);

/// The rewards [count] of stored states, qpos [count, nq], qvel [count, nv], act [count, na]; NULL
/// for qvel or act means zeros. task is a name or an expression, threads 0 means one per core.
///
/// Errors: BFM_BAD_ARGUMENT for a name, an expression or a task whose reward depends on more than
/// the state, BFM_UNAVAILABLE when the robot's model file is not found, BFM_NO_MEMORY.
/// Threads: any.
BFM_API bfm_status bfm_domain_rewards(const char *domain, const char *task, int64_t count,
                                      const double *qpos, const double *qvel, const double *act,
                                      int threads, double *rewards);

/// Draw states qpos [count, nq] into one PNG file: pictures of width x height pixels, `columns` in a
/// row.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_UNAVAILABLE without OpenGL, BFM_IO, BFM_NO_MEMORY. Threads: any;
/// drawing takes turns.
BFM_API bfm_status bfm_domain_render(const char *domain, int64_t count, const double *qpos,
                                     int columns, int width, int height, const char *path);

/// @}

// ---------------------------------- explorers ----------------------------------------------------

/// @defgroup explorers Explorers: agents that make data
///
/// `bfm collect` uses them; with these functions you write a loop of your own: act, step the
/// environments, add the transitions, update.
/// @{

/// T agents, one for each task, each with E environments of its own, trained side by side from one
/// ring buffer of transitions. The algorithm td3 learns the task's reward; rnd seeks states that it
/// has not seen.
typedef struct bfm_explorer bfm_explorer;

/// Create an explorer with random parameters. The options are those of `bfm help collect`:
/// {"algo": "td3", "hidden": 512, "device": "cpu"}. On failure *explorer is NULL.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_UNAVAILABLE for a device that is not here, BFM_NO_MEMORY.
/// Threads: any.
BFM_API bfm_status bfm_explorer_new(bfm_explorer **explorer, int64_t obs_dim, int64_t act_dim,
                                    int tasks, int envs, const char *options);

/// Create an explorer from a file of bfm_explorer_save_model or bfm_explorer_save_state. envs 0
/// means as many as it was made with. A model has one task, acts, and does not learn. On failure
/// *explorer is NULL.
///
/// Errors: BFM_IO, BFM_BAD_FILE, BFM_BAD_ARGUMENT, BFM_UNAVAILABLE, BFM_NO_MEMORY. Threads: any.
BFM_API bfm_status bfm_explorer_load(bfm_explorer **explorer, const char *path, int envs,
                                     const char *options);

/// Free an explorer. NULL is allowed.
///
/// Threads: exclusive.
BFM_API void bfm_explorer_free(bfm_explorer *explorer);

/// The sizes of an explorer.
typedef struct {
  size_t size;  ///< Set to sizeof(bfm_explorer_sizes) before the call; after it, the bytes written.
  int64_t obs_dim;  ///< Numbers of an observation.
  int64_t act_dim;  ///< Numbers of an action.
  int64_t batch;    ///< Transitions N of an update.
  int tasks;        ///< The number T of tasks.
  int envs;         ///< The number E of environments of each task.
} bfm_explorer_sizes;

/// Write the sizes of an explorer. The fields of version 0.1 are always written.
///
/// Threads: shared.
BFM_API void bfm_explorer_get_sizes(const bfm_explorer *explorer, bfm_explorer_sizes *sizes);

/// Actions [T, E, act_dim] for observations obs [T, E, obs_dim].
///
/// explore 0 takes the policies' means. Otherwise noise is added, drawn from the explorer's seed and
/// step, and actions are uniform during the first random-steps (an option) of each task.
///
/// Errors: BFM_BAD_ARGUMENT for an observation that is not finite. Threads: exclusive.
BFM_API bfm_status bfm_explorer_act(bfm_explorer *explorer, const float *obs, int explore,
                                    uint64_t step, float *act);

/// The number of floats of a transition: 2 obs_dim + act_dim + 3.
///
/// Threads: shared.
BFM_API int64_t bfm_explorer_row_size(const bfm_explorer *explorer);

/// Add one transition of every environment to the ring buffer, rows [T, E, row_size], in order of
/// time. A row is obs, act, reward, discount (0 where the episode terminated, else 1), next_obs,
/// last (1 where the episode ended).
///
/// Errors: BFM_BAD_ARGUMENT for a value that is not finite or a model that only acts, BFM_NO_MEMORY.
/// Threads: exclusive.
BFM_API bfm_status bfm_explorer_add(bfm_explorer *explorer, const float *rows);

/// Do so many updates of the critics on batches drawn from the ring buffer; every delay-th (an
/// option) also updates the policy and the targets. On a GPU the call returns while the updates run;
/// bfm_explorer_losses waits for them.
///
/// Errors: BFM_BAD_ARGUMENT before the first transition. Threads: exclusive.
BFM_API bfm_status bfm_explorer_update(bfm_explorer *explorer, int64_t updates);

/// The number of updates so far.
///
/// Threads: shared.
BFM_API int64_t bfm_explorer_step(const bfm_explorer *explorer);

/// The transitions of one update.
typedef struct {
  size_t size;            ///< Set to sizeof(bfm_explorer_batch); 0: the fields of version 0.1.
  const float *obs;       ///< [T, N, obs_dim]
  const float *act;       ///< [T, N, act_dim]
  const float *reward;    ///< [T, N] of n steps; rnd puts its bonus in its place.
  const float *discount;  ///< [T, N] of n steps, gamma included.
  const float *next_obs;  ///< [T, N, obs_dim]
  const float *noise;  ///< [T, N, act_dim] standard normal for the targets' actions; NULL: drawn.
} bfm_explorer_batch;

/// Do one update on given transitions.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_explorer_learn(bfm_explorer *explorer, const bfm_explorer_batch *batch);

/// The number of losses and the name of each: "critic", "actor" (of the last update that had one),
/// "q" (the mean value of the batch), and for rnd "rnd" and "bonus". NULL beyond the last.
///
/// Threads: shared.
BFM_API int bfm_explorer_loss_count(const bfm_explorer *explorer);
BFM_API const char *bfm_explorer_loss_name(const bfm_explorer *explorer, int index);

/// Wait for the updates and write the losses of the last one, [T, loss_count].
///
/// Errors: BFM_DIVERGED when a loss is not finite, BFM_NO_MEMORY. Threads: exclusive.
BFM_API bfm_status bfm_explorer_losses(bfm_explorer *explorer, float *losses);

/// The parameters of one task by name ("Q.sa.in.weight"); as bfm_agent_tensor_count,
/// bfm_agent_tensor_info, bfm_agent_get_tensor and bfm_agent_set_tensor.
///
/// Threads: the first two shared, the others exclusive.
BFM_API int bfm_explorer_tensor_count(const bfm_explorer *explorer);
BFM_API bfm_status bfm_explorer_tensor_info(const bfm_explorer *explorer, int index,
                                            const char **name, int *dims, int64_t shape[4]);
BFM_API bfm_status bfm_explorer_get_tensor(bfm_explorer *explorer, int task, const char *name,
                                           float *out, int64_t count);
BFM_API bfm_status bfm_explorer_set_tensor(bfm_explorer *explorer, int task, const char *name,
                                           const float *values, int64_t count);

/// Write the policy of one task, to act with. env and name, unless NULL, are stored in the file as
/// the names of the domain and of the task.
///
/// Errors: BFM_BAD_ARGUMENT for a task, BFM_IO. Threads: exclusive.
BFM_API bfm_status bfm_explorer_save_model(bfm_explorer *explorer, int task, const char *env,
                                           const char *name, const char *path);

/// Write everything that was learned, to resume from. The ring buffer is not in the file: add its
/// transitions again.
///
/// Errors: BFM_IO. Threads: exclusive.
BFM_API bfm_status bfm_explorer_save_state(bfm_explorer *explorer, const char *path);

/// @}

// ---------------------------------- whole runs ---------------------------------------------------

/// @defgroup runs Whole runs
///
/// What `bfm collect` and `bfm train` do, in one call each. They write the same files, and each can
/// resume a run of the other.
/// @{

/// How far a run is. Later versions may add fields: `size` says how many bytes there are.
typedef struct {
  size_t size;        ///< The bytes of this struct that the library has filled.
  const char *stage;  ///< "open", "collect", "train" or "evaluate". The text is static.
  const char *unit;   ///< What is counted: "steps" or "transitions". The text is static.
  int64_t first;      ///< The count when this call began the stage: not 0 after a resume.
  int64_t done;       ///< The count now.
  int64_t total;      ///< The count at the end; 0: not known.
  double seconds;     ///< Since this call began the stage.
  const char *note;   ///< Latest results such as "fb -12.3  actor 4.1", or empty. Valid during the
                      ///< call.
  double limit;       ///< Seconds after which the stage ends in any case; 0: no limit.
} bfm_progress;

/// A run calls this function at the beginning and at the end of each stage, and a few times a second in
/// between, in the thread that called bfm_collect or bfm_train. If the result is not 0, the run stops
/// within about a second: everything is saved, and bfm_collect or bfm_train returns BFM_INTERRUPTED.
typedef int bfm_progress_callback(void *context, const bfm_progress *progress);

/// What bfm_collect does. Fields that are left 0 or NULL mean the default.
typedef struct {
  size_t size;      ///< Set to sizeof(bfm_collection).
  const char *env;  ///< The domain, "walker", or the path of a robot, "my_robot.xml". A resume may
                    ///< leave it NULL: the file names it.
  const char *output;   ///< The path of the dataset, an HDF5 file in D4RL's layout.
  const char *options;  ///< The options of `bfm help collect` as a JSON object.
  int resume;           ///< Not 0: continue the file, with its own options where none are given.
  bfm_progress_callback *progress;  ///< NULL: no calls, and the run never stops early.
  void *context;                    ///< Handed to `progress`.
} bfm_collection;

/// Simulate a domain and write every transition to a dataset, as `bfm collect` does.
///
/// A file that exists is not overwritten: resume it or name another one. On success the dataset has
/// all planned transitions, or the learners have reached the option `until`. With learners there are
/// more files beside data.h5: data.log.jsonl (returns and losses), data.state.safetensors (for a
/// resume) and data.TASK.safetensors (a policy; bfm_explorer_load reads it). When opening the run
/// fails, no new file is left behind.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_INTERRUPTED when the callback stopped the run, BFM_DIVERGED when a
/// learner diverged (the transitions so far are in the file), BFM_IO, BFM_BAD_FILE, BFM_UNAVAILABLE,
/// BFM_NO_MEMORY. Threads: any, with one call at a time for an output.
BFM_API bfm_status bfm_collect(const bfm_collection *collection);

/// What bfm_train does. Fields that are left 0 or NULL mean the default.
typedef struct {
  size_t size;              ///< Set to sizeof(bfm_training).
  const char *const *data;  ///< [data_count] dataset files. A resume may leave them NULL.
  int data_count;           ///< The number of files.
  const char *output;       ///< The folder of the run; it is created.
  /// The options of `bfm help train`, of the run and of the agent, as one JSON object:
  /// {"steps": 100000, "algo": "fb-aware"}.
  const char *options;
  int resume;  ///< Not 0: continue the run in the folder, with its own options where none are given.
  bfm_progress_callback *progress;  ///< NULL: no calls, and the run never stops early.
  void *context;                    ///< Handed to `progress`.
} bfm_training;

/// Train an agent on datasets, as `bfm train` does.
///
/// A folder that has a run is not overwritten: resume it or name another one. The folder receives
/// model.safetensors (model.0.safetensors, model.1.safetensors, … with several seeds), which
/// bfm_agent_load reads, state.safetensors for a resume, log.jsonl with losses and metrics, and with
/// the option `eval-every` also eval.jsonl and best.safetensors. A resumed run is bit-identical to an
/// uninterrupted one on the same machine. When opening the run fails or is stopped, nothing is left
/// behind.
///
/// Errors: BFM_BAD_ARGUMENT, BFM_INTERRUPTED when the callback stopped the run, BFM_DIVERGED (the
/// last good models and state are in the folder), BFM_IO, BFM_BAD_FILE, BFM_UNAVAILABLE,
/// BFM_NO_MEMORY. Threads: any, with one call at a time for an output.
BFM_API bfm_status bfm_train(const bfm_training *training);

/// @}

// ---------------------------------- random numbers -----------------------------------------------

/// @defgroup random Random numbers
/// @{

/// bfm's random numbers, for programs that repeat its draws: `count` values that depend on seed,
/// stream and step only, uniform in [0, 1) or standard normal.
///
/// Threads: any.
BFM_API void bfm_random_uniform(uint64_t seed, uint32_t stream, uint64_t step, int64_t count,
                                float *out);
BFM_API void bfm_random_normal(uint64_t seed, uint32_t stream, uint64_t step, int64_t count,
                               float *out);

/// @}

// ---------------------------------- names of version 0.1 -----------------------------------------

/// @defgroup old Names of version 0.1
///
/// They work as before, with a warning of the compiler, and will be removed in version 0.3. Threads:
/// as the new names.
/// @{

#define BFM_DEPRECATED(message) __attribute__((deprecated(message)))

/// Use bfm_agent_prompt_file.
BFM_DEPRECATED("use bfm_agent_prompt_file")
BFM_API bfm_status bfm_agent_prompt_kept(bfm_agent *agent, int replica, const char *path, float *z);

/// Use bfm_env_end and BFM_END_….
typedef bfm_env_end bfm_ended BFM_DEPRECATED("use bfm_env_end");
#define BFM_ENDED_TERMINATED BFM_END_TERMINATED
#define BFM_ENDED_TIME BFM_END_TIME_LIMIT
#define BFM_ENDED_DIVERGED BFM_END_DIVERGED

/// Use bfm_env_end_reasons.
BFM_DEPRECATED("use bfm_env_end_reasons")
BFM_API void bfm_env_ended(const bfm_env *env, uint8_t *ended);

/// Use bfm_env_name_callback.
typedef bfm_env_name_callback bfm_each_name BFM_DEPRECATED("use bfm_env_name_callback");

/// Use bfm_domain_task.
BFM_DEPRECATED("use bfm_domain_task")
BFM_API const char *bfm_task_name(const char *domain, int index, const char **help,
                                  const char **expression);

/// Use bfm_domain_rewards.
BFM_DEPRECATED("use bfm_domain_rewards")
BFM_API bfm_status bfm_rewards(const char *domain, const char *task, int64_t count,
                               const double *qpos, const double *qvel, const double *act,
                               int threads, double *rewards);

/// Use bfm_domain_render.
BFM_DEPRECATED("use bfm_domain_render")
BFM_API bfm_status bfm_pictures(const char *domain, int64_t count, const double *qpos, int columns,
                                int width, int height, const char *path);

/// Use bfm_explorer_row_size.
BFM_DEPRECATED("use bfm_explorer_row_size")
BFM_API int64_t bfm_explorer_row(const bfm_explorer *explorer);

/// @}

#ifdef __cplusplus
}
#endif

#endif
