// An OpenGL context without a window: by EGL if there is a GPU, else by OSMesa, which draws on the
// CPU. The choice is made once per process, when the first context is created, because MuJoCo looks
// up OpenGL's functions only once. BFM_GL=egl or BFM_GL=osmesa overrides it.

#ifndef BFM_RENDER_GL_H
#define BFM_RENDER_GL_H

#include "core/status.h"

typedef struct GlContext GlContext;

// Creates a context and makes it current in this thread. Pictures of width × height need a buffer
// beside the context's own.
int gl_new(GlContext **context, int width, int height);
void gl_free(GlContext *context);

#endif
