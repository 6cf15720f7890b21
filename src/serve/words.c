// What a prompt can say: names for the completion of a reward, the domain's tasks, and examples that
// invite a first try.

#include <string.h>

#include "envs/quantities.h"
#include "envs/reward_functions.h"
#include "envs/tasks.h"
#include "serve/scene.h"

static const struct {
  const char *domain, *title, *kind, *text;
} examples[] = {
    {"walker", "long strides", "reward", "standing * (abs(left_hip - right_hip) > 1)"},
    {"walker", "kneel", "reward", "upright * tolerance(height, 0.4, 0.5, 0.2)"},
    {"walker", "head down", "reward", "tolerance(torso.zz, -inf, -0.9, 1)"},
    {"walker", "fast and upright", "reward", "upright * (speed > 2)"},
    {"walker", "backward", "reward", "standing * tolerance_linear(-speed, 1, inf, 1, 0)"},
    {"walker", "a foot up", "goal", "left_foot.z = 0.7, torso.z = 1.2"},
    {"cheetah", "fast", "reward", "tolerance_linear(speed, 5, inf, 5, 0)"},
    {"cheetah", "nose up", "reward", "(pitch > 0.6) * (speed > 0)"},
    {"cheetah", "lie flat", "reward", "exp(-20 * height^2) * (abs(speed) < 0.5)"},
    {"cheetah", "on the hind leg", "goal", "pitch = 0.9, speed = 0"},
    {"quadruped", "stand tall", "reward", "upright * (height > 0.6)"},
    {"quadruped", "turn", "reward", "upright * tolerance_linear(imu_gyro.z, 2, inf, 2, 0)"},
    {"quadruped", "sidle", "reward", "upright * tolerance_linear(velocimeter.y, 1, inf, 1, 0)"},
    {"humanoid", "arms up", "reward", "standing * (min(left_hand.z, right_hand.z) > 1.6)"},
    {"humanoid", "sit", "reward", "upright * tolerance(pelvis.z, 0.2, 0.4, 0.3)"},
    {"humanoid", "one leg", "reward", "standing * tolerance(left_foot.z, 0.4, inf, 0.4)"},
    {"jaco", "high", "reward", "tcp.z > 0.4"},
    {"jaco", "touch the floor", "reward", "exp(-100 * tcp.z^2)"},
    {"jaco", "a place", "reward", "tolerance(dist(tcp, 0.1, 0.1, 0.2), 0, 0.05, 0.2)"},
    {"point_mass", "a corner", "reward", "tolerance(norm(x - 0.2, y - 0.2), 0, 0.02, 0.3)"},
    {"point_mass", "a ring", "reward", "tolerance(norm(x, y), 0.14, 0.16, 0.1)"},
    {"point_mass", "the left edge", "goal", "x = -0.25, y = 0"},
    {"fish", "flee", "reward", "tolerance_linear(-approach, 0.2, inf, 0.2, 0)"},
    {"fish", "wag the tail", "reward", "tolerance_linear(abs(tail1.v), 5, inf, 5, 0)"},
    {"fish", "at the target", "goal", "distance = 0, upright = 1"},
    {"finger", "spin fast", "reward", "tolerance_linear(-speed, 20, inf, 20, 0)"},
    {"finger", "press", "reward", "touch > 1"},
    {"finger", "tip to the left", "goal", "tip_x = -0.13, tip_z = 0, speed = 0"},
    {"acrobot", "sideways", "reward", "tolerance(dist(tip, 2, 0, 2), 0, 0.2, 1)"},
    {"acrobot", "tip at the shoulder", "reward", "tolerance(dist(tip, 0, 0, 2), 0, 0.1, 0.5)"},
    {"acrobot", "upside down", "goal", "upper_arm.zz = 1, lower_arm.zz = 1"},
    {"dmc_hopper", "lean back", "reward", "standing * tolerance(torso.zx, 0.3, 0.6, 0.3)"},
    {"dmc_hopper", "kneel", "reward", "upright * tolerance(torso.z, 0.5, 0.7, 0.3)"},
    {"dmc_hopper", "tall and still", "goal", "height = 0.95, speed = 0, torso.zz = 1"},
    {"halfcheetah", "backward", "reward", "-speed"},
    {"halfcheetah", "nose up", "reward", "(torso.zx > 0.6) * (speed > 0)"},
    {"hopper", "stand", "reward", "(height > 1.1) * (abs(speed) < 0.3)"},
    {"hopper", "jump high", "reward", "height > 1.4"},
    {"walker2d", "stand", "reward", "(height > 1.1) * (abs(speed) < 0.3)"},
    {"walker2d", "backward", "reward", "(height > 1) * (speed < -0.5)"},
    {"ant", "stand tall", "reward", "upright * tolerance(height, 0.7, 0.9, 0.3)"},
    {"ant", "diagonally", "reward", "upright * tolerance_linear(min(speed, vy), 1, inf, 1, 0)"},
    {"ant", "spin to the right", "reward", "upright * tolerance_linear(-torso.wz, 2, inf, 2, 0)"},
    {"kitchen", "open the microwave", "reward", "microwave_open"},
    {"kitchen", "light and door", "reward", "light_on + slide_open"},
    {"hand", "thumb to the ring finger", "reward", "tolerance(dist(thumb, ring), 0, 0.02, 0.1)"},
    {"hand", "spread the fingers", "reward", "tolerance(dist(fore, little), 0.12, inf, 0.05)"},
    {"hand", "half bent", "reward", "tolerance(mean(fore_bent, middle_bent), 0.45, 0.55, 0.2)"},
};

