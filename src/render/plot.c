// Plots. bfm writes a script with its numbers beside the pictures. gnuplot reads it and draws both
// files under temporary names, which are then renamed. No shell is involved.

#define _GNU_SOURCE  // memmem
#include "render/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/files.h"
#include "core/units.h"

extern char **environ;

static const struct {
  const char *terminal, *suffix;
  const char *end;  // occurs among the last bytes of a complete picture
} pictures[] = {{"svg noenhanced background 'white'", "svg", "</svg>"},
                {"pngcairo noenhanced", "png", "IEND"}};

// writes a string of gnuplot, in which quotes are doubled
static void put_text(FILE *out, const char *text) {
  fputc('\'', out);
  for (; *text; text++) {
    if (*text == '\'') fputc('\'', out);
    if (*text != '\n') fputc(*text, out);
  }
  fputc('\'', out);
}

static void put_number(FILE *out, double x) {
  if (isfinite(x)) fprintf(out, " %.9g", x);
  else fputs(" NaN", out);
}

// ---------------------------------- running gnuplot ----------------------------------------------

typedef struct {
  OutputFile script, pictures[2];
  FILE *out;  // the script
} Plot;

int plot_stem(const char *path, char *stem, size_t size) {
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot + 1, pictures[i].suffix)) length = (size_t)(dot - path);
  }
  if (!length || length >= size) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the plot's file name has %zu characters: use 1 to %zu",
                    length, size - 1);
  }
  snprintf(stem, size, "%.*s", (int)length, path);
  return BFM_OK;
}

static void plot_abandon(Plot *p) {
  for (int i = 0; i < 2; i++) output_discard(&p->pictures[i]);
  output_discard(&p->script);
}

static int plot_open(Plot *p, const char *path) {
  OutputFile *files[] = {&p->pictures[0], &p->pictures[1], &p->script};
  static const char *const suffixes[] = {"svg", "png", "gnuplot"};
  *p = (Plot){.script.fd = -1, .pictures = {{.fd = -1}, {.fd = -1}}};
  int status = BFM_OK;
  for (int i = 0; i < 3 && !status; i++) {
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s.%s", path, suffixes[i]);
    status = output_open(files[i], name);
  }
  if (!status) p->out = fopen(p->script.temporary, "w");
  if (p->out) return BFM_OK;
  if (!status) status = bfm_fail(BFM_IO, "cannot write %s: %s", p->script.path, strerror(errno));
  plot_abandon(p);
  return status;
}

static int draw(const Plot *p) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions))
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a plot");
  for (int fd = 0; fd < 3; fd++) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
  }
  char *const argv[] = {(char[]){"gnuplot"}, (char *)p->script.temporary, NULL};
  pid_t child;
  int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return bfm_fail(BFM_UNAVAILABLE,
                    "cannot draw %s: gnuplot is not installed (Debian: gnuplot-nox)",
                    p->pictures[0].path);
  }
  if (error) return bfm_fail(BFM_UNAVAILABLE, "cannot start gnuplot: %s", strerror(error));
  int result;
  while (waitpid(child, &result, 0) < 0) {
    if (errno != EINTR) return bfm_fail(BFM_IO, "cannot wait for gnuplot: %s", strerror(errno));
  }
  if (!result) return BFM_OK;
  return bfm_fail(BFM_UNAVAILABLE, "gnuplot failed to draw %s, with status %d", p->pictures[0].path,
                  WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result));
}

// checks that a picture is complete, because gnuplot does not report a full disk
static int check_end(const OutputFile *picture, const char *end) {
  char last[16];
  int fd = open(picture->temporary, O_RDONLY | O_CLOEXEC);
  off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END), at = size > 16 ? size - 16 : 0;
  ssize_t n = fd < 0 ? 0 : pread(fd, last, sizeof last, at);
  if (fd >= 0) close(fd);
  if (n > 0 && memmem(last, (size_t)n, end, strlen(end))) return BFM_OK;
  return bfm_fail(BFM_IO, "cannot write %s: gnuplot left an incomplete file; is the disk full?",
                  picture->path);
}

static int plot_close(Plot *p) {
  int bad = ferror(p->out);
  bad |= fclose(p->out);
  int status =
      bad ? bfm_fail(BFM_IO, "cannot write %s: %s", p->script.path, strerror(errno)) : draw(p);
  for (int i = 0; i < 2 && !status; i++) status = check_end(&p->pictures[i], pictures[i].end);
  for (int i = 0; i < 2 && !status; i++) status = output_commit(&p->pictures[i]);
  plot_abandon(p);
  return status;
}

