// The outbox of a client of the playground: order, the window of frames, the bounds, and threads that
// put in while another takes out.

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/outbox.h"

static int wakes;

static void wake(void *context) { __atomic_add_fetch((int *)context, 1, __ATOMIC_RELAXED); }

static int setup(void **state) {
  wakes = 0;
  return outbox_new((Outbox **)state, wake, &wakes);
}

static int teardown(void **state) {
  outbox_free(*state);
  return 0;
}

static void put_text(Outbox *outbox, const char *type) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "type", type);
  outbox_text(outbox, object);
}

static void put_frame(Outbox *outbox, unsigned char mark) {
  unsigned char frame[16] = {1, mark};
  outbox_frame(outbox, frame, sizeof frame);
}

// what comes next: the text, or "frame M SEQ", "blob K", "nothing"
static const char *next(Outbox *outbox) {
  static char said[128];
  Parcel parcel;
  if (!outbox_take(outbox, &parcel)) return "nothing";
  const unsigned char *bytes = parcel.memory + OUTBOX_FRONT;
  uint32_t seq = 0;
  if (parcel.binary && *bytes == 1) memcpy(&seq, bytes + 4, sizeof seq);
  if (!parcel.binary) snprintf(said, sizeof said, "%.*s", (int)parcel.size, (const char *)bytes);
  else if (seq) snprintf(said, sizeof said, "frame %d %u", bytes[1], seq);
  else snprintf(said, sizeof said, "blob %d", *bytes);
  free(parcel.memory);
  return said;
}

static void test_messages_keep_their_order(void **state) {
  Outbox *outbox = *state;
  put_text(outbox, "hello");
  outbox_blob(outbox, "\4", 1);
  assert_int_equal(outbox_piece(outbox, "\3", 1, NULL), BFM_OK);
  put_text(outbox, "taken");
  assert_int_equal(wakes, 4);
  assert_string_equal(next(outbox), "{\"type\":\"hello\"}");
  assert_string_equal(next(outbox), "blob 4");
  assert_string_equal(next(outbox), "blob 3");
  assert_string_equal(next(outbox), "{\"type\":\"taken\"}");
  assert_string_equal(next(outbox), "nothing");
}

static void test_the_latest_frame_wins_and_the_window_holds_it(void **state) {
  Outbox *outbox = *state;
  put_frame(outbox, 1);
  put_frame(outbox, 2);
  assert_string_equal(next(outbox), "frame 2 1");
  assert_string_equal(next(outbox), "nothing");
  for (int i = 1; i < OUTBOX_WINDOW; i++) {
    put_frame(outbox, 7);
    next(outbox);
  }
  put_frame(outbox, 8);
  assert_string_equal(next(outbox), "nothing");  // six are unacknowledged
  outbox_ack(outbox, 100);                       // never sent
  outbox_ack(outbox, -1);
  assert_string_equal(next(outbox), "nothing");
  int before = wakes;
  outbox_ack(outbox, 1);
  assert_int_equal(wakes, before + 1);
  assert_string_equal(next(outbox), "frame 8 7");
  outbox_ack(outbox, 7);
  assert_true(outbox_unanswered(outbox) == 0);
}

static void test_a_frame_overtakes_all_but_its_scene(void **state) {
  Outbox *outbox = *state;
  put_text(outbox, "stats");
  put_frame(outbox, 1);
  assert_string_equal(next(outbox), "frame 1 1");
  put_frame(outbox, 2);  // of the scene before
  put_text(outbox, "scene");
  outbox_blob(outbox, "\2", 1);
  put_frame(outbox, 3);
  put_text(outbox, "stats");
  assert_string_equal(next(outbox), "{\"type\":\"stats\"}");
  assert_string_equal(next(outbox), "{\"type\":\"scene\"}");
  assert_string_equal(next(outbox), "blob 2");
  assert_string_equal(next(outbox), "frame 3 2");
  assert_string_equal(next(outbox), "{\"type\":\"stats\"}");
}

static void test_an_unacknowledged_frame_ages(void **state) {
  Outbox *outbox = *state;
  put_frame(outbox, 1);
  assert_true(outbox_unanswered(outbox) == 0);
  next(outbox);
  usleep(20000);
  put_frame(outbox, 2);
  next(outbox);
  assert_true(outbox_unanswered(outbox) >= 0.02);
  outbox_ack(outbox, 1);
  assert_true(outbox_unanswered(outbox) < 0.02);
}

