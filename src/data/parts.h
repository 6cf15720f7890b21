// The arrays ("parts") of a dataset by number: their names in files, types, rows and growth.

#ifndef BFM_DATA_PARTS_H
#define BFM_DATA_PARTS_H

#include "data/dataset.h"
#include "data/writer.h"

// sets of parts, as in Dataset.parts
#define BIT(part) (1u << (part))
#define PARTS_ALL (BIT(PART_COUNT) - 1)
#define PARTS_STATES (BIT(PART_QPOS) | BIT(PART_QVEL) | BIT(PART_ACTIVATION))
#define PARTS_INFOS \
  (BIT(PART_PHYSICS) | BIT(PART_SOURCE) | BIT(PART_TASK) | BIT(PART_STEP) | BIT(PART_EPISODE))
#define PARTS_NEEDED \
  (BIT(PART_OBS) | BIT(PART_ACT) | BIT(PART_NEXT_OBS) | BIT(PART_DISCOUNT) | BIT(PART_ENDS))

static inline int has_part(const Dataset *data, int part) { return data->parts >> part & 1; }

const char *part_name(int part);  // of its table in files; NULL if the part is derived
int part_axes(int part);          // 1: [rows], 2: [rows, columns]

// name, type and columns of a part
Table part_table(const Dataset *data, int part);
size_t part_row_bytes(const Dataset *data, int part);

void **part_rows(const Dataset *data, int part);  // the dataset's pointer to the part
void *part_at(const Dataset *data, int part, int64_t row);

// whether the part lies in the dataset file itself, mapped read-only
int part_is_mapped(const Dataset *data, int part);

void parts_drop(Dataset *data, uint32_t parts);

// makes room for exactly this many rows in all parts that are not mapped
int parts_grow(Dataset *data, int64_t rows);

// makes room for an episode of this many more rows; grows by doubling
int parts_reserve(Dataset *data, int64_t rows);

#endif
