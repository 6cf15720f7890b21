// A hand on a robot: a spring that drags a point of a body, and a push. Both become external forces
// of a substep, limited so that the robot neither breaks nor flies away.

#ifndef BFM_SERVE_TOUCH_H
#define BFM_SERVE_TOUCH_H

#include "envs/domain.h"

// body 0, the world, stands for none
typedef struct {
  int body;
  double at[3];  // in the body's frame
  double to[3];  // in the world
} Drag;

typedef struct {
  int body;
  double at[3];       // in the body's frame
  double impulse[3];  // N s, in the world
} Push;

// whether a body can move at all
int touch_moves(const mjModel *model, int body);

// Write external forces for the next substep from the state in data, whose other results may be those
// of any state. drag and push may be NULL; the push acts for `seconds`.
void touch_apply(const mjModel *model, mjData *data, const Drag *drag, const Push *push,
                 double seconds);

// take them away again
void touch_end(const mjModel *model, mjData *data);

#endif
