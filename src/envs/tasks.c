// The table of tasks. Tasks of dm_control are its formulas, term by term, over the aliases of the
// domain. The paper's new tasks are products of tolerances between 0 and 1.

#include "envs/tasks.h"

#include <stdio.h>
#include <string.h>

#include "core/suggest.h"
#include "envs/quantities.h"
#include "envs/reward.h"

static const Task tasks[] = {
    // walker
    {"walker", "stand", TASK_KNOWN, "standing", "stand upright"},
    {"walker", "walk", TASK_KNOWN,
     "standing * (5*tolerance_linear(speed, 1, inf, 0.5, 0.5) + 1) / 6", "walk at 1 m/s or faster"},
    {"walker", "run", TASK_KNOWN, "standing * (5*tolerance_linear(speed, 8, inf, 4, 0.5) + 1) / 6",
     "run at 8 m/s or faster"},
    {"walker", "spin", TASK_KNOWN, "tolerance_linear(torso.angmom.y, 5, inf, 5, 0)",
     "spin about the y axis"},
    {"walker", "flip", TASK_NEW,
     "standing * (5*tolerance_linear(torso.angmom.y, 5, inf, 5, 0) + 1) / 6", "turn cartwheels"},
    {"walker", "march", TASK_NEW,
     "standing * (5*tolerance_linear(speed, 3.6, 4.4, 2, 0.5) + 1) / 6", "advance at 4 m/s"},
    {"walker", "skyreach", TASK_NEW,
     "tolerance_linear(max(left_foot.z, right_foot.z), 1.4, inf, 1.3, 0)",
     "lift one foot as high as possible"},
    {"walker", "pullup", TASK_NEW,
     "upright * tolerance_linear(height, 1.25, inf, 1, 0) * "
     "tolerance(max(left_foot.z, right_foot.z), 0, 0.1, 0.1)",
     "push the trunk up with both feet on the ground"},

    // cheetah
    {"cheetah", "walk", TASK_KNOWN, "tolerance_linear(speed, 2, inf, 2, 0)",
     "advance at 2 m/s or faster"},
    {"cheetah", "run", TASK_KNOWN, "tolerance_linear(speed, 10, inf, 10, 0)",
     "run at 10 m/s or faster"},
    {"cheetah", "walk_backward", TASK_KNOWN, "tolerance_linear(-speed, 2, inf, 2, 0)",
     "go backward at 2 m/s or faster"},
    {"cheetah", "run_backward", TASK_KNOWN, "tolerance_linear(-speed, 10, inf, 10, 0)",
     "run backward at 10 m/s or faster"},
    {"cheetah", "bounce", TASK_NEW,
     "tolerance_linear(speed, 2, inf, 2, 0) * tolerance_linear(height, 0.9, inf, 0.9, 0) * "
     "(1 + 2*tolerance_linear(abs(torso.vz), 1, inf, 1, 0)) / 3",
     "advance in leaps"},
    {"cheetah", "march", TASK_NEW, "tolerance_linear(speed, 4.5, 5.5, 5, 0)", "advance at 5 m/s"},
    {"cheetah", "stand", TASK_NEW,
     "tolerance_linear(pitch, 0.9, inf, 1.4, 0) * tolerance_linear(height, 0.9, inf, 0.9, 0) * "
     "tolerance(bfoot.z, -inf, 0.15, 0.2)",
     "stand upright on the back leg"},
    {"cheetah", "headstand", TASK_NEW,
     "tolerance_linear(-pitch, 0.9, inf, 1.4, 0) * tolerance_linear(bfoot.z, 1.1, inf, 1, 0)",
     "stand on the head with the back leg up"},

    // quadruped
    {"quadruped", "walk", TASK_KNOWN, "upright * tolerance_linear(speed, 0.5, inf, 0.5, 0.5)",
     "walk at 0.5 m/s or faster"},
    {"quadruped", "run", TASK_KNOWN, "upright * tolerance_linear(speed, 5, inf, 5, 0.5)",
     "run at 5 m/s or faster"},
    {"quadruped", "stand", TASK_KNOWN, "upright", "keep the trunk upright"},
    {"quadruped", "jump", TASK_KNOWN, "upright * tolerance_linear(height, 1, inf, 1, 0.5)",
     "jump to a height of 1 m"},
    {"quadruped", "bounce", TASK_NEW,
     "upright * tolerance_linear(speed, 1, inf, 1, 0) * "
     "tolerance_linear(height, 0.8, inf, 0.8, 0) * "
     "(1 + 2*tolerance_linear(abs(torso.vz), 1, inf, 1, 0)) / 3",
     "advance in leaps"},
    {"quadruped", "skip", TASK_NEW,
     "upright * tolerance_linear(min(velocimeter.x, velocimeter.y), 1, inf, 1, 0)",
     "move diagonally, 1 m/s forward and 1 m/s to the left"},
    {"quadruped", "march", TASK_NEW, "upright * tolerance_linear(speed, 2.25, 2.75, 2.5, 0.5)",
     "advance at 2.5 m/s"},
    {"quadruped", "trot", TASK_NEW,
     "upright * tolerance_linear(speed, 1, inf, 1, 0) * (1 + 2*clip(mean("
     "toe_front_left.z > 0.12, toe_front_right.z > 0.12, "
     "toe_back_left.z > 0.12, toe_back_right.z > 0.12), 0, 0.5)) / 2",
     "advance with two feet or more off the ground"},

    // humanoid
    {"humanoid", "stand", TASK_KNOWN,
     "calm * standing * (tolerance(vx, 0, 0, 2) + tolerance(vy, 0, 0, 2)) / 2", "stand still"},
    {"humanoid", "walk", TASK_KNOWN,
     "calm * standing * (5*tolerance_linear(speed, 1, inf, 1, 0) + 1) / 6",
     "walk at 1 m/s or faster, anywhere"},
    {"humanoid", "run", TASK_KNOWN,
     "calm * standing * (5*tolerance_linear(speed, 10, inf, 10, 0) + 1) / 6",
     "run at 10 m/s or faster, anywhere"},
    {"humanoid", "dive", TASK_NEW,
     "tolerance_linear(-torso.zz, 0.8, inf, 1.8, 0) * "
     "(2 + tolerance_linear(-head.vz, 2, inf, 2, 0)) / 3",
     "dive head first"},
    {"humanoid", "march", TASK_NEW,
     "calm * standing * (5*tolerance_linear(speed, 4.5, 5.5, 5, 0) + 1) / 6", "advance at 5 m/s"},
    {"humanoid", "skip", TASK_NEW,
     "calm * standing * (5*tolerance_linear(min(vx, vy), 1, inf, 1, 0) + 1) / 6",
     "move across the floor diagonally, 1 m/s along both axes"},
    {"humanoid", "left_hand", TASK_PROMPT,
     "exp(-(vx^2 + vy^2)) * upright * (left_wrist.z > 2) * (right_wrist.z < 0.9)",
     "raise the left hand while standing"},
    {"humanoid", "right_hand", TASK_PROMPT,
     "exp(-(vx^2 + vy^2)) * upright * (left_wrist.z < 0.9) * (right_wrist.z > 0.9)",
     "raise the right hand while standing"},
    {"humanoid", "walk_open_hand", TASK_PROMPT,
     "(vx^2 + vy^2 > 5) * (abs(left_wrist.y - right_wrist.y) > 1.2)", "walk with open arms"},
    {"humanoid", "split", TASK_PROMPT,
     "exp(-(vx^2 + vy^2)) * (pelvis.z < 0.2) * (abs(left_ankle.y - right_ankle.y) > 0.5)",
     "do a split on the ground"},

    // jaco: move the tool centre point to a place on the floor, or to one drawn from the box of initial
    // states: numpy.random.default_rng(0).uniform((-.2, -.2, .02), (.2, .2, .4), (4, 3)).round(4)
    {"jaco", "reach_top_left", TASK_KNOWN,
     "tolerance(norm(tcp.x + 0.09, tcp.y - 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (-0.09, 0.09)"},
    {"jaco", "reach_top_right", TASK_KNOWN,
     "tolerance(norm(tcp.x - 0.09, tcp.y - 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (0.09, 0.09)"},
    {"jaco", "reach_bottom_left", TASK_KNOWN,
     "tolerance(norm(tcp.x + 0.09, tcp.y + 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (-0.09, -0.09)"},
    {"jaco", "reach_bottom_right", TASK_KNOWN,
     "tolerance(norm(tcp.x - 0.09, tcp.y + 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (0.09, -0.09)"},
    {"jaco", "reach_random1", TASK_NEW,
     "tolerance(norm(tcp.x - 0.0548, tcp.y + 0.0921, tcp.z - 0.0356), 0, 0.05, 0.05)",
     "reach (0.0548, -0.0921, 0.0356)"},
    {"jaco", "reach_random2", TASK_NEW,
     "tolerance(norm(tcp.x + 0.1934, tcp.y - 0.1253, tcp.z - 0.3668), 0, 0.05, 0.05)",
     "reach (-0.1934, 0.1253, 0.3668)"},
    {"jaco", "reach_random3", TASK_NEW,
     "tolerance(norm(tcp.x - 0.0427, tcp.y - 0.0918, tcp.z - 0.2266), 0, 0.05, 0.05)",
     "reach (0.0427, 0.0918, 0.2266)"},
    {"jaco", "reach_random4", TASK_NEW,
     "tolerance(norm(tcp.x - 0.174, tcp.y - 0.1263, tcp.z - 0.021), 0, 0.05, 0.05)",
     "reach (0.174, 0.1263, 0.021)"},

    // point_mass
    {"point_mass", "easy", TASK_KNOWN,
     "tolerance(dist(geom:target, geom:pointmass), 0, 0.015, 0.015) * calm", "go to the middle"},
    {"point_mass", "reach_top_left", TASK_NEW,
     "tolerance(norm(x + 0.15, y - 0.15), 0, 0.015, 0.15)", "go to (-0.15, 0.15)"},
    {"point_mass", "reach_top_right", TASK_NEW,
     "tolerance(norm(x - 0.15, y - 0.15), 0, 0.015, 0.15)", "go to (0.15, 0.15)"},
    {"point_mass", "reach_bottom_left", TASK_NEW,
     "tolerance(norm(x + 0.15, y + 0.15), 0, 0.015, 0.15)", "go to (-0.15, -0.15)"},
    {"point_mass", "reach_bottom_right", TASK_NEW,
     "tolerance(norm(x - 0.15, y + 0.15), 0, 0.015, 0.15)", "go to (0.15, -0.15)"},

    // Gym's robots, whose reward compares two states
    {"halfcheetah", "run", TASK_KNOWN, NULL, "D4RL's reward"},
    {"hopper", "run", TASK_KNOWN, NULL, "D4RL's reward"},
    {"walker2d", "run", TASK_KNOWN, NULL, "D4RL's reward"},

    // kitchen: the number of objects in their places; an episode rewards each object once
    {"kitchen", "partial", TASK_KNOWN, "microwave_open + kettle_moved + light_on + slide_open",
     "microwave, kettle, light and sliding cabinet"},
    {"kitchen", "mixed", TASK_KNOWN, "microwave_open + kettle_moved + bottom_on + light_on",
     "microwave, kettle, burner and light"},
    {"kitchen", "open_microwave", TASK_PROMPT, "microwave_open", "open the microwave"},
    {"kitchen", "move_kettle", TASK_PROMPT, "kettle_moved", "move the kettle to the back"},
    {"kitchen", "turn_bottom_burner", TASK_PROMPT, "bottom_on", "turn the front knob"},
    {"kitchen", "turn_top_burner", TASK_PROMPT, "top_on", "turn the back knob"},
    {"kitchen", "switch_light", TASK_PROMPT, "light_on", "switch the light on"},
    {"kitchen", "open_slide_cabinet", TASK_PROMPT, "slide_open", "open the sliding door"},
    {"kitchen", "open_hinge_cabinet", TASK_PROMPT, "hinge_open", "open the right hinged door"},
};

