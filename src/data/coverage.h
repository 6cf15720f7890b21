// Coverage: how much of the state space a dataset visits, as one number by which datasets can be
// compared.

#ifndef BFM_DATA_COVERAGE_H
#define BFM_DATA_COVERAGE_H

#include <cjson/cJSON.h>

#include "data/dataset.h"

// Add "coverage" to `info`. The dataset must come from dataset_read_all, with its states.
int coverage_info(const Dataset *data, cJSON *info);

#endif
