// Episodes from their pieces. Pieces are sorted by the number of their episode. A piece continues the
// one before it if its first step follows that piece's last step. Otherwise a piece is missing, or
// another file used the same number, and it becomes an episode of its own.

#include "data/episode_index.h"

#include <inttypes.h>
#include <stdlib.h>

static int by_number(const void *x, const void *y) {
  const Piece *a = x, *b = y;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

// the collector's steps between two rows of a piece; 0 if the piece has only one row
static int64_t stride(const Dataset *data, const Piece *piece) {
  return piece->rows > 1 ? data->step[piece->first + 1] - data->step[piece->first] : 0;
}

static int continues(const Dataset *data, const Piece *last, const Piece *next) {
  if (!data->step || next->number < 0 || next->number != last->number) return 0;
  int64_t between = data->step[next->first] - data->step[last->first + last->rows - 1];
  int64_t before = stride(data, last), after = stride(data, next);
  return between > 0 && (!before || between == before) && (!after || between == after);
}

int episode_index(const Dataset *data, Piece **out, int64_t *episodes) {
  Piece *pieces = *out = malloc((size_t)(data->episodes + 1) * sizeof *pieces);
  if (!pieces)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " episodes", data->episodes);
  int numbered = data->episode && data->step;
  int64_t count = 0, first = 0;
  for (int64_t i = 0; i < data->count && count < data->episodes; i++) {
    if (!data->ends[i]) continue;
    int64_t number = numbered ? data->episode[first] : -1;
    pieces[count++] = (Piece){.first = first, .rows = i + 1 - first, .number = number};
    first = i + 1;
  }
  qsort(pieces, (size_t)count, sizeof *pieces, by_number);
  *episodes = 0;
  for (int64_t k = 0; k < count; k++) {
    *episodes += !k || !continues(data, &pieces[k - 1], &pieces[k]);
    pieces[k].episode = *episodes - 1;
  }
  return BFM_OK;
}
