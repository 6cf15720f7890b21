// The memory of a robot and its error messages. All that a description contains lies in blocks which are
// freed together, so that a robot that is refused half-way needs no cleaning up.

#include "envs/robot.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct RobotBlock {
  struct RobotBlock *next;
  max_align_t bytes[];
} RobotBlock;

void *robot_take(Robot *robot, size_t bytes) {
  RobotBlock *block = calloc(1, sizeof *block + bytes);
  if (!block) {
    bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
    return NULL;
  }
  block->next = robot->memory;
  robot->memory = block;
  return block->bytes;
}

char *robot_text(Robot *robot, const char *text, size_t length) {
  char *copy = robot_take(robot, length + 1);
  if (copy) memcpy(copy, text, length);
  return copy;
}

int robot_new(Robot **out, const char *file) {
  Robot *robot = *out = calloc(1, sizeof *robot);
  if (!robot) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", file);
  robot->file = file;
  robot->file = robot_text(robot, file, strlen(file));
  if (robot->file) return BFM_OK;
  robot_free(robot);
  *out = NULL;
  return BFM_NO_MEMORY;
}

void robot_free(Robot *robot) {
  if (!robot) return;
  for (RobotBlock *block = robot->memory, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  free(robot);
}

int robot_fail(const Robot *robot, RobotText place, const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (!place.line) return bfm_fail(BFM_BAD_FILE, "%s: %s", robot->file, message);
  return bfm_fail(BFM_BAD_FILE, "%s:%d:%d: %s", robot->file, place.line, place.column, message);
}

int robot_problem_count(const Robot *robot) { return robot->problems ? robot->problems->count : 0; }

int robot_problems_add(RobotProblems *problems) {
  for (int i = 0; i < problems->count; i++) {
    if (!strcmp(problems->of[i], bfm_error())) return BFM_OK;
  }
  if (problems->count == ROBOT_PROBLEMS) return BFM_OK;
  problems->of[problems->count] = strdup(bfm_error());
  if (!problems->of[problems->count]) return bfm_fail(BFM_NO_MEMORY, "out of memory for a message");
  problems->count++;
  return BFM_OK;
}

void robot_problems_free(RobotProblems *problems) {
  for (int i = 0; i < problems->count; i++) free(problems->of[i]);
  problems->count = 0;
}

int robot_goes_on(const Robot *robot, int status) {
  if (!status || status == BFM_NO_MEMORY || !robot->problems) return status;
  return robot_problems_add(robot->problems);
}

int robot_fail_expression(const Robot *robot, RobotText place) {
  char message[1024];
  snprintf(message, sizeof message, "%s", bfm_error());
  char *caret = strstr(message, ", at character ");
  if (caret) *caret = 0;
  int at = reward_error_place().at;
  if (caret && at > 0 && place.line && !memchr(place.text, '\n', (size_t)at)) place.column += at;
  return robot_fail(robot, place, "%s", message);
}
