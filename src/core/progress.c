// The progress line: the rate is the mean since the start (or since the resume), which is what the
// time left follows from. Redrawn five times a second at most, and cut to the terminal's width.

#include "core/progress.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.2
#define LINE_SIZE 512

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void short_count(double count, char *out, size_t size) {
  static const struct {
    double from, unit;
    const char *suffix;
  } scales[] = {{999.5e6, 1e9, "G"}, {999.5e3, 1e6, "M"}, {9999.5, 1e3, "k"}, {-INFINITY, 1, ""}};
  int i = 0;
  while (count < scales[i].from) i++;
  double value = count / scales[i].unit;
  // whole numbers as they are, others to three digits, but never as 4.56e+03
  snprintf(out, size, "%.*g%s", value == floor(value) || value >= 999.5 ? 4 : 3, value,
           scales[i].suffix);
}

void short_time(double seconds, char *out, size_t size) {
  if (!(seconds < 1e9)) {
    snprintf(out, size, "?");
  } else if (seconds < 99.5) {
    snprintf(out, size, "%.0f s", seconds);
  } else if (seconds < 99.5 * 60) {
    snprintf(out, size, "%.0f min", seconds / 60);
  } else {
    long minutes = lround(seconds / 60);
    snprintf(out, size, "%ld h %ld min", minutes / 60, minutes % 60);
  }
}

void progress_text(const Progress *p, double now, const char *note, char *out, size_t size) {
  char done[32], total[32], rate[32], left[32];
  double elapsed = now - p->start;
  double per_second = elapsed > 0 ? (double)(p->done - p->start_done) / elapsed : 0;
  double share = p->total > 0 ? 100.0 * (double)p->done / (double)p->total : 100;
  short_count((double)p->done, done, sizeof done);
  short_count((double)p->total, total, sizeof total);
  short_count(per_second, rate, sizeof rate);
  short_time(per_second > 0 ? (double)(p->total - p->done) / per_second : INFINITY, left,
             sizeof left);
  snprintf(out, size, "%s %3.0f%%  %s/%s %s  %s/s  %s left%s%s", p->what, floor(share), done, total,
           p->unit, rate, left, note && *note ? "  " : "", note ? note : "");
}

static void draw(Progress *p, double now, const char *note) {
  char line[LINE_SIZE];
  progress_text(p, now, note, line, sizeof line);
  struct winsize window;
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) || !window.ws_col ? 80 : window.ws_col;
  fprintf(stderr, "\r%.*s\033[K", columns - 1, line);
  fflush(stderr);
  p->last = now;
}

void progress_start(Progress *p, const char *what, const char *unit, int64_t done, int64_t total,
                    int quiet) {
  *p = (Progress){.what = what, .unit = unit, .done = done, .start_done = done, .total = total};
  p->start = seconds_now();
  p->last = -INFINITY;
  p->active = !quiet && isatty(STDERR_FILENO);
}

void progress_update(Progress *p, int64_t done, const char *note) {
  p->done = done;
  if (!p->active) return;
  double now = seconds_now();
  if (now - p->last >= REDRAW_SECONDS || done >= p->total) draw(p, now, note);
}

void progress_end(Progress *p) {
  if (p->active && p->last > -INFINITY) fputc('\n', stderr);
  p->active = 0;
}
