// Coverage of a dataset. If it has the states of a known robot, coverage is the number of cells of a
// coarse grid over a few quantities that a sample of its states visits. The index of a state's cell is
// computed as a reward expression. Otherwise, coverage is the mean entropy of the observation's columns.

#include "data/coverage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/bulk.h"
#include "envs/domain.h"

#define STATES 20000   // size of the sample, spread evenly over the rows
#define SIDE 1000      // cells along an axis on each side of 0
#define BIN_WIDTH 0.1  // of the histogram of an observation
#define BINS 2000

// A robot uses the first grid whose quantities it has. Cells have fixed sizes, so that datasets can be
// compared.
static const struct {
  const char *grid;  // the description that is printed
  struct {
    const char *quantity, *cell;
  } axes[3];
} grids[] = {
    {"a grid of torso.z 0.1 m x torso.zz 0.2 x speed 0.5 m/s",
     {{"torso.z", "0.1"}, {"torso.zz", "0.2"}, {"speed", "0.5"}}},
    {"a grid of tcp.x 0.05 m x tcp.y 0.05 m x tcp.z 0.05 m",
     {{"tcp.x", "0.05"}, {"tcp.y", "0.05"}, {"tcp.z", "0.05"}}},
    {"a grid of end_effector.x, .y and .z 0.05 m",
     {{"end_effector.x", "0.05"}, {"end_effector.y", "0.05"}, {"end_effector.z", "0.05"}}},
    {"a grid of tip_x 0.05 m x tip_z 0.05 m x qpos.0 0.2 rad",
     {{"tip_x", "0.05"}, {"tip_z", "0.05"}, {"qpos.0", "0.2"}}},
    {"a grid of upper_arm.zz 0.2 x lower_arm.zz 0.2 x elbow.v 2 rad/s",
     {{"upper_arm.zz", "0.2"}, {"lower_arm.zz", "0.2"}, {"elbow.v", "2"}}},
    {"a grid of fore_bent 0.1 x little_bent 0.1 x thumb.z 0.02 m",
     {{"fore_bent", "0.1"}, {"little_bent", "0.1"}, {"thumb.z", "0.02"}}},
    {"a grid of x 0.02 m x y 0.02 m", {{"x", "0.02"}, {"y", "0.02"}, {"0", "1"}}},
};
#define GRID_COUNT ((int)(sizeof grids / sizeof *grids))

static int64_t sample_size(const Dataset *data) {
  return data->count < STATES ? data->count : STATES;
}

static void put_number(const Dataset *data, cJSON *coverage, const char *name, double number,
                       const char *of) {
  cJSON_AddNumberToObject(coverage, name, number);
  cJSON_AddNumberToObject(coverage, "states", (double)sample_size(data));
  cJSON_AddStringToObject(coverage, "of", of);
}

// ---------------------------------- cells --------------------------------------------------------

static void cell_expression(int grid, char *out, size_t size) {
  size_t at = 0;
  for (int k = 0; k < 3; k++) {
    at += (size_t)snprintf(out + at, size - at, "%sclip(floor(%s / %s), %d, %d) * %.0f",
                           k ? " + " : "", grids[grid].axes[k].quantity, grids[grid].axes[k].cell,
                           -SIDE, SIDE, pow(2 * SIDE + 1, k));
  }
}

static double *gather(const Dataset *data, const double *rows, int64_t columns) {
  int64_t n = sample_size(data);
  double *out = malloc((size_t)(n * columns + 1) * sizeof *out);
  for (int64_t i = 0; i < n && columns && out; i++) {
    memcpy(out + i * columns, rows + dataset_sample_row(data, n, i) * columns,
           columns * sizeof *out);
  }
  return out;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Count the visited cells; *grid is the grid that was used. If the robot fits no grid, *cells is 0.
static int count_cells(const Dataset *data, const World *world, Threads *threads, int *grid,
                       int64_t *cells) {
  int64_t n = sample_size(data);
  double *qpos = gather(data, data->qpos, data->nq), *qvel = gather(data, data->qvel, data->nv);
  double *act = gather(data, data->activation, data->na), *out = malloc(n * sizeof *out);
  int missing = !qpos || !qvel || !act || !out;
  *cells = 0;
  for (*grid = 0; *grid < GRID_COUNT && !*cells && !missing; ++*grid) {
    char text[512];
    cell_expression(*grid, text, sizeof text);
    if (rewards_bulk(world->model, world->domain->aliases, text, n, qpos, qvel,
                     data->na ? act : NULL, threads, out)) {
      continue;
    }
    qsort(out, (size_t)n, sizeof *out, compare);
    for (int64_t i = 0; i < n; i++) *cells += i == 0 || out[i] != out[i - 1];
  }
  --*grid;
  free(qpos);
  free(qvel);
  free(act);
  free(out);
  return missing ? bfm_fail(BFM_NO_MEMORY, "out of memory for a sample of states") : BFM_OK;
}

static int add_cells(const Dataset *data, cJSON *coverage, int *done) {
  const Domain *domain;
  const World *world = NULL;
  Threads *threads = NULL;
  int grid = 0;
  int64_t cells = 0;
  *done = 0;
  if (!data->nq || domain_find(&domain, data->env)) return BFM_OK;
  TRY(world_acquire(&world, domain));
  int status = threads_new(&threads, 0);
  const mjModel *model = world->model;
  if (!status && data->nq == model->nq && data->nv == model->nv && data->na == model->na) {
    status = count_cells(data, world, threads, &grid, &cells);
  }
  if (cells) put_number(data, coverage, "cells", (double)cells, grids[grid].grid);
  *done = cells > 0;
  threads_free(threads);
  world_release(world);
  return status;
}

// ---------------------------------- entropy ------------------------------------------------------

// entropy of one column's histogram, in bits
static double column_bits(const Dataset *data, int64_t column) {
  int64_t counts[BINS] = {0}, n = sample_size(data);
  for (int64_t i = 0; i < n; i++) {
    double value = data->obs[dataset_sample_row(data, n, i) * data->obs_dim + column];
    counts[(int)fmin(fmax(floor(value / BIN_WIDTH) + BINS / 2.0, 0), BINS - 1)]++;
  }
  double bits = 0;
  for (int k = 0; k < BINS; k++) {
    double share = (double)counts[k] / (double)n;
    if (counts[k]) bits -= share * log2(share);
  }
  return bits;
}

static void add_bits(const Dataset *data, cJSON *coverage) {
  double bits = 0;
  for (int64_t k = 0; k < data->obs_dim; k++) bits += column_bits(data, k);
  bits = round(1e3 * bits / (double)data->obs_dim) / 1e3;
  put_number(data, coverage, "bits", bits,
             "a histogram of each observation in steps of 0.1, on average");
}

int coverage_info(const Dataset *data, cJSON *info) {
  int done;
  cJSON *coverage = cJSON_AddObjectToObject(info, "coverage");
  TRY(add_cells(data, coverage, &done));
  if (!done) add_bits(data, coverage);
  return BFM_OK;
}
