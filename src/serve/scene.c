// What a domain looks like, from its compiled model. A browser has no cube maps as MuJoCo has: a texture
// that is not flat tints its geoms with its mean colour instead.

#include "serve/scene.h"

#include <math.h>
#include <string.h>

#include "envs/quantities.h"

// ---------------------------------- numbers ------------------------------------------------------

// six digits are enough to draw by
static cJSON *numbers(const double *x, int count) {
  cJSON *array = cJSON_CreateArray();
  for (int i = 0; i < count; i++) {
    cJSON_AddItemToArray(array, cJSON_CreateNumber(round(x[i] * 1e6) / 1e6));
  }
  return array;
}

static void add_numbers(cJSON *to, const char *name, const double *x, int count) {
  cJSON_AddItemToObject(to, name, numbers(x, count));
}

static void add_name(cJSON *to, const mjModel *model, mjtObj type, int id) {
  const char *name = mj_id2name(model, type, id);
  cJSON_AddStringToObject(to, "name", name ? name : "");
}

// ---------------------------------- geoms --------------------------------------------------------

int scene_draws(const mjModel *model, int geom) {
  int type = model->geom_type[geom];
  return model->geom_group[geom] < 3 && type >= mjGEOM_PLANE && type <= mjGEOM_SDF;
}

int scene_mesh(const mjModel *model, int geom) {
  int data = model->geom_dataid[geom];
  switch (model->geom_type[geom]) {
    case mjGEOM_MESH:
    case mjGEOM_SDF: return data;
    case mjGEOM_HFIELD: return data < 0 ? -1 : (int)model->nmesh + data;
    default: return -1;
  }
}

// the texture of the geom's material, or -1
static int texture_of(const mjModel *model, int geom) {
  int material = model->geom_matid[geom];
  return material < 0 ? -1 : model->mat_texid[material * mjNTEXROLE + mjTEXROLE_RGB];
}

int scene_texture(const mjModel *model, int geom) {
  int texture = texture_of(model, geom), type = model->geom_type[geom];
  if (texture < 0 || model->tex_type[texture] != mjTEXTURE_2D) return -1;
  int mapped = type == mjGEOM_PLANE || type == mjGEOM_HFIELD ||
               (type == mjGEOM_MESH && model->mesh_texcoordadr[model->geom_dataid[geom]] >= 0);
  return mapped ? texture : -1;
}

static void tint(const mjModel *model, int texture, double rgba[4]) {
  int channels = model->tex_nchannel[texture];
  int64_t pixels = (int64_t)model->tex_width[texture] * model->tex_height[texture];
  const mjtByte *data = model->tex_data + model->tex_adr[texture];
  for (int c = 0; c < 3; c++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++) sum += data[i * channels + (c < channels ? c : 0)];
    rgba[c] *= (double)sum / (255.0 * (double)pixels);
  }
}

// the colour as MuJoCo's renderer chooses it: the geom's own goes before the material's unless it is
// the default
static void colour_of(const mjModel *model, int geom, double rgba[4]) {
  static const float plain[4] = {0.5f, 0.5f, 0.5f, 1};
  int material = model->geom_matid[geom], texture = texture_of(model, geom);
  const float *own = model->geom_rgba + 4 * geom;
  int by_material = material >= 0 && !memcmp(own, plain, sizeof plain);
  const float *chosen = by_material ? model->mat_rgba + 4 * material : own;
  for (int i = 0; i < 4; i++) rgba[i] = chosen[i];
  if (texture >= 0 && scene_texture(model, geom) < 0) tint(model, texture, rgba);
}

// How often a texture repeats over a plane, whose width is 20 m where it has no end. MuJoCo counts
// repetitions by two metres or by the whole plane.
static void add_repeat(cJSON *to, const mjModel *model, int geom) {
  double repeat[2] = {1, 1};
  int material = model->geom_matid[geom];
  for (int i = 0; i < 2 && material >= 0 && model->geom_type[geom] == mjGEOM_PLANE; i++) {
    double half = model->geom_size[3 * geom + i];
    repeat[i] = model->mat_texrepeat[2 * material + i];
    if (model->mat_texuniform[material]) repeat[i] *= half > 0 ? half : 10;
  }
  add_numbers(to, "repeat", repeat, 2);
}

static void add_material(cJSON *to, const mjModel *model, int geom) {
  int m = model->geom_matid[geom];
  const struct {
    const char *name;
    const float *values;
    double otherwise;
  } rows[] = {
      {"reflectance", model->mat_reflectance, 0},
      {"shininess", model->mat_shininess, 0.5},
      {"specular", model->mat_specular, 0.5},
      {"emission", model->mat_emission, 0},
  };
  for (int i = 0; i < 4; i++) {
    double value = m < 0 ? rows[i].otherwise : rows[i].values[m];
    cJSON_AddNumberToObject(to, rows[i].name, round(value * 1e6) / 1e6);
  }
}

static cJSON *geom_json(const mjModel *model, int g) {
  static const char *const types[] = {"plane",    "hfield", "sphere", "capsule", "ellipsoid",
                                      "cylinder", "box",    "mesh",   "mesh"};
  cJSON *json = cJSON_CreateObject();
  double rgba[4];
  colour_of(model, g, rgba);
  cJSON_AddNumberToObject(json, "body", model->geom_bodyid[g]);
  cJSON_AddStringToObject(json, "type", types[model->geom_type[g]]);
  add_numbers(json, "size", model->geom_size + 3 * g, 3);
  add_numbers(json, "pos", model->geom_pos + 3 * g, 3);
  add_numbers(json, "quat", model->geom_quat + 4 * g, 4);
  add_numbers(json, "rgba", rgba, 4);
  cJSON_AddNumberToObject(json, "mesh", scene_mesh(model, g));
  cJSON_AddNumberToObject(json, "texture", scene_texture(model, g));
  add_repeat(json, model, g);
  add_material(json, model, g);
  cJSON_AddNumberToObject(json, "group", model->geom_group[g]);
  return json;
}

