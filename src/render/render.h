// Pictures of states, drawn by MuJoCo's renderer into memory, without a window: on a GPU by EGL, on
// any CPU by OSMesa. One Render at a time in a thread, used by the thread that made it.

#ifndef BFM_RENDER_RENDER_H
#define BFM_RENDER_RENDER_H

#include <stdint.h>

#include "envs/domain.h"

typedef struct Render Render;

// pictures of width × height seen by the domain's camera; world must outlive it
int render_new(Render **render, const World *world, int width, int height);
void render_free(Render *render);

// draw the state at qpos into rows of rgb, `stride` bytes apart, from the top
int render_draw(Render *render, const double *qpos, uint8_t *rgb, int64_t stride);

// draw a plot in place of a state, all over the picture
int render_figure(Render *render, mjvFigure *figure, uint8_t *rgb, int64_t stride);

// rgb [height, width, 3] as a PNG file
int render_write_png(const char *path, const uint8_t *rgb, int width, int height);

#endif
