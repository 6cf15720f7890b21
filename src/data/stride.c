// Transitions over several steps. A window is n consecutive rows of an episode with the same action:
// it becomes one transition from its first row to the successor of its last.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/parts.h"

// Find the last row of every window and return their number. Overwrites data->ends, window by window,
// with 1 where a window is the last of its episode.
static int64_t find_windows(Dataset *data, int64_t n, int64_t *last) {
  int64_t begin = 0, count = 0;  // the first row with the present action; windows so far
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

// copy the successor, its reward and its discount from a window's last row, the rest from its first
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
  if (!last) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", data->count);
  Dataset to = *data;
  to.capacity = 0;
  memset(to.buffers, 0, sizeof to.buffers);
  to.count = find_windows(data, n, last);
  to.episodes = data->episodes;
  int status = BFM_OK;
  if (to.count < 2) {
    status = bfm_fail(BFM_BAD_ARGUMENT,
                      "stride is %" PRId64
                      ", but the number of times that the data holds an action for %" PRId64
                      " steps is %" PRId64 ": training needs at least 2",
                      n, n, to.count);
  }
  if (!status) status = parts_grow(&to, to.count);
  if (!status) copy_windows(data, &to, n, last);
  for (int k = 0; k < PART_COUNT; k++) row_buffer_free(status ? &to.buffers[k] : &data->buffers[k]);
  if (!status) *data = to;
  free(last);
  return status;
}
