// Films. The plot of the reward is drawn once, also by MuJoCo's renderer; each picture then gets a
// vertical line at its time. Raw pictures go to ffmpeg through a socket: unlike a pipe, it raises no
// signal if ffmpeg ends early.

#define _GNU_SOURCE
#include "view/film.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/files.h"
#include "render/render.h"

#define MOST_RATE 30.0  // pictures per second
#define PLOT_HEIGHT 160

extern char **environ;

// ---------------------------------- the plot -----------------------------------------------------

typedef struct {
  uint8_t *rgb;  // [height, width, 3]
  int width, height;
  int left, right;  // pixel columns of the first and the last state
} Plot;

// Draw the rewards as a line. If there are more than a figure holds, draw every second, third, …
static void fill_figure(mjvFigure *figure, const Film *film) {
  mjv_defaultFigure(figure);
  double lo = 0, hi = 1;
  int64_t stride = (film->count + mjMAXLINEPNT - 1) / mjMAXLINEPNT;
  int n = 0;
  for (int64_t i = 0; i < film->count; i++) {
    lo = fmin(lo, film->rewards[i]);
    hi = fmax(hi, film->rewards[i]);
    if (i % stride) continue;
    figure->linedata[0][2 * n] = (float)((double)i * film->dt);
    figure->linedata[0][2 * n++ + 1] = (float)film->rewards[i];
  }
  figure->linepnt[0] = n;
  figure->linewidth = 2;
  figure->flg_ticklabel[0] = figure->flg_ticklabel[1] = 1;
  figure->gridsize[0] = 6;
  figure->gridsize[1] = 3;
  double seconds = (double)(film->count - 1) * film->dt;
  figure->range[0][1] = (float)seconds;
  // tick marks are at fifths of the range; in a short film they would be wrong in whole seconds
  snprintf(figure->xformat, sizeof figure->xformat, seconds < 20 ? "%%.1f" : "%%.0f");
  figure->range[1][0] = (float)lo;
  figure->range[1][1] = (float)hi;
  static const float ink[3] = {0.15f, 0.15f, 0.15f}, grid[3] = {0.8f, 0.8f, 0.8f},
                     line[3] = {0.1f, 0.35f, 0.75f};
  memcpy(figure->textrgb, ink, sizeof ink);
  memcpy(figure->gridrgb, grid, sizeof grid);
  memcpy(figure->linergb[0], line, sizeof line);
  for (int i = 0; i < 4; i++) figure->figurergba[i] = figure->panergba[i] = 1;
  snprintf(figure->title, sizeof figure->title, "%.200s", film->title);
  snprintf(figure->xlabel, sizeof figure->xlabel, "seconds");
}

static int plot_draw(Plot *plot, const Film *film, int width, int height) {
  *plot = (Plot){.width = width, .height = height};
  plot->rgb = malloc((size_t)width * height * 3);
  mjvFigure *figure = malloc(sizeof *figure);
  Render *render = NULL;
  int status = plot->rgb && figure ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for a plot");
  if (!status) status = render_new(&render, film->world, width, height);
  if (!status) {
    fill_figure(figure, film);
    status = render_figure(render, figure, plot->rgb, 3 * (int64_t)width);
    plot->left = figure->xaxispixel[0];
    plot->right = figure->xaxispixel[1];
  }
  render_free(render);
  free(figure);
  return status;
}

// draw a vertical line at state i into a plot whose rows have `stride` bytes
static void mark(const Plot *plot, const Film *film, int64_t i, uint8_t *rgb, int64_t stride) {
  double share = film->count > 1 ? (double)i / (double)(film->count - 1) : 0;
  int x = plot->left + (int)lround(share * (plot->right - plot->left));
  if (x < 0 || x >= plot->width) return;
  for (int y = 0; y < plot->height; y++) memcpy(rgb + y * stride + 3 * x, "\xe0\x40\x30", 3);
}

static int report(const Film *film, int64_t done, int64_t total) {
  if (!film->each || !film->each(film->context, done, total)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED, "stopped after %ld of %ld pictures", (long)done, (long)total);
}

// ---------------------------------- a strip ------------------------------------------------------

static int draw_strip(const Film *film, int pictures, uint8_t *rgb, int64_t stride,
                      int64_t *chosen) {
  Render *render;
  TRY(render_new(&render, film->world, film->width, film->height));
  int status = BFM_OK;
  for (int k = 0; k < pictures && !status; k++) {
    chosen[k] = pictures > 1 ? k * (film->count - 1) / (pictures - 1) : film->count - 1;
    status = render_draw(render, film->qpos + chosen[k] * film->world->model->nq,
                         rgb + 3 * (int64_t)k * film->width, stride);
    if (!status) status = report(film, k + 1, pictures);
  }
  render_free(render);
  return status;
}

static int check_strip(const Film *film, int *pictures) {
  if (*pictures > film->count) *pictures = (int)film->count;
  if (*pictures > 0 && *pictures * film->width <= 8192) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%d pictures of %d pixels do not fit into the 8192 pixels of a strip", *pictures,
                  film->width);
}

int film_check(const Film *film, int pictures) {
  Render *render;
  if (pictures) TRY(check_strip(film, &pictures));
  TRY(render_new(&render, film->world, film->width, film->height));
  render_free(render);
  return BFM_OK;
}

