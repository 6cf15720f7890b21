// Named quantities of a MuJoCo model: "torso.z", "head.vz", "com.vx", "right_knee", "imu_gyro.x".
// A name is resolved once, into a source (a vector of numbers to read from mjData) and a place in it.
// So the numbers of one vector are computed together, and reading needs no lookup.

#ifndef BFM_ENVS_QUANTITIES_H
#define BFM_ENVS_QUANTITIES_H

#include <stdio.h>

#include <mujoco/mujoco.h>

#include "core/suggest.h"
#include "core/status.h"

// the stages of mjData that must be computed before a source can be read, as bits
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

// `count` numbers, from `first` on, of those that the source reads: one or the whole vector
typedef struct {
  QuantitySource source;
  int first, count;
} Quantity;

#define QUANTITY_UNKNOWN (-1)

// Resolves a name. Returns QUANTITY_UNKNOWN, without a message, if the model has no such object. It
// is an error, with a message, if the object has no such part or if the name is ambiguous.
int quantity_find(Quantity *quantity, const mjModel *model, const char *name);

// Where the quantity's numbers lie one after the other in an array of mjData: the offset of the array's
// pointer in mjData and the index of the first number. Returns 0 if they have to be computed.
int quantity_place(const Quantity *quantity, const mjModel *model, size_t *array, int *at);

// whether it is the position of something, which moves with the origin of a frame
int quantity_is_point(const Quantity *quantity);

// If the quantity is a body, site or geom: the offsets in mjData of the arrays of positions and rotation
// matrices, and its index in them. Returns 0 otherwise.
int quantity_frame(const Quantity *quantity, const mjModel *model, size_t *pos, size_t *mat,
                   int *at);

// the body of the robot: the first child of the world that actuators move, or that can move at all
int quantities_robot(const mjModel *model);

// whether this word can be a prefix before a colon, such as "joint" in "joint:bthigh"
int quantity_is_prefix(const char *word, size_t length);

// tries every object's name as a suggestion
void quantities_nearest(const mjModel *model, Suggestion *nearest);

// converts a name for expressions: characters other than letters, digits and _ become _
void quantity_typed_name(char *out, size_t size, const char *name);

// Calls each(context, kind, name, help) for every vector and number that has a name. The strings are
// valid only during the call.
typedef void QuantityEach(void *context, const char *kind, const char *name, const char *help);
void quantities_each(const mjModel *model, QuantityEach *each, void *context);

// prints all names for people: objects by kind, then the parts of each kind
void quantities_help(const mjModel *model, FILE *out);

#endif