// draws both pictures: the same panels in a grid
static int for_each_picture(Plot *p, int panels, int width, int height, const void *context,
                            void (*put_panel)(FILE *out, const void *context, int panel)) {
  int columns = (int)ceil(sqrt(panels)), rows = (panels + columns - 1) / columns;
  for (int i = 0; i < 2; i++) {
    fprintf(p->out, "set terminal %s size %d,%d\nset output ", pictures[i].terminal,
            columns * width, rows * height + 20);
    put_text(p->out, p->pictures[i].temporary);
    fprintf(p->out, "\nset multiplot layout %d,%d title ' '\n", rows, columns);
    for (int k = 0; k < panels; k++) put_panel(p->out, context, k);
    fputs("unset multiplot\nunset output\n", p->out);
  }
  return plot_close(p);
}

// ---------------------------------- curves -------------------------------------------------------

static void put_curve_data(FILE *out, const PlotCurve *curve, int panel, int index) {
  fprintf(out, "$c%d_%d << EOD\n", panel, index);
  for (int i = 0; i < curve->count; i++) {
    put_number(out, curve->x[i]);
    put_number(out, curve->y[i]);
    put_number(out, curve->y[i] - curve->spread[i]);
    put_number(out, curve->y[i] + curve->spread[i]);
    fputc('\n', out);
  }
  fputs("EOD\n", out);
}

// at most five marks on an axis from 0 to the largest x; gnuplot itself would label 1.5k as 2k
static void put_marks(FILE *out, const PlotPanel *p) {
  double most = 0;
  for (int i = 0; i < p->count; i++) {
    for (int k = 0; k < p->curves[i].count; k++) most = fmax(most, p->curves[i].x[k]);
  }
  double step = most > 0 ? pow(10, floor(log10(most / 5))) : 1;
  while (most / step > 5) step *= most / step > 10 ? 5 : 2;
  fputs("set xtics ('0' 0", out);
  for (int i = 1; (i - 1) * step < most; i++) {
    char label[32];
    short_count(i * step, label, sizeof label);
    fprintf(out, ", '%s' %.9g", label, i * step);
  }
  fputs(")\n", out);
}

// whether a band goes below 0, where axes begin otherwise
static int goes_below(const PlotPanel *p) {
  for (int i = 0; i < p->count; i++) {
    const PlotCurve *c = &p->curves[i];
    for (int k = 0; k < c->count; k++) {
      if (c->y[k] - c->spread[k] < 0) return 1;
    }
  }
  return 0;
}

// the last panel shows the names of the curves, which are the same in all panels
static void put_names_panel(FILE *out, const PlotPanel *p) {
  fputs(
      "unset title\nunset xlabel\nunset ylabel\nunset border\nunset tics\nset key on center "
      "center\n"
      "set yrange [0:1]\nplot",
      out);
  const char *comma = "";
  for (int i = 0; i < p->count; i++) {
    fprintf(out, "%s NaN with linespoints lt %d pt 7 ps 0.4 title ", comma, i + 1);
    put_text(out, p->curves[i].title);
    comma = ",";
  }
  fputs(*comma ? "\n" : " NaN notitle\n", out);
}

typedef struct {
  const PlotPanel *panels;
  int count;
  const char *x_label, *y_label;
} Curves;

static void put_curve_panel(FILE *out, const void *context, int panel) {
  const Curves *curves = context;
  if (panel == curves->count) {
    put_names_panel(out, curves->panels);
    return;
  }
  const PlotPanel *p = &curves->panels[panel];
  if (!panel) {
    fputs("set border\nset key off\nset xlabel ", out);
    put_text(out, curves->x_label);
    fputs("\nset ylabel ", out);
    put_text(out, curves->y_label);
    fputc('\n', out);
  }
  fputs("set title ", out);
  put_text(out, p->title);
  fprintf(out, "\nset ytics\nset yrange [%s:*]\n", goes_below(p) ? "*" : "0");
  put_marks(out, p);
  fputs("plot", out);
  const char *comma = "";
  for (int i = 0; i < p->count; i++) {
    if (!p->curves[i].count) continue;
    fprintf(out, "%s $c%d_%d using 1:3:4 with filledcurves lt %d fs transparent solid 0.2 notitle,",
            comma, panel, i, i + 1);
    fprintf(out, " $c%d_%d using 1:2 with linespoints lt %d pt 7 ps 0.4 title ", panel, i, i + 1);
    put_text(out, p->curves[i].title);
    comma = ",";
  }
  fputs(*comma ? "\n" : " NaN notitle\n", out);
}

