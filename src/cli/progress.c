// The progress line: the rate is the mean since the start (or since the resume), which is what the
// time left follows from. Redrawn five times a second at most, and cut to the terminal's width.

#include "cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/units.h"

#define REDRAW_SECONDS 0.2
#define LINE_SIZE 512

void progress_text(const Progress *p, double now, const char *note, char *out, size_t size) {
  char done[32], total[32], rate[32], left[32];
  double elapsed = now - p->start;
  double per_second = elapsed > 0 ? (double)(p->done - p->start_done) / elapsed : 0;
  double share = p->total > 0 ? 100.0 * (double)p->done / (double)p->total : 100;
  double seconds = per_second > 0 ? (double)(p->total - p->done) / per_second : INFINITY;
  if (p->limit > 0) {
    share = fmax(share, fmin(100, 100 * elapsed / p->limit));
    seconds = fmin(seconds, fmax(0, p->limit - elapsed));
  }
  short_count((double)p->done, done, sizeof done);
  short_count((double)p->total, total, sizeof total);
  short_count(per_second, rate, sizeof rate);
  short_time(seconds, left, sizeof left);
  snprintf(out, size, "%s %3.0f%%  %s/%s %s  %s/s  %s left%s%s", p->what, floor(share), done, total,
           p->unit, rate, left, note && *note ? "  " : "", note ? note : "");
}

static void draw(Progress *p, double now, const char *line) {
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

static int is_due(const Progress *p, double now) {
  return p->active && now - p->last >= REDRAW_SECONDS;
}

void progress_update(Progress *p, int64_t done, const char *note) {
  p->done = done;
  double now = seconds_now();
  if (!is_due(p, now) && !(p->active && done >= p->total)) return;
  char line[LINE_SIZE];
  progress_text(p, now, note, line, sizeof line);
  draw(p, now, line);
}

void progress_show(Progress *p, const char *line) {
  double now = seconds_now();
  if (is_due(p, now)) draw(p, now, line);
}

void progress_end(Progress *p) {
  if (p->active && p->last > -INFINITY) fputc('\n', stderr);
  p->active = 0;
}

// A run has stages. The line of a stage that is complete stays, others are overwritten by the next
int progress_of_run(void *context, const bfm_progress *progress) {
  RunProgress *run = context;
  Progress *line = &run->line;
  if (!progress->total) return *run->stop != 0;
  if (!line->what) {
    progress_start(line, progress->stage, progress->unit, 0, 0, run->quiet);
  } else if (strcmp(line->what, progress->stage)) {
    if (line->active && line->done >= line->total) fputc('\n', stderr);
    line->last = -INFINITY;
  }
  line->what = progress->stage;
  line->unit = progress->unit;
  line->total = progress->total;
  line->start_done = progress->first;
  line->start = seconds_now() - progress->seconds;
  line->limit = progress->limit;
  progress_update(line, progress->done, progress->note);
  return *run->stop != 0;
}
