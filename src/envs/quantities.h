// Named quantities of a MuJoCo model: "torso.z", "head.vz", "com.vx", "right_knee", "imu_gyro.x".
// A name is resolved once into a source (what to read of mjData) and a place in what it reads, so
// that the numbers of one vector are computed together and reading costs no lookup.

#ifndef BFM_ENVS_QUANTITIES_H
#define BFM_ENVS_QUANTITIES_H

#include <stdio.h>

#include <mujoco/mujoco.h>

#include "core/suggest.h"
#include "core/status.h"

// what must be computed in mjData before a source can be read (bits)
enum {
  NEEDS_KINEMATICS = 1,   // mj_kinematics
  NEEDS_COM = 2,          // mj_comPos
  NEEDS_VELOCITY = 4,     // mj_comVel
  NEEDS_SENSOR_POS = 8,   // mj_sensorPos
  NEEDS_SENSOR_VEL = 16,  // mj_sensorVel
  NEEDS_ALL_POS = 32,     // mj_fwdPosition: sensors of tendons, limits, contacts, …
  NEEDS_ALL_VEL = 64,     // mj_fwdVelocity
  NEEDS_FORCE = 128,      // mj_forward
};

typedef void QuantityRead(const mjModel *model, const mjData *data, int kind, int id, double *out);

typedef struct {
  QuantityRead *read;
  int kind, id;  // of the object
  int size;      // numbers read
  int needs;
} QuantitySource;

// count numbers, from `first` on, of what source reads: one, or the whole vector
typedef struct {
  QuantitySource source;
  int first, count;
} Quantity;

#define QUANTITY_UNKNOWN (-1)

// resolve a name. QUANTITY_UNKNOWN (and no message): the model has nothing of this name. A status
// (and a message): there is such an object, but not this part of it, or more than one is meant.
int quantity_find(Quantity *quantity, const mjModel *model, const char *name);

// is this word one that may stand before a colon: "joint" of "joint:bthigh"
int quantity_is_prefix(const char *word, size_t length);

// offer every object's name as a candidate
void quantities_nearest(const mjModel *model, Suggestion *nearest);

// a name as it is typed in an expression: characters other than letters, digits and _ become _
void quantity_typed_name(char *out, size_t size, const char *name);

// call each(context, kind, name, help) for every vector and number that can be named; names are
// valid during the call only
typedef void QuantityEach(void *context, const char *kind, const char *name, const char *help);
void quantities_each(const mjModel *model, QuantityEach *each, void *context);

// what can be named, for people: objects by kind, then the parts each kind has
void quantities_help(const mjModel *model, FILE *out);

#endif