int plot_curves(const PlotPanel *panels, int count, const char *x_label, const char *y_label,
                const char *path) {
  Plot p;
  TRY(plot_open(&p, path));
  fputs("set grid\nset xrange [0:*]\n", p.out);
  for (int k = 0; k < count; k++) {
    for (int i = 0; i < panels[k].count; i++) put_curve_data(p.out, &panels[k].curves[i], k, i);
  }
  const Curves curves = {panels, count, x_label, y_label};
  return for_each_picture(&p, count + (count > 0), 360, 270, &curves, put_curve_panel);
}

// ---------------------------------- bars ---------------------------------------------------------

#define GROUP_WIDTH 100
#define NAME_LENGTH 10  // letters of a name that fit below a group; longer names get more lines

// in pairs of one hue, for bars that are compared with each other
static const char *const colours[] = {"#1b5e9e", "#a9cbe8", "#c25b00", "#f3c79a"};
#define COLOURS ((int)(sizeof colours / sizeof *colours))

// writes a name in double quotes, wrapped at NAME_LENGTH letters; returns the number of lines
static int put_name(FILE *out, const char *name) {
  int column = 0, lines = 1;
  fputc('"', out);
  while (*name) {
    int word = (int)strcspn(name, " \n");
    int fits = !column || column + 1 + word <= NAME_LENGTH;
    if (column) fputs(fits ? " " : "\\n", out);
    lines += !fits;
    column = fits && column ? column + 1 + word : word;
    for (int i = 0; i < word; i++) fputc(name[i] == '"' ? '\'' : name[i], out);
    name += word;
    if (*name == '\n') column = NAME_LENGTH;
    name += *name != 0;
  }
  fputc('"', out);
  return lines;
}

// whether a bar is negative
static int hangs_below(const PlotBars *panels, int count) {
  for (int k = 0; k < count; k++) {
    for (int i = 0; i < panels[k].groups * panels[k].bars; i++) {
      if (panels[k].value[i] < 0) return 1;
    }
  }
  return 0;
}

// returns the number of lines of the longest name
static int put_bars_data(FILE *out, const PlotBars *b, int panel) {
  int most = 1;
  fprintf(out, "$b%d << EOD\n", panel);
  for (int g = 0; g < b->groups; g++) {
    int lines = put_name(out, b->group_names[g]);
    most = lines > most ? lines : most;
    for (int i = 0; i < b->bars; i++) {
      put_number(out, b->value[g * b->bars + i]);
      double spread = b->spread[g * b->bars + i];
      put_number(out, isfinite(spread) ? spread : 0);
    }
    fputc('\n', out);
  }
  fputs("EOD\n", out);
  return most;
}

typedef struct {
  const PlotBars *panels;
  int count;
} Bars;

// whether bar i has a value in any group; gnuplot refuses a column without values
static int has_bar(const PlotBars *b, int i) {
  int any = 0;
  for (int g = 0; g < b->groups; g++) any |= isfinite(b->value[g * b->bars + i]);
  return any;
}

// the names of the bars go above the first panel, also of bars that only other panels have
static void put_key(FILE *out, const Bars *bars) {
  for (int i = 0; i < bars->panels->bars; i++) {
    int any = 0;
    for (int k = 0; k < bars->count; k++) any |= has_bar(&bars->panels[k], i);
    if (!any) continue;
    fprintf(out, ", NaN with boxes lt rgb '%s' title ", colours[i % COLOURS]);
    put_text(out, bars->panels->bar_names[i]);
  }
}

static void put_bars_panel(FILE *out, const void *context, int panel) {
  const Bars *bars = context;
  const PlotBars *b = &bars->panels[panel];
  fputs("set title ", out);
  put_text(out, b->title);
  fprintf(out, "\nset key %s\nplot",
          panel ? "off" : "on at screen 0.5,0.995 center top horizontal");
  const char *comma = "";
  for (int i = 0; i < b->bars; i++) {
    if (!has_bar(b, i)) continue;
    fprintf(out, "%s $b%d using %d:%d:xtic(1) lt rgb '%s' notitle", comma, panel, 2 + 2 * i,
            3 + 2 * i, colours[i % COLOURS]);
    comma = ",";
  }
  if (!*comma) fputs(" NaN notitle", out);
  if (!panel) put_key(out, bars);
  fputc('\n', out);
}

