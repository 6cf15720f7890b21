// OpenGL without a window. Both libraries are loaded at run time, so that without them everything
// but pictures still works. The few functions and constants needed of them are declared here.

#include "render/gl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// ISO C has no conversion from object to function pointers, POSIX does
#define SYMBOL(library, function, name) (*(void **)&(function) = dlsym(library, name))

struct GlContext {
  void *context;
  void *buffer;  // OSMesa: the buffer that the context needs; pictures go to MuJoCo's own buffer
};

static void *open_library(const char *const *names, int flags) {
  void *library = NULL;
  for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | flags);
  return library;
}

// Whether this function is among the global symbols of the process. Of the libraries with global
// symbols, MuJoCo draws with the one that MUJOCO_GL names, else with EGL, else with OSMesa. So the
// chosen backend is loaded globally; it is the only one unless the program itself loads another.
static int visible(const char *function) {
  void *process = dlopen(NULL, RTLD_NOW);
  return process && dlsym(process, function);
}

// ---------------------------------- OSMesa -------------------------------------------------------

enum { OSMESA_RGBA = 0x1908, GL_UNSIGNED_BYTE = 0x1401 };

static struct {
  void *(*create)(unsigned format, int depth, int stencil, int accumulation, void *share);
  void (*destroy)(void *context);
  unsigned char (*make_current)(void *context, void *buffer, unsigned type, int width, int height);
} osmesa;

static const char *const osmesa_names[] = {"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so",
                                           NULL};

static int osmesa_load(void) {
  void *library = open_library(osmesa_names, RTLD_LOCAL);
  if (!library) return 0;
  SYMBOL(library, osmesa.create, "OSMesaCreateContextExt");
  SYMBOL(library, osmesa.destroy, "OSMesaDestroyContext");
  SYMBOL(library, osmesa.make_current, "OSMesaMakeCurrent");
  return osmesa.create && osmesa.destroy && osmesa.make_current;
}

static int osmesa_new(GlContext *gl, int width, int height) {
  gl->buffer = malloc((size_t)width * height * 4);
  gl->context = gl->buffer ? osmesa.create(OSMESA_RGBA, 24, 8, 0, NULL) : NULL;
  return gl->context &&
         osmesa.make_current(gl->context, gl->buffer, GL_UNSIGNED_BYTE, width, height);
}

static void osmesa_free(GlContext *gl) {
  if (gl->context) osmesa.destroy(gl->context);
}

// ---------------------------------- EGL ----------------------------------------------------------

enum {
  EGL_OPENGL_API = 0x30A2,
  EGL_PLATFORM_DEVICE = 0x313F,
  EGL_EXTENSIONS = 0x3055,
  EGL_SURFACE_TYPE = 0x3033,
  EGL_PBUFFER_BIT = 1,
  EGL_RENDERABLE_TYPE = 0x3040,
  EGL_OPENGL_BIT = 8,
  EGL_DEPTH_SIZE = 0x3025,
  EGL_STENCIL_SIZE = 0x3026,
  EGL_NONE = 0x3038,
  DEVICES = 16,
};

static struct {
  void *(*get)(const char *name);
  unsigned (*query_devices)(int most, void **devices, int *count);
  const char *(*device_string)(void *device, int name);
  void *(*platform_display)(unsigned platform, void *device, const int *attributes);
  unsigned (*initialize)(void *display, int *major, int *minor);
  unsigned (*choose_config)(void *display, const int *attributes, void **config, int size, int *n);
  unsigned (*bind_api)(unsigned api);
  void *(*create)(void *display, void *config, void *share, const int *attributes);
  unsigned (*destroy)(void *display, void *context);
  unsigned (*make_current)(void *display, void *draw, void *read, void *context);
  void *display, *config;
} egl;

static int egl_use(void *device) {
  static const int attributes[] = {EGL_SURFACE_TYPE,
                                   EGL_PBUFFER_BIT,
                                   EGL_RENDERABLE_TYPE,
                                   EGL_OPENGL_BIT,
                                   EGL_DEPTH_SIZE,
                                   24,
                                   EGL_STENCIL_SIZE,
                                   8,
                                   EGL_NONE};
  int count = 0;
  egl.display = egl.platform_display(EGL_PLATFORM_DEVICE, device, NULL);
  return egl.display && egl.initialize(egl.display, NULL, NULL) &&
         egl.choose_config(egl.display, attributes, &egl.config, 1, &count) && count &&
         egl.bind_api(EGL_OPENGL_API);
}

static const char *const egl_names[] = {"libEGL.so.1", "libEGL.so", NULL};

