// Episodes of a dataset. A collector may write a long one in several pieces, between rows of others;
// each piece ends as an episode cut by time does, and infos/episode and infos/step tell what belongs
// together.

#ifndef BFM_DATA_EPISODE_INDEX_H
#define BFM_DATA_EPISODE_INDEX_H

#include "data/dataset.h"

typedef struct {
  int64_t first, rows;  // rows of the dataset that follow each other
  int64_t number;       // what the file calls the episode, -1: it does not say
  int64_t episode;      // counted from 0
} Piece;

// all pieces [data->episodes], those of an episode side by side and in order, and the number of
// episodes; to be freed
int episode_index(const Dataset *data, Piece **pieces, int64_t *episodes);

#endif