static cJSON *word(const char *name, const char *kind, const char *help) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "name", name);
  if (kind) cJSON_AddStringToObject(json, "kind", kind);
  cJSON_AddStringToObject(json, "help", help);
  return json;
}

static void add_name(void *context, const char *kind, const char *name, const char *help) {
  cJSON_AddItemToArray(context, word(name, kind, help));
}

static void add_names(cJSON *scene, const World *world) {
  cJSON *names = cJSON_AddArrayToObject(scene, "names");
  for (const Alias *a = world->domain->aliases; a && a->name; a++) {
    add_name(names, "alias", a->name, a->help);
  }
  for (const Constant *c = reward_constants; c->name; c++) {
    add_name(names, "constant", c->name, c->help);
  }
  quantities_each(world->model, add_name, names);
}

static void add_functions(cJSON *scene) {
  cJSON *functions = cJSON_AddArrayToObject(scene, "functions");
  for (const Function *f = reward_functions; f->name; f++) {
    cJSON_AddItemToArray(functions, word(f->name, NULL, f->help));
  }
}

static void add_tasks(cJSON *scene, const char *domain) {
  static const char *const kinds[] = {"known", "new", "prompt"};
  cJSON *tasks = cJSON_AddArrayToObject(scene, "tasks");
  const Task *task;
  for (int i = 0; (task = task_at(domain, i)); i++) {
    cJSON *json = word(task->name, kinds[task->kind], task->help);
    cJSON_AddItemToObject(json, "expression",
                          task->expression ? cJSON_CreateString(task->expression)
                                           : cJSON_CreateNull());
    cJSON_AddItemToArray(tasks, json);
  }
}

static void add_examples(cJSON *scene, const char *domain) {
  cJSON *array = cJSON_AddArrayToObject(scene, "examples");
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    if (strcmp(examples[i].domain, domain)) continue;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "title", examples[i].title);
    cJSON_AddStringToObject(json, "text", examples[i].text);
    cJSON_AddStringToObject(json, "kind", examples[i].kind);
    cJSON_AddItemToArray(array, json);
  }
}

void scene_words(cJSON *scene, const World *world) {
  add_names(scene, world);
  add_functions(scene);
  add_tasks(scene, world->domain->name);
  add_examples(scene, world->domain->name);
}
