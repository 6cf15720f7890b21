// What observations do not show. The robot is moved: along x, along y, upward, about the vertical
// axis; and its velocities are changed. Of the moves that leave every observation as it was, those
// that change a reward tell what the reward needs to know and the agent cannot.

#ifndef BFM_ENVS_SYMMETRY_H
#define BFM_ENVS_SYMMETRY_H

#include <stddef.h>
#include <stdint.h>

#include "envs/domain.h"

// moves of the robot, as bits
enum {
  MOVE_X = 1,
  MOVE_Y = 2,
  MOVE_TURN = 4,     // about the vertical axis through the robot's origin
  MOVE_SPEED = 8,    // velocities are multiplied
  MOVE_HEIGHT = 16,  // posture and contacts tell height, even where observations do not
};

#define SYMMETRY_TEXT 512  // bytes of the longest sentence

// The moves that no observation of the domain shows. Contacts are ignored, because MuJoCo's
// approximation of friction depends slightly on the heading.
int symmetry_unseen(const World *world, int *moves);

// States at which a reward is compared: qpos [count, nq], qvel [count, nv], act [count, na]; NULL
// qvel and act stand for zeros. With rewards [count] of these states, the few that are used include
// the most and the least rewarded ones. count 0: random states.
typedef struct {
  int64_t count;
  const double *qpos, *qvel, *act;
  const float *rewards;
} SymmetryStates;

// the moves that no observation shows and that change the reward of an expression
int symmetry_changes(const World *world, const char *expression, const SymmetryStates *states,
                     int *moves);

// A sentence about these moves, of at most SYMMETRY_TEXT bytes; empty if there are none.
void symmetry_say(int moves, char *out, size_t size);

// The sentence about a reward that a person typed; empty if it is the name of a task. states NULL:
// random states.
int symmetry_warning(const char *domain, const char *text, const SymmetryStates *states, char *out,
                     size_t size);

#endif
