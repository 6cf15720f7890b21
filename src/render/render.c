// Pictures of states: MuJoCo's renderer, and PNG files. An error that MuJoCo raises while it draws
// becomes a status: for the duration of a call, mju_user_error is a function that jumps back here.

#include "render/render.h"

#include <pthread.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "bfm.h"
#include "core/files.h"
#include "core/units.h"
#include "envs/quantities.h"
#include "envs/sim.h"
#include "render/gl.h"

// ---------------------------------- errors of MuJoCo ---------------------------------------------

static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER;  // held while the hook is ours
static void (*others)(const char *message);
static _Thread_local jmp_buf *back;
static _Thread_local char raised[256];

static void on_error(const char *message) {
  if (back) {
    snprintf(raised, sizeof raised, "%s", message);
    longjmp(*back, 1);
  }
  if (others) others(message);
  abort();  // an error of another thread, which cannot jump: abort, as MuJoCo itself would
}

// calls work(render, argument) and returns errors of MuJoCo as a status
static int guarded(void (*work)(Render *, void *), Render *render, void *argument) {
  jmp_buf here;
  volatile int status = BFM_OK;  // volatile: keeps its value across the jump
  pthread_mutex_lock(&drawing);
  others = mju_user_error;
  mju_user_error = on_error;
  back = &here;
  if (setjmp(here)) {
    status = bfm_fail(BFM_UNAVAILABLE, "MuJoCo cannot draw: %s", raised);
  } else {
    work(render, argument);
  }
  back = NULL;
  mju_user_error = others;
  pthread_mutex_unlock(&drawing);
  return status;
}

// ---------------------------------- drawing ------------------------------------------------------

struct Render {
  const World *world;
  mjModel *model;  // a copy, with smaller shadow maps for drawing on a CPU
  int width, height;
  GlContext *context;
  uint8_t *pixels;  // one picture, bottom row first
  mjData *data;
  mjvScene scene;
  mjvCamera camera;
  double reach;  // how far the robot that the camera follows extends from its root
  mjvOption option;
  mjrContext gl;
  int has_scene, has_gl;
};

// without a camera in the model, pictures follow a user's robot that can go away: returns its root, or 0
static int followed(const Render *render) {
  const World *world = render->world;
  int body = quantities_robot(world->model);
  if (render->camera.type != mjCAMERA_FREE || !world->domain->bundle) return 0;
  return world->model->body_dofnum[body] > 1 ? body : 0;
}

// sideways at once, and up and down as far as is needed to see the robot
static void follow(Render *render) {
  int body = followed(render);
  double *at = render->camera.lookat, *pos = render->data->xpos + 3 * body;
  if (!body) return;
  mju_copy(at, pos, 2);
  at[2] = mju_clip(at[2], pos[2] - render->reach / 2, pos[2] + render->reach / 2);
}

// the farthest point of the robot from its root, in the model's default pose
static double reach(const mjModel *m, mjData *data, int root) {
  double far = 0;
  mj_kinematics(m, data);
  for (int g = 0; g < m->ngeom; g++) {
    int body = m->geom_bodyid[g];
    double distance = mju_dist3(data->geom_xpos + 3 * g, data->xpos + 3 * root) + m->geom_rbound[g];
    if (m->body_rootid[body] == m->body_rootid[root] && distance > far) far = distance;
  }
  return far;
}

// A large floor would make the model, of which the free camera shows all, much larger than the robot.
static void approach(Render *render) {
  int root = followed(render);
  if (root) render->reach = reach(render->model, render->data, root);
  if (render->reach <= 0) return;
  render->camera.distance = render->reach / sin(render->model->vis.global.fovy * mjPI / 360);
  render->camera.lookat[2] = render->data->xpos[3 * root + 2] / 2;
}

static void start(Render *render, void *argument) {
  (void)argument;
  const mjModel *model = render->model;
  mjv_defaultOption(&render->option);
  mjv_defaultScene(&render->scene);
  mjv_makeScene(model, &render->scene, 2000);
  render->has_scene = 1;
  mjr_defaultContext(&render->gl);
  mjr_makeContext(model, &render->gl, mjFONTSCALE_100);
  render->has_gl = 1;
  mjr_resizeOffscreen(render->width, render->height, &render->gl);
  mjr_setBuffer(mjFB_OFFSCREEN, &render->gl);

  mjv_defaultFreeCamera(model, &render->camera);
  const char *camera = render->world->domain->camera;
  int id = camera ? mj_name2id(model, mjOBJ_CAMERA, camera) : -1;
  if (id >= 0) {
    render->camera.type = mjCAMERA_FIXED;
    render->camera.fixedcamid = id;
  }
  approach(render);
}

static int open_render(Render *render) {
  TRY(gl_new(&render->context, render->width, render->height));
  render->pixels = malloc((size_t)render->width * render->height * 3);
  render->data = mj_makeData(render->world->model);
  render->model = mj_copyModel(NULL, render->world->model);
  if (!render->pixels || !render->data || !render->model) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a picture of %d x %d", render->width,
                    render->height);
  }
  render->model->vis.quality.shadowsize = 1024;
  return guarded(start, render, NULL);
}

