// Plots by gnuplot, each as path.svg and path.png: curves with a band, one panel per task, and bars
// in groups. If gnuplot is not installed, the functions return BFM_UNAVAILABLE.

#ifndef BFM_RENDER_PLOT_H
#define BFM_RENDER_PLOT_H

#include "core/status.h"

typedef struct {
  const char *title;
  int count;
  const double *x, *y, *spread;  // [count]; y ± spread is the band
} PlotCurve;

typedef struct {
  const char *title;
  const PlotCurve *curves;
  int count;
} PlotPanel;

// removes a suffix .svg or .png from the path, because both are drawn in any case
int plot_stem(const char *path, char *stem, size_t size);

// path is without a suffix; the colours of the curves follow their order in a panel
int plot_curves(const PlotPanel *panels, int count, const char *x_label, const char *y_label,
                const char *path);

typedef struct {
  const char *title;
  int groups, bars;  // groups, and bars in each
  const char *const *group_names, *const *bar_names;
  const double *value, *spread;  // [groups, bars]; NaN: none
} PlotBars;

// every panel has the same bars, whose names are shown above the first
int plot_bars(const PlotBars *panels, int count, const char *y_label, const char *path);

// a row of plot_effects: an effect with its interval. value NaN: only the texts
typedef struct {
  const char *label, *note;  // left and right of the row
  double value, low, high;   // low and high NaN: no interval
  double band;               // a grey band ± band, for effects that should be small; 0: none
  const char *colour;        // such as "#1b5e9e"
  int heading, hollow;       // the label begins further left; the point is a ring
} PlotEffect;

// effects below each other, with a line at 0
int plot_effects(const PlotEffect *rows, int count, const char *x_label, const char *path);

#endif
