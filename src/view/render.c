// Pictures of states: MuJoCo's renderer on OSMesa, and PNG files.

#include "view/render.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "bfm.h"
#include "core/newfile.h"

// ---------------------------------- OSMesa -------------------------------------------------------

// the four functions we need, as GL/osmesa.h declares them
enum { OSMESA_RGBA = 0x1908, GL_UNSIGNED_BYTE = 0x1401 };

static struct {
  void *(*create)(unsigned format, int depth, int stencil, int accumulation, void *share);
  void (*destroy)(void *context);
  unsigned char (*make_current)(void *context, void *buffer, unsigned type, int width, int height);
} osmesa;

static void osmesa_load(void) {
  static const char *const names[] = {"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"};
  void *library = NULL;
  // global: MuJoCo looks up OpenGL's functions among the symbols of the process
  for (int i = 0; i < 3 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  if (!library) return;
  setenv("MUJOCO_GL", "osmesa", 1);

  // ISO C has no conversion from object to function pointers, POSIX does
  *(void **)&osmesa.create = dlsym(library, "OSMesaCreateContextExt");
  *(void **)&osmesa.destroy = dlsym(library, "OSMesaDestroyContext");
  *(void **)&osmesa.make_current = dlsym(library, "OSMesaMakeCurrent");
}

// ---------------------------------- drawing ------------------------------------------------------

struct Render {
  const World *world;
  int width, height;
  void *context;
  uint8_t *buffer;  // what the context draws to; pictures go to MuJoCo's own buffer
  uint8_t *pixels;  // one picture, bottom row first
  mjData *data;
  mjvScene scene;
  mjvCamera camera;
  mjvOption option;
  mjrContext gl;
  int has_scene, has_gl;
};

static int start(Render *render) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, osmesa_load);
  if (!osmesa.create || !osmesa.destroy || !osmesa.make_current) {
    return bfm_fail(BFM_UNAVAILABLE, "pictures need libOSMesa, which is not here: run make deps");
  }

  const mjModel *model = render->world->model;
  size_t bytes = (size_t)render->width * render->height * 4;
  render->buffer = malloc(bytes);
  render->pixels = malloc(bytes);
  render->data = mj_makeData(model);
  render->context = osmesa.create(OSMESA_RGBA, 24, 8, 0, NULL);
  if (!render->buffer || !render->pixels || !render->data || !render->context) {
    return bfm_fail(BFM_NO_MEMORY, "no memory for a picture of %d x %d", render->width,
                    render->height);
  }
  if (!osmesa.make_current(render->context, render->buffer, GL_UNSIGNED_BYTE, render->width,
                           render->height)) {
    return bfm_fail(BFM_UNAVAILABLE, "OSMesa cannot draw %d x %d pixels", render->width,
                    render->height);
  }

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
  return BFM_OK;
}

int render_new(Render **out, const World *world, int width, int height) {
  *out = NULL;
  if (width < 16 || width > 4096 || height < 16 || height > 4096) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a picture has 16 to 4096 pixels a side, not %d x %d", width,
                    height);
  }
  Render *render = calloc(1, sizeof *render);
  if (!render) return bfm_fail(BFM_NO_MEMORY, "no memory for a picture");
  render->world = world;
  render->width = width;
  render->height = height;
  int status = start(render);
  if (status) {
    render_free(render);
    return status;
  }
  *out = render;
  return BFM_OK;
}

void render_free(Render *render) {
  if (!render) return;
  if (render->has_gl) mjr_freeContext(&render->gl);
  if (render->has_scene) mjv_freeScene(&render->scene);
  if (render->context) osmesa.destroy(render->context);
  if (render->data) mj_deleteData(render->data);
  free(render->pixels);
  free(render->buffer);
  free(render);
}

void render_draw(Render *render, const double *qpos, uint8_t *rgb, int64_t stride) {
  const mjModel *model = render->world->model;
  mjrRect viewport = {0, 0, render->width, render->height};

  mj_resetData(model, render->data);
  mju_copy(render->data->qpos, qpos, model->nq);
  mj_fwdPosition(model, render->data);
  mjv_updateScene(model, render->data, &render->option, NULL, &render->camera, mjCAT_ALL,
                  &render->scene);
  mjr_render(viewport, &render->scene, &render->gl);
  mjr_readPixels(render->pixels, NULL, viewport, &render->gl);

  size_t row = 3 * (size_t)render->width;
  for (int y = 0; y < render->height; y++) {
    memcpy(rgb + y * stride, render->pixels + (render->height - 1 - y) * row, row);
  }
}

// ---------------------------------- files --------------------------------------------------------

int render_write_png(const char *path, const uint8_t *rgb, int width, int height) {
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, NULL, &size, 0, rgb, 0, NULL)) {
    return bfm_fail(BFM_IO, "%s: %s", path, image.message);
  }
  uint8_t *bytes = malloc(size);
  if (!bytes) return bfm_fail(BFM_NO_MEMORY, "%s: no memory for %zu bytes", path, (size_t)size);

  NewFile file;
  int status = BFM_OK;
  if (!png_image_write_to_memory(&image, bytes, &size, 0, rgb, 0, NULL)) {
    status = bfm_fail(BFM_IO, "%s: %s", path, image.message);
  }
  if (!status) status = newfile_open(&file, path);
  if (!status) status = newfile_write(&file, bytes, size);
  if (!status) status = newfile_commit(&file);
  free(bytes);
  return status;
}

int bfm_pictures(const char *name, int64_t count, const double *qpos, int columns, int width,
                 int height, const char *path) {
  if (count < 1 || columns < 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%lld pictures in %d columns", (long long)count, columns);
  }
  if (columns > count) columns = (int)count;
  int64_t rows = (count + columns - 1) / columns;
  if (columns * (int64_t)width > 65535 || rows * height > 65535) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%lld x %lld pixels are too many for a picture",
                    columns * (long long)width, (long long)rows * height);
  }

  const Domain *domain;
  World *world = NULL;
  Render *render = NULL;
  uint8_t *rgb = NULL;
  TRY(domain_find(&domain, name));
  int status = world_new(&world, domain);
  if (!status) status = render_new(&render, world, width, height);
  if (!status && !(rgb = calloc((size_t)rows * height, (size_t)columns * width * 3))) {
    status = bfm_fail(BFM_NO_MEMORY, "no memory for %lld pictures", (long long)count);
  }
  if (!status) {
    int64_t stride = 3 * (int64_t)columns * width;
    for (int64_t i = 0; i < count; i++) {
      uint8_t *corner = rgb + i / columns * height * stride + i % columns * width * 3;
      render_draw(render, qpos + i * world->model->nq, corner, stride);
    }
    status = render_write_png(path, rgb, columns * width, (int)(rows * height));
  }
  render_free(render);
  world_free(world);
  free(rgb);
  return status;
}
