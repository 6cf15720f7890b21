// Films of an episode: a strip of pictures (PNG) or a film (mp4, encoded by ffmpeg), with a plot of the
// reward over time below.

#ifndef BFM_VIEW_FILM_H
#define BFM_VIEW_FILM_H

#include "envs/domain.h"

typedef struct {
  const World *world;
  int64_t count;          // number of states
  const double *qpos;     // [count, nq]
  const double *rewards;  // [count], NULL: no plot
  const char *title;      // of the plot
  double dt;              // seconds between states
  int width, height;      // of one picture, in pixels
  // Called after every picture. If it does not return 0, drawing stops with BFM_INTERRUPTED and leaves
  // no file.
  int (*each)(void *context, int64_t done, int64_t total);
  void *context;
} Film;

// Check that a strip of so many pictures, or with pictures 0 a film, can be drawn on this machine. The
// sizes and the count must be set; the arrays are not read.
int film_check(const Film *film, int pictures);

// Draw so many pictures side by side into a PNG file.
int film_strip(const Film *film, int pictures, const char *path);

// Write a film in real time, with at most 30 pictures per second.
int film_mp4(const Film *film, const char *path);

#endif