int film_strip(const Film *film, int pictures, const char *path) {
  TRY(check_strip(film, &pictures));
  int width = pictures * film->width, below = film->rewards ? PLOT_HEIGHT : 0;
  int64_t stride = 3L * width, chosen[512];
  uint8_t *rgb = calloc((size_t)film->height + below, stride);
  Plot plot = {.rgb = NULL};
  int status = rgb ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d pictures", pictures);
  if (!status) status = draw_strip(film, pictures, rgb, stride, chosen);
  if (!status && below) {
    status = plot_draw(&plot, film, width, below);
    for (int k = 0; k < pictures && !status; k++) mark(&plot, film, chosen[k], plot.rgb, stride);
    if (!status) memcpy(rgb + film->height * stride, plot.rgb, (size_t)(below * stride));
  }
  if (!status) status = render_write_png(path, rgb, width, film->height + below);
  free(plot.rgb);
  free(rgb);
  return status;
}

// ---------------------------------- a film -------------------------------------------------------

typedef struct {
  pid_t process;
  int socket;
} Ffmpeg;

static int ffmpeg_start(Ffmpeg *ffmpeg, int width, int height, double rate, const char *path) {
  char size[32], speed[32], output[PATH_MAX + 8];
  int ends[2];
  snprintf(size, sizeof size, "%dx%d", width, height);
  snprintf(speed, sizeof speed, "%.6g", rate);
  snprintf(output, sizeof output, "file:%s", path);  // a name may have a colon, or begin with -
  // without -xerror, ffmpeg truncates the film on a full disk and reports success
  const char *const arguments[] = {"ffmpeg",  "-y",        "-loglevel",  "error", "-xerror",
                                   "-f",      "rawvideo",  "-pix_fmt",   "rgb24", "-s",
                                   size,      "-r",        speed,        "-i",    "pipe:0",
                                   "-c:v",    "libx264",   "-crf",       "22",    "-pix_fmt",
                                   "yuv420p", "-movflags", "+faststart", "-f",    "mp4",
                                   output,    NULL};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
    return bfm_fail(BFM_IO, "cannot start ffmpeg: %s", strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  // a process group of its own, so that Ctrl-C reaches bfm alone
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int error = posix_spawnp(&ffmpeg->process, "ffmpeg", &actions, &attributes,
                           (char *const *)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[0]);
  ffmpeg->socket = ends[1];
  if (!error) return BFM_OK;
  close(ends[1]);
  if (error == ENOENT) {
    return bfm_fail(
        BFM_UNAVAILABLE,
        "films need ffmpeg, which is not installed (Debian: apt install ffmpeg); a strip of "
        "pictures (-o strip.png) does not need it");
  }
  return bfm_fail(BFM_UNAVAILABLE, "cannot start ffmpeg: %s", strerror(error));
}

static int ffmpeg_write(const Ffmpeg *ffmpeg, const uint8_t *bytes, size_t size) {
  while (size) {
    ssize_t n = send(ffmpeg->socket, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bfm_fail(BFM_IO, "cannot send pictures to ffmpeg: %s", strerror(errno));
    bytes += n;
    size -= (size_t)n;
  }
  return BFM_OK;
}

static int ffmpeg_end(const Ffmpeg *ffmpeg) {
  int result = 0;
  close(ffmpeg->socket);
  while (waitpid(ffmpeg->process, &result, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(result) && WEXITSTATUS(result) == 0) return BFM_OK;
  return bfm_fail(
      BFM_IO, "ffmpeg failed with status %d: is the disk full, or was it built without libx264?",
      WIFEXITED(result) ? WEXITSTATUS(result) : result);
}

// draw every `every`th state and send the pictures to ffmpeg
static int send_pictures(const Film *film, const Plot *plot, int64_t every, const Ffmpeg *ffmpeg) {
  int64_t stride = 3 * (int64_t)film->width, total = (film->count + every - 1) / every;
  size_t below = (size_t)(plot->height * stride), bytes = (size_t)(film->height * stride) + below;
  uint8_t *rgb = malloc(bytes);
  if (!rgb) return bfm_fail(BFM_NO_MEMORY, "out of memory for a picture");
  Render *render = NULL;
  int status = render_new(&render, film->world, film->width, film->height);
  for (int64_t k = 0; k < total && !status; k++) {
    int64_t i = k * every;
    uint8_t *under = rgb + film->height * stride;
    status = render_draw(render, film->qpos + i * film->world->model->nq, rgb, stride);
    if (status) break;
    if (below) {
      memcpy(under, plot->rgb, below);
      mark(plot, film, i, under, stride);
    }
    status = ffmpeg_write(ffmpeg, rgb, bytes);
    if (!status) status = report(film, k + 1, total);
  }
  render_free(render);
  free(rgb);
  return status;
}

static int encode(const Film *film, const Plot *plot, const char *path) {
  int64_t every = (int64_t)ceil(1 / (film->dt * MOST_RATE) - 1e-9);
  Ffmpeg ffmpeg;
  TRY(ffmpeg_start(&ffmpeg, film->width, film->height + plot->height, 1 / (film->dt * every),
                   path));
  int status = send_pictures(film, plot, every, &ffmpeg);
  int end = ffmpeg_end(&ffmpeg);
  return status ? status : end;
}

int film_mp4(const Film *film, const char *path) {
  Film even = *film;  // the codec requires even sizes
  even.width += even.width % 2;
  even.height += even.height % 2;
  Plot plot = {.rgb = NULL};
  OutputFile file;
  int status = BFM_OK;
  if (film->rewards) status = plot_draw(&plot, &even, even.width, PLOT_HEIGHT);
  if (!status) status = output_open(&file, path);
  if (!status) {
    status = encode(&even, &plot, file.temporary);
    if (status) output_discard(&file);
    else status = output_commit(&file);
  }
  free(plot.rgb);
  return status;
}
