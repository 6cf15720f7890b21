// An OpenGL context without a window: EGL where a GPU offers one, else OSMesa, which needs none.
// Which of the two is decided once in a process, when the first context is asked for: MuJoCo looks
// up OpenGL's functions once. BFM_GL=egl or BFM_GL=osmesa decides it beforehand.

#ifndef BFM_RENDER_GL_H
#define BFM_RENDER_GL_H

#include "core/status.h"

typedef struct GlContext GlContext;

// a context, current in this thread; pictures of width × height are drawn in buffers of one's own
int gl_new(GlContext **context, int width, int height);
void gl_free(GlContext *context);

#endif
