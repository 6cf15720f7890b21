// How much of the world a dataset has seen, as one number that two datasets can be compared by.

#ifndef BFM_CLI_COVERAGE_H
#define BFM_CLI_COVERAGE_H

#include <cjson/cJSON.h>

#include "data/dataset.h"

// add "coverage" to what is said of a dataset; it must have been read with its states
int coverage_info(const Dataset *data, cJSON *info);

#endif
