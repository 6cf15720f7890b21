// The states that a robot's episodes start in, from an .npz file. They become part of the robot.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/npz.h"
#include "envs/robot.h"

const RobotReset *robot_states_step(const Robot *robot) {
  for (int i = 0; i < robot->reset_count; i++) {
    if (robot->resets[i].kind == RESET_STATES) return robot->resets + i;
  }
  return NULL;
}

// keeps an array of the file as part of the robot; count 0: it is the first one
static int keep(Robot *robot, RobotText place, const char *name, const double *values, int64_t rows,
                int64_t columns, const double **out) {
  RobotStates *states = &robot->states;
  if (rows < 1 || (states->count && rows != states->count)) {
    return robot_fail(robot, place, "%s in %s has %lld rows", name, place.text, (long long)rows);
  }
  for (int64_t i = 0; i < rows * columns; i++) {
    if (fabs(values[i]) <= mjMAXVAL) continue;
    return robot_fail(robot, place, "%s in %s has a number that is not finite, or too large", name,
                      place.text);
  }
  double *copy = robot_take(robot, (size_t)(rows * columns) * sizeof *copy);
  if (!copy) return BFM_NO_MEMORY;
  memcpy(copy, values, (size_t)(rows * columns) * sizeof *copy);
  *out = copy;
  states->count = rows;
  return BFM_OK;
}

static int read_array(Robot *robot, RobotText place, const Npz *npz, const char *name,
                      int64_t *columns, const double **out) {
  int64_t rows;
  double *values = NULL;
  int status = npz_read(npz, name, &rows, columns, &values);
  if (status) return robot_fail(robot, place, "%s: %s", place.text, bfm_error());
  status = keep(robot, place, name, values, rows, *columns, out);
  free(values);
  return status;
}

static int read_arrays(Robot *robot, RobotText place, const Npz *npz) {
  RobotStates *states = &robot->states;
  *states = (RobotStates){.count = 0};
  TRY(read_array(robot, place, npz, "qpos", &states->nq, &states->qpos));
  if (npz_has(npz, "qvel")) TRY(read_array(robot, place, npz, "qvel", &states->nv, &states->qvel));
  if (npz_has(npz, "act")) TRY(read_array(robot, place, npz, "act", &states->na, &states->act));
  return BFM_OK;
}

int robot_read_states(Robot *robot, const void *bytes, size_t size) {
  const RobotReset *step = robot_states_step(robot);
  Npz *npz;
  if (!step) return bfm_fail(BFM_BAD_ARGUMENT, "%s draws no states from a file", robot->file);
  if (npz_parse(&npz, bytes, size)) {
    return robot_fail(robot, step->text, "%s: %s", step->text.text, bfm_error());
  }
  int status = read_arrays(robot, step->text, npz);
  npz_close(npz);
  return status;
}
