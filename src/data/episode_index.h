// The episodes of a dataset. A collector may write a long episode in several pieces, between rows of
// other episodes. Each piece ends like an episode at its time limit; infos/episode and infos/step
// tell which pieces belong together.

#ifndef BFM_DATA_EPISODE_INDEX_H
#define BFM_DATA_EPISODE_INDEX_H

#include "data/dataset.h"

typedef struct {
  int64_t first, rows;  // rows first … first+rows-1 of the dataset
  int64_t number;       // of the episode in the file, or -1
  int64_t episode;      // counted from 0
} Piece;

// Returns all pieces [data->episodes], with those of an episode side by side and in order, and the
// number of episodes. The caller frees *pieces.
int episode_index(const Dataset *data, Piece **pieces, int64_t *episodes);

#endif
