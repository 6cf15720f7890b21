// A robot as its text file describes it: parsed and checked, but not yet resolved against a model.
// robot_file.c fills it from YAML; robot_default.c gives values to what the file leaves out.

#ifndef BFM_ENVS_ROBOT_H
#define BFM_ENVS_ROBOT_H

#include <stddef.h>
#include <stdint.h>

#include <mujoco/mujoco.h>

#include "core/status.h"
#include "envs/bundle.h"
#include "envs/reward.h"
#include "envs/tasks.h"

// limits of a file; larger ones are refused
enum {
  ROBOT_BYTES = 1 << 18,   // of the file
  ROBOT_DEPTH = 6,         // nested lists and mappings
  ROBOT_ITEMS = 1024,      // entries of a list or mapping
  ROBOT_SUBSTEPS = 10000,  // physics steps of a control step
};

// a value as the file has it, and its place for messages. text NULL: the file does not have it;
// line 0: it comes from a default
typedef struct {
  const char *text;
  int line, column;
} RobotText;

typedef struct {
  RobotText *of;
  int count;
} RobotList;

// a named part of the observation: expressions whose numbers follow one another
typedef struct {
  RobotText name;
  RobotList items;
} RobotPart;

// the steps of a reset, which are made in order on the model's default state
typedef enum {
  RESET_KEYFRAME,     // text: its name or number
  RESET_JOINTS,       // limited 0: anywhere, as dm_control draws them; 1: only joints with limits;
                      // or puts some at given positions
  RESET_NOISE,        // adds to qpos, then to hinges and slides, then to qvel
  RESET_ORIENTATION,  // of the free root: uniform over all rotations
  RESET_RAISE,        // lifts the root by `by`, from height `from` on, until it is off the floor
  RESET_REDRAW,       // repeats the steps before it until nothing touches; limited 1: the floor
  RESET_SETTLE,       // `steps` physics steps without controls
  RESET_STATES,       // draws one of Robot.states; text: their file, "….npz"
} ResetKind;

typedef struct {
  int normal;   // 1: standard deviation, 0: bound of a uniform distribution
  double size;  // 0: none
} RobotNoise;

// where a reset puts a hinge or slide
typedef struct {
  RobotText name;
  double position;
} RobotJoint;

typedef struct {
  ResetKind kind;
  RobotText text;  // the step's value; its place even where there is no text
  int limited;
  RobotJoint *joints;
  int joint_count;  // 0: they are drawn
  RobotNoise qpos, joint_noise, qvel;
  double from, by;  // from NAN: the height so far
  int steps;
} RobotReset;

// states of a file in NumPy's format .npz, of which a reset draws one: qpos [count, nq], and if the file
// has them qvel [count, nv], act [count, na]
typedef struct {
  int64_t count, nq, nv, na;
  const double *qpos, *qvel, *act;
} RobotStates;

typedef enum { EDIT_REMOVE, EDIT_CHANGE, EDIT_ADD } RobotEditKind;

// an element of the model that is removed, or an attribute of one that is changed, before compiling
typedef struct {
  RobotEditKind kind;
  int is_first;          // of the attributes that are changed: the element is added with it
  RobotText type, name;  // "geom", "floor"; for all sensors of a type: "sensor", "type rangefinder"
  RobotText attribute, value;  // text NULL: the element is removed
} RobotEdit;

typedef enum { ACTIONS_UNSET, ACTIONS_RANGE, ACTIONS_RAW } RobotActions;

// what is wrong with a description: sentences for people, in the order in which they were found
enum { ROBOT_PROBLEMS = 100 };
typedef struct {
  char *of[ROBOT_PROBLEMS];
  int count;
} RobotProblems;

typedef struct Robot {
  const char *file;         // path of the description, for messages
  RobotProblems *problems;  // see robot_goes_on; NULL: the first problem is an error

  RobotText help, model, camera, terminated, assets;
  int substeps, episode;  // 0: the file has none
  int size;               // of an observation; 0: the file does not say
  RobotText size_place;
  RobotActions actions;
  BundleBase base;

  RobotPart *observed;
  int observed_count;  // 0: the file has none
  RobotReset *resets;
  int reset_count;
  int has_resets;  // a file may have an empty list
  RobotStates states;
  Alias *aliases;  // ends with a row without a name
  RobotText *alias_places;
  int alias_count;
  Task *tasks;  // ends with a row without a name
  RobotText *task_places;
  int task_count;
  RobotList goal;
  RobotEdit *edits;
  int edit_count;
  RobotList notes;  // sentences of robot_complete about its decisions, for people
  int note_room;

  struct RobotBlock *memory;
} Robot;

// An empty robot; `file` is copied. Everything in it lives until robot_free.
int robot_new(Robot **robot, const char *file);
void robot_free(Robot *robot);

// Zeroed memory, or a copy of `length` characters and a 0, that lives as long as the robot. NULL,
// with a message, when there is no memory.
void *robot_take(Robot *robot, size_t bytes);
char *robot_text(Robot *robot, const char *text, size_t length);

// fails with "file:line:column: …" before the message; without them where the place has none
int robot_fail(const Robot *robot, RobotText place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// fails with the error of the last expression, in one sentence, at its place in the file
int robot_fail_expression(const Robot *robot, RobotText place);

// If the robot has a list of problems, puts the last error there and returns BFM_OK, so that whoever mends the
// description sees all problems at once. Otherwise, or without memory, returns the status.
int robot_goes_on(const Robot *robot, int status);
int robot_problem_count(const Robot *robot);  // so far
// puts the last error at the end of a list, unless it is there
int robot_problems_add(RobotProblems *problems);
void robot_problems_free(RobotProblems *problems);

// Parses a description in YAML, `size` bytes. Expressions are checked later, against the model.
int robot_parse(Robot **robot, const char *file, const char *yaml, size_t size);
// the same, with problems put into a list, which may be NULL
int robot_parse_all(Robot **robot, const char *file, const char *yaml, size_t size,
                    RobotProblems *problems);

// The reset step that draws from a file of states, or NULL. Whoever reads the description reads that
// file, too, and gives its bytes to robot_read_states.
const RobotReset *robot_states_step(const Robot *robot);
int robot_read_states(Robot *robot, const void *bytes, size_t size);

// makes the robot's edits to a parsed model
int robot_edit(const Robot *robot, mjSpec *spec);

// fails unless the observation has as many numbers as the file says
int robot_check_size(const Robot *robot, int size);
// Compiles every alias, to find what is wrong with them. For a robot with a list of problems, a wrong one
// becomes 0, so that its uses are not wrong, too.
int robot_check_aliases(Robot *robot, const mjModel *model);
// checks everything else that a completed description says against the model
int robot_check(const Robot *robot, const mjModel *model);

// the domain of a robot that has everything: what is left out was completed before
void robot_domain(Domain *domain, const char *name, const Robot *robot);

// Gives values to what the file leaves out, from the compiled model, and refuses models that are no robots
// (robot_default.c).
int robot_complete(Robot *robot, const mjModel *model);
// whether a sensor's reading depends on where in the world a mobile robot is or which way it faces
int robot_sensor_is_global(const mjModel *model, int sensor);

enum { ROBOT_ELEMENT = 160 };  // bytes of an element's name
// the shortest name that means this body or sensor: its own, one with a prefix, or a number
void robot_element_name(const Robot *robot, const mjModel *model, mjtObj type, int id,
                        char name[ROBOT_ELEMENT]);

#endif