static void test_too_much_is_a_failure(void **state) {
  Outbox *outbox = *state;
  static char blob[OUTBOX_BYTES / 8];
  for (int i = 0; i < 8; i++) outbox_blob(outbox, blob, sizeof blob);
  assert_false(outbox_failed(outbox));
  put_text(outbox, "stats");
  assert_true(outbox_failed(outbox));
}

static void test_no_memory_is_a_failure(void **state) {
  outbox_text(*state, NULL);
  assert_true(outbox_failed(*state));
}

static void test_texts_become_utf8(void **state) {
  const char *const rows[][2] = {
      {"läufer €\xf0\x9f\xa4\x96", "läufer €\xf0\x9f\xa4\x96"},
      {"cut \xc3", "cut ?"},
      {"cut \xe2\x82", "cut ??"},
      {"cut \xf0\x9f\xa4.", "cut ???."},
      {"\xff\xfe\x80\xc0\xaf", "?????"},
      {"\xed\xa0\x80 \xe0\x80\x80 \xf4\x90\x80\x80 \xf0\x80\x80\x80", "??? ??? ???? ????"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char expected[64];
    put_text(*state, rows[i][0]);
    snprintf(expected, sizeof expected, "{\"type\":\"%s\"}", rows[i][1]);
    assert_string_equal(next(*state), expected);
  }
}

// ---------------------------------- threads ------------------------------------------------------

typedef struct {
  Outbox *outbox;
  int cancel, status, put;
} Producer;

static void *put_pieces(void *context) {
  Producer *p = context;
  while (p->put < 200 && !p->status) {
    p->status = outbox_piece(p->outbox, "\3", 1, &p->cancel);
    if (!p->status) p->put++;
  }
  return NULL;
}

static void *put_frames(void *context) {
  for (int i = 0; i < 1000; i++) {
    put_frame(context, 1);
    if (i % 10 == 0) put_text(context, "stats");
  }
  return NULL;
}

static void test_pieces_wait_for_room(void **state) {
  Producer p = {.outbox = *state};
  pthread_t thread;
  pthread_create(&thread, NULL, put_pieces, &p);
  while (__atomic_load_n(&wakes, __ATOMIC_RELAXED) < OUTBOX_PIECES) usleep(1000);
  usleep(20000);
  assert_int_equal(__atomic_load_n(&wakes, __ATOMIC_RELAXED), OUTBOX_PIECES);
  int taken = 0;
  while (taken < 200) taken += !strcmp(next(*state), "blob 3");
  pthread_join(thread, NULL);
  assert_int_equal(p.status, BFM_OK);
}

static void test_a_waiting_piece_is_cancelled(void **state) {
  for (int close = 0; close < 2; close++) {
    Producer p = {.outbox = *state};
    pthread_t thread;
    pthread_create(&thread, NULL, put_pieces, &p);
    usleep(20000);
    if (close) outbox_close(*state);
    else __atomic_store_n(&p.cancel, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(p.status, BFM_INTERRUPTED);
  }
  put_text(*state, "stats");
  put_frame(*state, 1);
  assert_string_equal(next(*state), "nothing");  // it is closed
}

static void test_many_threads_put_in(void **state) {
  Producer p = {.outbox = *state};
  pthread_t threads[3];
  pthread_create(&threads[0], NULL, put_pieces, &p);
  pthread_create(&threads[1], NULL, put_frames, *state);
  pthread_create(&threads[2], NULL, put_frames, *state);
  int pieces = 0, texts = 0, frames = 0;
  while (pieces < 200 || texts < 200) {
    const char *said = next(*state);
    pieces += !strcmp(said, "blob 3");
    texts += *said == '{';
    if (*said == 'f') outbox_ack(*state, ++frames);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  assert_false(outbox_failed(*state));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_messages_keep_their_order),
      TEST(test_the_latest_frame_wins_and_the_window_holds_it),
      TEST(test_a_frame_overtakes_all_but_its_scene),
      TEST(test_an_unacknowledged_frame_ages),
      TEST(test_too_much_is_a_failure),
      TEST(test_no_memory_is_a_failure),
      TEST(test_texts_become_utf8),
      TEST(test_pieces_wait_for_room),
      TEST(test_a_waiting_piece_is_cancelled),
      TEST(test_many_threads_put_in),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
