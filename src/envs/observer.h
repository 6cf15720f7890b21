// What a robot observes, compiled against its model into a list of copies: the numbers of one array
// that follow one another are one copy, and only real arithmetic is evaluated as an expression. All
// threads may use one observer at the same time.

#ifndef BFM_ENVS_OBSERVER_H
#define BFM_ENVS_OBSERVER_H

#include "envs/robot.h"

typedef struct Observer Observer;

// Compiles the parts observed of a robot, with its aliases. An item of a part is one of
//   torso.z  qpos.1..  velocimeter     a quantity, or neighbouring numbers of one
//   hand in torso                      a position, or a velocity's vector, in the frame of a body
//   asinh(force)  clip(qvel, -10, 10)  a function of each of its numbers
//   (height - 1) * torso.zz, 2 * qvel  any expression; with vectors, one for each of their numbers
int observer_new(Observer **observer, const Robot *robot, const mjModel *model);
void observer_free(Observer *observer);

int observer_size(const Observer *observer);             // of the observation
int observer_count(const Observer *observer, int part);  // numbers of a part
int observer_needs(const Observer *observer);            // NEEDS_… of quantities.h

// where number i of an observation comes from, in words for people and programs
typedef struct {
  int copied;  // it is the number `at` of the array at this offset of mjData
  size_t array;
  int at;
  const char *function;  // that is applied to it, "asinh", or NULL
  const char *item;      // the text of its item in the description
  int index, count;      // which of the item's numbers it is
} ObserverSource;
ObserverSource observer_source(const Observer *observer, int i);

// writes the observation of the state in data, which must be computed as far as it needs
void observer_read(const Observer *observer, const mjModel *model, const mjData *data, double *obs);

#endif