int plot_bars(const PlotBars *panels, int count, const char *y_label, const char *path) {
  Plot p;
  TRY(plot_open(&p, path));
  fprintf(p.out,
          "set grid y\nset style data histograms\nset style histogram errorbars gap 1 lw 1\n"
          "set style fill solid border -1\nset yrange [%s:*]\nset ylabel ",
          hangs_below(panels, count) ? "*" : "0");
  put_text(p.out, y_label);
  fputc('\n', p.out);
  int lines = 1, groups = 1;
  for (int k = 0; k < count; k++) {
    int more = put_bars_data(p.out, &panels[k], k);
    lines = more > lines ? more : lines;
    groups = panels[k].groups > groups ? panels[k].groups : groups;
  }
  fprintf(p.out, "set bmargin %g\n", lines + 1.5);
  const Bars bars = {panels, count};
  return for_each_picture(&p, count, (groups + 2) * GROUP_WIDTH, 320, &bars, put_bars_panel);
}

// ---------------------------------- effects ------------------------------------------------------

#define EFFECT_HEIGHT 21  // pixels of a row

typedef struct {
  const PlotEffect *rows;
  int count;
  const char *x_label;
} Effects;

// a text in the margin, in the height of row i
static void put_margin_text(FILE *out, const Effects *e, int i, const char *text, double x,
                            const char *colour) {
  fputs("set label ", out);
  put_text(out, text);
  fprintf(out, " at screen %g, first %d left tc rgb '%s'\n", x, e->count - i, colour);
}

static void put_effect(FILE *out, const Effects *e, int i) {
  const PlotEffect *row = &e->rows[i];
  double y = e->count - i, bottom = y - 0.5, top = y + 0.5;
  put_margin_text(out, e, i, row->label, row->heading ? 0.01 : 0.025, "black");
  put_margin_text(out, e, i, row->note, 0.87, row->colour);
  if (!row->band) return;
  fprintf(out,
          "set object rectangle from %.9g, %g to %.9g, %g fs solid noborder fc rgb '%s' behind\n",
          -row->band, bottom, row->band, top, "#dddddd");
}

static void put_effects_panel(FILE *out, const void *context, int panel) {
  const Effects *e = context;
  (void)panel;
  fputs("unset label\nunset object\n", out);
  for (int i = 0; i < e->count; i++) put_effect(out, e, i);
  fputs("plot", out);
  for (int i = 0; i < e->count; i++) {
    const PlotEffect *row = &e->rows[i];
    if (!isfinite(row->value)) continue;
    fprintf(out,
            " $e using 1:($0 == %d ? $4 : NaN):2:3 with xerrorbars lw 2 pt %d ps 1.1 lc rgb '%s',",
            i, row->hollow ? 6 : 7, row->colour);
  }
  fputs(" NaN\n", out);
}

int plot_effects(const PlotEffect *rows, int count, const char *x_label, const char *path) {
  Plot p;
  TRY(plot_open(&p, path));
  const Effects effects = {rows, count, x_label};
  fputs("$e << EOD\n", p.out);
  for (int i = 0; i < count; i++) {
    const PlotEffect *row = &rows[i];
    int has_interval = isfinite(row->low) && isfinite(row->high);
    put_number(p.out, row->value);
    put_number(p.out, has_interval ? row->low : row->value);
    put_number(p.out, has_interval ? row->high : row->value);
    fprintf(p.out, " %d\n", count - i);
  }
  fprintf(p.out,
          "EOD\nset lmargin at screen 0.51\nset rmargin at screen 0.86\nset key off\n"
          "set yrange [0.4:%g]\nunset ytics\nset border 1\nset xtics nomirror\n"
          "set grid x\nset arrow from 0, graph 0 to 0, graph 1 nohead lw 1.5 lc rgb 'black' back\n"
          "set offsets graph 0.03, graph 0.03, 0, 0\nset xlabel ",
          count + 0.6);
  put_text(p.out, x_label);
  fputc('\n', p.out);
  return for_each_picture(&p, 1, 1240, EFFECT_HEIGHT * count + 60, &effects, put_effects_panel);
}