int render_new(Render **out, const World *world, int width, int height) {
  *out = NULL;
  if (width < 16 || width > 8192 || height < 16 || height > 8192) {
    return bfm_fail(BFM_BAD_ARGUMENT, "pictures must have 16 to 8192 pixels per side, not %d x %d",
                    width, height);
  }
  Render *render = calloc(1, sizeof *render);
  if (!render) return bfm_fail(BFM_NO_MEMORY, "out of memory for a picture");
  render->world = world;
  render->width = width;
  render->height = height;
  int status = open_render(render);
  if (status) {
    render_free(render);
    return status;
  }
  *out = render;
  return BFM_OK;
}

static void stop(Render *render, void *argument) {
  (void)argument;
  if (render->has_gl) mjr_freeContext(&render->gl);
  if (render->has_scene) mjv_freeScene(&render->scene);
}

void render_free(Render *render) {
  if (!render) return;
  guarded(stop, render, NULL);
  gl_free(render->context);
  if (render->data) mj_deleteData(render->data);
  if (render->model) mj_deleteModel(render->model);
  free(render->pixels);
  free(render);
}

// copies the drawn pixels into rows of rgb, from the top
static void read_pixels(Render *render, uint8_t *rgb, int64_t stride) {
  mjrRect viewport = {0, 0, render->width, render->height};
  mjr_readPixels(render->pixels, NULL, viewport, &render->gl);
  size_t row = 3 * (size_t)render->width;
  for (int y = 0; y < render->height; y++) {
    memcpy(rgb + y * stride, render->pixels + (render->height - 1 - y) * row, row);
  }
}

static void draw_state(Render *render, void *argument) {
  const double *qpos = argument;
  const mjModel *model = render->model;
  mjrRect viewport = {0, 0, render->width, render->height};
  mj_resetData(model, render->data);
  mju_copy(render->data->qpos, qpos, model->nq);
  mj_fwdPosition(model, render->data);
  follow(render);
  mjv_updateScene(model, render->data, &render->option, NULL, &render->camera, mjCAT_ALL,
                  &render->scene);
  mjr_render(viewport, &render->scene, &render->gl);
}

int render_draw(Render *render, const double *qpos, uint8_t *rgb, int64_t stride) {
  TRY(guarded(draw_state, render, (void *)qpos));
  read_pixels(render, rgb, stride);
  return BFM_OK;
}

static void draw_figure(Render *render, void *argument) {
  mjrRect viewport = {0, 0, render->width, render->height};
  mjr_figure(viewport, argument, &render->gl);
}

int render_figure(Render *render, mjvFigure *figure, uint8_t *rgb, int64_t stride) {
  TRY(guarded(draw_figure, render, figure));
  read_pixels(render, rgb, stride);
  return BFM_OK;
}

// ---------------------------------- files --------------------------------------------------------

int render_write_png(const char *path, const uint8_t *rgb, int width, int height) {
  png_image image = {.version = PNG_IMAGE_VERSION, .width = width, .height = height,
                     .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, NULL, &size, 0, rgb, 0, NULL)) {
    return bfm_fail(BFM_IO, "%s: %s", path, image.message);
  }
  uint8_t *bytes = malloc(size);
  if (!bytes)
    return bfm_fail(BFM_NO_MEMORY, "%s: out of memory for %s", path,
                    size_of_bytes((double)size).text);

  OutputFile file;
  int status = BFM_OK;
  if (!png_image_write_to_memory(&image, bytes, &size, 0, rgb, 0, NULL)) {
    status = bfm_fail(BFM_IO, "%s: %s", path, image.message);
  }
  if (!status) status = output_open(&file, path);
  if (!status) status = output_write(&file, bytes, size);
  if (!status) status = output_commit(&file);
  free(bytes);
  return status;
}

bfm_status bfm_domain_render(const char *name, int64_t count, const double *qpos, int columns,
                             int width, int height, const char *path) {
  NEED("qpos", qpos);
  if (count < 1 || columns < 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "cannot arrange %lld pictures in %d columns",
                    (long long)count, columns);
  }
  if (columns > count) columns = (int)count;
  int64_t rows = (count + columns - 1) / columns;
  if (columns * (int64_t)width > 65535 || rows * height > 65535) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a picture of %lld x %lld pixels is too large",
                    columns * (long long)width, (long long)rows * height);
  }

  const Domain *domain;
  const World *world = NULL;
  Render *render = NULL;
  uint8_t *rgb = NULL;
  TRY(domain_find(&domain, name));
  int status = world_acquire(&world, domain);
  if (!status) status = sim_check_numbers("qpos", qpos, count, world->model->nq);
  if (!status) status = render_new(&render, world, width, height);
  if (!status && !(rgb = calloc((size_t)rows * height, (size_t)columns * width * 3))) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %lld pictures", (long long)count);
  }
  if (!status) {
    int64_t stride = 3 * (int64_t)columns * width;
    for (int64_t i = 0; i < count && !status; i++) {
      uint8_t *corner = rgb + i / columns * height * stride + i % columns * width * 3;
      status = render_draw(render, qpos + i * world->model->nq, corner, stride);
    }
    if (!status) status = render_write_png(path, rgb, columns * width, (int)(rows * height));
  }
  render_free(render);
  world_release(world);
  free(rgb);
  return status;
}
