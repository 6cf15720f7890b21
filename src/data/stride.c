// Transitions over several steps. A window is n consecutive rows of an episode with the same action.
// It becomes one transition, from its first row to the successor of its last row.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/parts.h"

// Finds the last row of every window and returns the number of windows. Overwrites data->ends, one
// entry per window, with 1 for the last window of an episode.
static int64_t find_windows(Dataset *data, int64_t n, int64_t *last) {
  int64_t begin = 0, count = 0;  // the first row with the current action; windows so far
  size_t bytes = part_row_bytes(data, PART_ACT);
  data->episodes = 0;
  for (int64_t i = 0; i < data->count; i++) {
    const char *act = part_at(data, PART_ACT, i);
    if (i > begin && memcmp(act - bytes, act, bytes)) begin = i;
    int over = data->ends[i];
    if (i - begin + 1 >= n) {
      data->ends[count] = 0;
      last[count++] = i;
    }
    if (!over) continue;
    begin = i + 1;
    if (!count || data->ends[count - 1]) continue;
    data->ends[count - 1] = 1;
    data->episodes++;
  }
  return count;
}

// copies the successor, its reward and its discount from a window's last row, the rest from its first
static void copy_windows(const Dataset *from, Dataset *to, int64_t n, const int64_t *last) {
  const uint32_t from_last = BIT(PART_NEXT_OBS) | BIT(PART_REWARDS) | BIT(PART_DISCOUNT);
  for (int k = 0; k < PART_COUNT; k++) {
    if (!has_part(from, k)) continue;
    for (int64_t i = 0; i < to->count; i++) {
      int64_t row = k == PART_ENDS ? i : from_last & BIT(k) ? last[i] : last[i] - n + 1;
      memcpy(part_at(to, k, i), part_at(from, k, row), part_row_bytes(from, k));
    }
  }
}

int dataset_stride(Dataset *data, int64_t n) {
  if (n == 1) return BFM_OK;
  int64_t *last = malloc((size_t)data->count * sizeof *last);
  if (!last) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", data->count);
  Dataset to = *data;
  to.capacity = 0;
  memset(to.buffers, 0, sizeof to.buffers);
  to.count = find_windows(data, n, last);
  to.episodes = data->episodes;
  int status = BFM_OK;
  if (to.count < 2) {
    status = bfm_fail(BFM_BAD_ARGUMENT,
                      "stride is %" PRId64 ", but the number of windows of %" PRId64
                      " steps with the same action is %" PRId64 ": training needs at least 2",
                      n, n, to.count);
  }
  if (!status) status = parts_grow(&to, to.count);
  if (!status) copy_windows(data, &to, n, last);
  for (int k = 0; k < PART_COUNT; k++) row_buffer_free(status ? &to.buffers[k] : &data->buffers[k]);
  if (!status) *data = to;
  free(last);
  return status;
}
