// The caller of a long run: called ten times a second at most, in the thread that runs.

#include "core/monitor.h"

#include "core/units.h"

#define CALL_SECONDS 0.1

static void call(Monitor *m, double now, const char *note) {
  m->called = now;
  m->progress.seconds = now - m->start;
  m->progress.note = note ? note : "";
  if (m->call && m->call(m->context, &m->progress)) m->stopped = 1;
}

void monitor_limit(Monitor *m, double seconds) { m->limit = seconds; }

void monitor_begin(Monitor *m, const char *stage, const char *unit, int64_t done, int64_t total) {
  m->start = seconds_now();
  m->progress = (bfm_progress){.size = sizeof m->progress, .stage = stage, .unit = unit,
                               .first = done, .done = done, .total = total, .limit = m->limit};
  m->limit = 0;
  if (!m->stopped) call(m, m->start, NULL);
}

int monitor_update(Monitor *m, int64_t done, const char *note) {
  double now = seconds_now();
  m->progress.done = done;
  if (!m->stopped && now - m->called >= CALL_SECONDS) call(m, now, note);
  return m->stopped;
}

void monitor_end(Monitor *m, int64_t done, const char *note) {
  m->progress.done = done;
  if (!m->stopped) call(m, seconds_now(), note);
}
