// bfm sweep show: the results of a sweep as a table, as JSON, as a plot.

#ifndef BFM_CLI_SWEEP_SHOW_H
#define BFM_CLI_SWEEP_SHOW_H

// `values` are those of results_read; plot: the path of a plot, or NULL
int sweep_show(const char *folder, const char *values, const char *plot, int json);

#endif