// Takes the first device that is a GPU. A software device is no better than OSMesa, so it is taken
// only if BFM_GL asks for EGL, or if MuJoCo would use EGL anyway.
static int egl_load(void) {
  const char *chosen = getenv("BFM_GL");
  int any = (chosen && !strcmp(chosen, "egl")) || visible("eglGetProcAddress"), count = 0;
  void *devices[DEVICES], *library = open_library(egl_names, RTLD_LOCAL);
  if (!library || !SYMBOL(library, egl.get, "eglGetProcAddress")) return 0;
  SYMBOL(library, egl.initialize, "eglInitialize");
  SYMBOL(library, egl.choose_config, "eglChooseConfig");
  SYMBOL(library, egl.bind_api, "eglBindAPI");
  SYMBOL(library, egl.create, "eglCreateContext");
  SYMBOL(library, egl.destroy, "eglDestroyContext");
  SYMBOL(library, egl.make_current, "eglMakeCurrent");
  *(void **)&egl.query_devices = egl.get("eglQueryDevicesEXT");
  *(void **)&egl.device_string = egl.get("eglQueryDeviceStringEXT");
  *(void **)&egl.platform_display = egl.get("eglGetPlatformDisplayEXT");
  if (!egl.initialize || !egl.choose_config || !egl.bind_api || !egl.create || !egl.destroy ||
      !egl.make_current || !egl.query_devices || !egl.device_string || !egl.platform_display ||
      !egl.query_devices(DEVICES, devices, &count)) {
    return 0;
  }
  for (int i = 0; i < count; i++) {
    const char *can = egl.device_string(devices[i], EGL_EXTENSIONS);
    int software = !can || strstr(can, "EGL_MESA_device_software");
    if ((any || !software) && egl_use(devices[i])) return 1;
  }
  return 0;
}

static int egl_new(GlContext *gl, int width, int height) {
  (void)width, (void)height;
  if (!egl.bind_api(EGL_OPENGL_API)) return 0;  // EGL keeps this setting per thread
  gl->context = egl.create(egl.display, egl.config, NULL, NULL);
  return gl->context && egl.make_current(egl.display, NULL, NULL, gl->context);
}

static void egl_free(GlContext *gl) {
  if (!gl->context) return;
  egl.make_current(egl.display, NULL, NULL, NULL);
  egl.destroy(egl.display, gl->context);
}

// ---------------------------------- choosing a library -------------------------------------------

typedef struct {
  const char *name;  // MuJoCo's name for it
  const char *const *libraries;
  int (*load)(void);
  int (*new)(GlContext *gl, int width, int height);
  void (*free)(GlContext *gl);
} Backend;

static const Backend backends[] = {
    {"egl", egl_names, egl_load, egl_new, egl_free},
    {"osmesa", osmesa_names, osmesa_load, osmesa_new, osmesa_free},
};

static const Backend *backend;
static int hidden;  // whether MuJoCo finds EGL before the backend

static void choose(void) {
  const char *chosen = getenv("BFM_GL");
  for (int i = 0; i < 2 && !backend; i++) {
    if (chosen && *chosen && strcmp(chosen, backends[i].name)) continue;
    if (backends[i].load()) backend = &backends[i];
  }
  if (!backend) return;
  const char *wanted = getenv("MUJOCO_GL");
  hidden = strcmp(backend->name, "egl") && visible("eglGetProcAddress") &&
           !(wanted && !strcmp(wanted, backend->name));
  open_library(backend->libraries, RTLD_GLOBAL);
}

int gl_new(GlContext **out, int width, int height) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, choose);
  *out = NULL;
  const char *chosen = getenv("BFM_GL");
  if (!backend && chosen && *chosen) {
    return bfm_fail(
        BFM_UNAVAILABLE,
        "BFM_GL is \"%.64s\", but must be osmesa (OSMesa, Debian: libosmesa6) or egl (EGL on a "
        "GPU), and that library must be installed",
        chosen);
  }
  if (!backend) {
    return bfm_fail(BFM_UNAVAILABLE,
                    "pictures need libOSMesa (Debian: libosmesa6) or EGL on a GPU, but neither is "
                    "installed: run make deps");
  }
  if (hidden) {
    return bfm_fail(BFM_UNAVAILABLE,
                    "this program has loaded EGL, so MuJoCo cannot draw with %s: start it with "
                    "MUJOCO_GL=%s or with BFM_GL=egl",
                    backend->name, backend->name);
  }
  GlContext *gl = calloc(1, sizeof *gl);
  if (!gl) return bfm_fail(BFM_NO_MEMORY, "out of memory for a picture");
  if (!backend->new (gl, width, height)) {
    gl_free(gl);
    return bfm_fail(BFM_UNAVAILABLE, "%s cannot draw %d x %d pixels", backend->name, width, height);
  }
  *out = gl;
  return BFM_OK;
}

void gl_free(GlContext *gl) {
  if (!gl) return;
  backend->free(gl);
  free(gl->buffer);
  free(gl);
}