// ---------------------------------- bodies, joints -----------------------------------------------

static cJSON *body_json(const mjModel *model, int b) {
  cJSON *json = cJSON_CreateObject();
  add_name(json, model, mjOBJ_BODY, b);
  cJSON_AddNumberToObject(json, "parent", b ? model->body_parentid[b] : -1);
  cJSON_AddBoolToObject(json, "moves", model->body_weldid[b] != 0);
  return json;
}

static cJSON *joint_json(const mjModel *model, int j) {
  static const char *const types[] = {"free", "ball", "slide", "hinge"};
  cJSON *json = cJSON_CreateObject();
  int type = model->jnt_type[j];
  add_name(json, model, mjOBJ_JOINT, j);
  cJSON_AddStringToObject(json, "type", types[type]);
  cJSON_AddNumberToObject(json, "qpos", model->jnt_qposadr[j]);
  int ranged = model->jnt_limited[j] && (type == mjJNT_HINGE || type == mjJNT_SLIDE);
  cJSON_AddItemToObject(json, "range",
                        ranged ? numbers(model->jnt_range + 2 * j, 2) : cJSON_CreateNull());
  cJSON_AddStringToObject(json, "unit", type == mjJNT_HINGE || type == mjJNT_BALL ? "rad" : "m");
  return json;
}

// ---------------------------------- camera -------------------------------------------------------

// the body that a camera follows, or -1
static int tracked_by(const mjModel *model, int camera) {
  if (camera < 0) return quantities_robot(model);
  int mode = model->cam_mode[camera], body = model->cam_bodyid[camera];
  if (mode == mjCAMLIGHT_TARGETBODY || mode == mjCAMLIGHT_TARGETBODYCOM) {
    return model->cam_targetbodyid[camera];
  }
  return body > 0 ? body : -1;
}

// a look from the side, for a domain without a camera
static void free_camera(const mjModel *model, double pos[3], double forward[3], double up[3]) {
  const double side[3] = {0, 1, -0.3}, vertical[3] = {0, 0, 1};
  mju_copy3(forward, side);
  mju_normalize3(forward);
  mju_copy3(up, vertical);
  mju_addScl3(pos, model->stat.center, forward, -1.5 * model->stat.extent);
}

static cJSON *camera_json(const Poses *poses) {
  const mjModel *model = poses->world->model;
  const char *name = poses->world->domain->camera;
  int camera = name ? mj_name2id(model, mjOBJ_CAMERA, name) : -1;
  double pos[3], forward[3], up[3], fovy = model->vis.global.fovy;
  if (camera >= 0) {
    const double *frame = poses->data->cam_xmat + 9 * camera;
    mj_camlight(model, poses->data);
    mju_copy3(pos, poses->data->cam_xpos + 3 * camera);
    for (int i = 0; i < 3; i++) {
      forward[i] = -frame[3 * i + 2];
      up[i] = frame[3 * i + 1];
    }
    fovy = model->cam_fovy[camera];
  } else {
    free_camera(model, pos, forward, up);
  }
  cJSON *json = cJSON_CreateObject();
  add_numbers(json, "pos", pos, 3);
  add_numbers(json, "forward", forward, 3);
  add_numbers(json, "up", up, 3);
  cJSON_AddNumberToObject(json, "fovy", fovy);
  cJSON_AddNumberToObject(json, "track", tracked_by(model, camera));
  return json;
}

// ---------------------------------- all of it ----------------------------------------------------

void scene_describe(cJSON *scene, const Poses *poses) {
  const mjModel *model = poses->world->model;
  const Domain *domain = poses->world->domain;
  cJSON *bodies = cJSON_AddArrayToObject(scene, "bodies");
  for (int b = 0; b < model->nbody; b++) cJSON_AddItemToArray(bodies, body_json(model, b));
  cJSON *geoms = cJSON_AddArrayToObject(scene, "geoms");
  for (int g = 0; g < model->ngeom; g++) {
    if (scene_draws(model, g)) cJSON_AddItemToArray(geoms, geom_json(model, g));
  }
  cJSON *joints = cJSON_AddArrayToObject(scene, "joints");
  for (int j = 0; j < model->njnt; j++) cJSON_AddItemToArray(joints, joint_json(model, j));
  cJSON_AddItemToObject(scene, "camera", camera_json(poses));
  cJSON_AddNumberToObject(scene, "tendons", poses_tendons(poses->world));
  cJSON_AddNumberToObject(scene, "mass", model->body_subtreemass[quantities_robot(model)]);
  cJSON_AddNumberToObject(scene, "nq", (double)model->nq);
  cJSON_AddNumberToObject(scene, "nv", (double)model->nv);
  cJSON_AddNumberToObject(scene, "na", (double)model->na);
  cJSON_AddNumberToObject(scene, "act", (double)model->nu);
  cJSON_AddNumberToObject(scene, "timestep", model->opt.timestep);
  cJSON_AddNumberToObject(scene, "control_dt", domain->substeps * model->opt.timestep);
}
