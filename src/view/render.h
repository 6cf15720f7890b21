// Pictures of states, drawn by MuJoCo's renderer into memory on OSMesa: no window, no GPU. The
// library is looked for when the first picture is asked for. One Render at a time in a thread.

#ifndef BFM_VIEW_RENDER_H
#define BFM_VIEW_RENDER_H

#include <stdint.h>

#include "envs/domain.h"

typedef struct Render Render;

// pictures of width × height seen by the domain's camera; world must outlive it
int render_new(Render **render, const World *world, int width, int height);
void render_free(Render *render);

// draw the state at qpos into rows of rgb, `stride` bytes apart, from the top
void render_draw(Render *render, const double *qpos, uint8_t *rgb, int64_t stride);

// rgb [height, width, 3] as a PNG file
int render_write_png(const char *path, const uint8_t *rgb, int width, int height);

#endif