#define TASK_COUNT ((int)(sizeof tasks / sizeof tasks[0]))

const Task *task_find(const char *domain, const char *name) {
  for (int i = 0; i < TASK_COUNT; i++) {
    if (!strcmp(tasks[i].domain, domain) && !strcmp(tasks[i].name, name)) return tasks + i;
  }
  return NULL;
}

const Task *task_at(const char *domain, int index) {
  for (int i = 0; i < TASK_COUNT; i++) {
    if (!strcmp(tasks[i].domain, domain) && index-- == 0) return tasks + i;
  }
  return NULL;
}

int task_suggest(const World *world, const char *text, int status) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (status != BFM_BAD_ARGUMENT) return status;
  if (strncmp(bfm_error(), REWARD_UNKNOWN, strlen(REWARD_UNKNOWN))) return status;
  const char *domain = world->domain->name;
  const Task *task;
  const char *unknown = bfm_error() + strlen(REWARD_UNKNOWN " '");
  for (int i = 0; (task = task_at(domain, i)); i++) {
    size_t length = strlen(task->name);
    if (strncmp(unknown, task->name, length) || unknown[length] != '\'') continue;
    return bfm_fail(status,
                    "the task %s is a whole reward and cannot be part of an expression; bfm tasks "
                    "%s shows its formula",
                    task->name, domain);
  }
  if (text[strspn(text, letters)]) return status;
  Suggestion nearest = {.word = text};
  for (int i = 0; (task = task_at(domain, i)); i++) suggest_try(&nearest, task->name);
  const char *best = nearest.best;  // the nearest task; a nearer quantity was suggested already
  quantities_nearest(world->model, &nearest);
  for (const Alias *a = world->domain->aliases; a && a->name; a++) suggest_try(&nearest, a->name);
  if (!best || nearest.best != best) return status;
  RewardPlace place = reward_error_place();
  snprintf(place.meant, sizeof place.meant, "%s", best);
  reward_error_set(place);
  return bfm_fail(status, "%s has no task and no quantity \"%s\"; did you mean the task %s?",
                  domain, text, best);
}
