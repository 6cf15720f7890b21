// Films of an episode: a strip of pictures (PNG), or a film (mp4, by ffmpeg), with the reward over
// time below.

#ifndef BFM_VIEW_FILM_H
#define BFM_VIEW_FILM_H

#include "envs/domain.h"

typedef struct {
  const World *world;
  int64_t count;          // states
  const double *qpos;     // [count, nq]
  const double *rewards;  // [count], or NULL: no plot
  const char *title;      // of the plot
  double dt;              // seconds between states
  int width, height;      // of a picture
  // called after every picture; not 0: stop, BFM_INTERRUPTED, and no file is left
  int (*each)(void *context, int64_t done, int64_t total);
  void *context;
} Film;

// whether it can be drawn here, as a strip of so many pictures or, 0, as a film: of count states that
// need not be there yet
int film_check(const Film *film, int pictures);

// so many pictures side by side
int film_strip(const Film *film, int pictures, const char *path);

// at the speed of life, 30 pictures a second at most
int film_mp4(const Film *film, const char *path);

#endif
