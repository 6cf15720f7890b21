// Pictures of states, drawn by MuJoCo's renderer into memory without a window: by EGL on a GPU, by
// OSMesa on a CPU. A thread may have one Render at a time; only that thread may use it.

#ifndef BFM_RENDER_RENDER_H
#define BFM_RENDER_RENDER_H

#include <stdint.h>

#include "envs/domain.h"

typedef struct Render Render;

// pictures of width × height, seen by the domain's camera; world must outlive the Render
int render_new(Render **render, const World *world, int width, int height);
void render_free(Render *render);

// draws the state at qpos into rows of rgb, `stride` bytes apart, from the top
int render_draw(Render *render, const double *qpos, uint8_t *rgb, int64_t stride);

// draws a plot instead of a state, over the whole picture
int render_figure(Render *render, mjvFigure *figure, uint8_t *rgb, int64_t stride);

// writes rgb [height, width, 3] as a PNG file
int render_write_png(const char *path, const uint8_t *rgb, int width, int height);

#endif
