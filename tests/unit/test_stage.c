// A client's stage as its connection sees it: messages go in, and what comes out of the outbox is read,
// with the shipped walker and in real time. Conditions are waited for, so that a slow machine only takes
// longer.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/units.h"
#include "prompt/prompt.h"
#include "serve/stage.h"

enum { PATIENCE = 120, TORSO = 1, NQ = 9, BODIES = 8, HEAD = 16 };

#define MODEL "models/walker.safetensors"
#define SLOT_BYTES (8 + 28 * BODIES + 4 * NQ)

typedef struct {
  Models *models;
  int borrowed;  // the models are another client's
  Outbox *outbox;
  Stage *stage;
  int64_t id;  // of the last message
  unsigned char frame[HEAD + SLOTS_MAX * SLOT_BYTES];
  size_t frame_bytes;
  int frames, blobs, ghosts;
  cJSON *stats;           // the last one
  unsigned char *pieces;  // of the download that arrives
  size_t piece_bytes;
} Client;

// for sanitized builds: OSMesa never frees some of its memory
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libOSMesa\nleak:libEGL\n"; }

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

static void wake(void *context) { (void)context; }

static Client *client_of(Models *models) {
  Client *c = calloc(1, sizeof *c);
  c->models = models;
  good(outbox_new(&c->outbox, wake, c));
  good(stage_new(&c->stage, c->models, c->outbox));
  return c;
}

static Models *models_of(const char *path) {
  const char *const paths[] = {path};
  Models *models;
  good(models_new(&models, paths, 1, "cpu", 0));
  return models;
}

static Client *client_new(void) { return client_of(models_of(MODEL)); }

static void client_free(Client *c) {
  outbox_close(c->outbox);
  stage_free(c->stage);
  assert_int_equal(outbox_failed(c->outbox), 0);
  outbox_free(c->outbox);
  if (!c->borrowed) models_free(c->models);
  cJSON_Delete(c->stats);
  free(c->pieces);
  free(c);
}

// ---------------------------------- reading ------------------------------------------------------

static void take_frame(Client *c, const unsigned char *bytes, size_t size) {
  uint32_t seq;
  assert_true(size <= sizeof c->frame);
  memcpy(c->frame, bytes, size);
  c->frame_bytes = size;
  c->frames++;
  memcpy(&seq, bytes + 4, sizeof seq);
  outbox_ack(c->outbox, seq);
}

static void take_binary(Client *c, const unsigned char *bytes, size_t size) {
  switch (bytes[0]) {
    case 1: take_frame(c, bytes, size); return;
    case 2: c->blobs++; return;
    case 3:
      c->pieces = realloc(c->pieces, c->piece_bytes + size);
      memcpy(c->pieces + c->piece_bytes, bytes + 8, size - 8);
      c->piece_bytes += size - 8;
      return;
    case 4: c->ghosts++; return;
    default: fail_msg("a binary message of kind %d", bytes[0]);
  }
}

static const char *text_of(const cJSON *json, const char *name) {
  const cJSON *item = cJSON_GetObjectItem(json, name);
  return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *json, const char *name) {
  const cJSON *item = cJSON_GetObjectItem(json, name);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

// Take one message if there is one. A text other than stats becomes *text, which the caller deletes.
static int take(Client *c, cJSON **text) {
  Parcel parcel;
  *text = NULL;
  if (!outbox_take(c->outbox, &parcel)) return 0;
  unsigned char *bytes = parcel.memory + OUTBOX_FRONT;
  if (parcel.binary) {
    take_binary(c, bytes, parcel.size);
  } else {
    cJSON *json = cJSON_ParseWithLength((char *)bytes, parcel.size);
    assert_non_null(json);
    if (!strcmp(text_of(json, "type"), "stats")) {
      cJSON_Delete(c->stats);
      c->stats = json;
    } else {
      *text = json;
    }
  }
  free(parcel.memory);
  return 1;
}

// read on until a text of this type with this id comes; id -1: any
static cJSON *await(Client *c, const char *type, int64_t id) {
  double end = seconds_now() + PATIENCE;
  while (seconds_now() < end) {
    cJSON *text;
    if (!take(c, &text)) {
      usleep(1000);
      continue;
    }
    int wanted = text && (id < 0 || number_of(text, "id") == (double)id);
    if (wanted && !strcmp(text_of(text, "type"), type)) return text;
    if (wanted && id >= 0 && !strcmp(text_of(text, "type"), "refused")) {
      fail_msg("refused: %s", text_of(text, "error"));
    }
    cJSON_Delete(text);
  }
  fail_msg("no message %s came", type);
  return NULL;
}

// read on until `is` holds
static void until(Client *c, int (*is)(const Client *c, double x), double x) {
  double end = seconds_now() + PATIENCE;
  cJSON *text;
  while (!is(c, x)) {
    if (!take(c, &text)) usleep(1000);
    cJSON_Delete(text);
    if (seconds_now() > end) fail_msg("waited for %d s", PATIENCE);
  }
}

// everything that is in the outbox now
static void drain(Client *c) {
  cJSON *text;
  while (take(c, &text)) cJSON_Delete(text);
}

// ---------------------------------- what a frame says --------------------------------------------

static double time_of(const Client *c) {
  double time;
  memcpy(&time, c->frame + 8, sizeof time);
  return time;
}

static float f32(const Client *c, int slot, int at) {
  float value;
  memcpy(&value, c->frame + HEAD + slot * SLOT_BYTES + at, sizeof value);
  return value;
}

static uint32_t step_of(const Client *c, int slot) {
  uint32_t step;
  memcpy(&step, c->frame + HEAD + slot * SLOT_BYTES + 4, sizeof step);
  return step;
}

static float torso_z(const Client *c) { return f32(c, 0, 8 + 28 * TORSO + 8); }

static int equal_slots(const Client *c) {
  return !memcmp(c->frame + HEAD, c->frame + HEAD + SLOT_BYTES, SLOT_BYTES);
}

static int has_frames(const Client *c, double count) { return c->frames >= count; }
static int is_past(const Client *c, double time) { return c->frames > 0 && time_of(c) > time; }
static int is_high(const Client *c, double height) { return torso_z(c) > height; }
static int is_low(const Client *c, double height) { return torso_z(c) < height; }
static int is_young(const Client *c, double step) { return step_of(c, 0) < step; }
static int differs(const Client *c, double x) { return (void)x, !equal_slots(c); }

static const cJSON *slot_stats(const Client *c, int slot) {
  return cJSON_GetArrayItem(cJSON_GetObjectItem(c->stats, "slots"), slot);
}

static int scores(const Client *c, double least) {
  return c->stats && number_of(slot_stats(c, 0), "score") > least;
}

static int is_fast(const Client *c, double speed) {
  return c->stats && number_of(slot_stats(c, 0), "speed") > speed;
}

static int says_paused(const Client *c, double paused) {
  return c->stats && cJSON_IsTrue(cJSON_GetObjectItem(c->stats, "paused")) == (int)paused;
}

// ---------------------------------- saying -------------------------------------------------------

static void tell(Client *c, Message m) {
  m.id = m.id ? m.id : ++c->id;
  stage_tell(c->stage, &m);
}

static cJSON *open_model(Client *c, int slots) {
  Message m = {.say = SAY_OPEN, .slots = slots};
  snprintf(m.text, sizeof m.text, "%s", models_label(c->models, 0));
  tell(c, m);
  cJSON *scene = await(c, "scene", -1);
  c->frames = 0;
  until(c, has_frames, 1);
  return scene;
}

static int64_t say_prompt(Client *c, int slot, PromptKind kind, const char *text) {
  Message m = {.say = SAY_PROMPT, .slot = slot, .kind = kind};
  snprintf(m.text, sizeof m.text, "%s", text);
  tell(c, m);
  return c->id;
}

static Client *client_with(int slots) {
  Client *c = client_new();
  cJSON_Delete(open_model(c, slots));
  return c;
}

static void prompt(Client *c, int slot, const char *text) {
  cJSON_Delete(await(c, "prompted", say_prompt(c, slot, PROMPT_REWARD, text)));
}

// ---------------------------------- tests --------------------------------------------------------

static void test_opening_shows_the_robot(void **state) {
  (void)state;
  Client *c = client_new();
  cJSON *scene = open_model(c, 2);
  assert_string_equal(text_of(scene, "domain"), "walker");
  assert_int_equal((int)number_of(scene, "slots"), 2);
  assert_int_equal((int)number_of(scene, "d"), 64);
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "blocks")), 8);
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "bodies")), BODIES);
  assert_string_equal(text_of(cJSON_GetObjectItem(scene, "prompt"), "text"), "stand");
  assert_int_equal(c->blobs, 1);
  assert_int_equal(c->frame_bytes, HEAD + 2 * SLOT_BYTES);
  assert_int_equal(c->frame[1], 2);
  cJSON_Delete(scene);

  // nobody has told it anything: it is given the first task
  cJSON *prompted = await(c, "prompted", -1);
  assert_string_equal(text_of(prompted, "text"), "stand");
  assert_int_equal((int)number_of(prompted, "slot"), -1);
  cJSON_Delete(prompted);
  until(c, is_past, time_of(c) + 0.3);
  assert_true(equal_slots(c));
  client_free(c);
}

static void test_a_prompt_is_obeyed(void **state) {
  (void)state;
  Client *c = client_with(1);
  cJSON *answer = await(c, "prompted", say_prompt(c, 0, PROMPT_REWARD, "stand"));
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "z")), 64);
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "counts")), 40);
  assert_string_equal(text_of(answer, "score"), "reward");
  cJSON_Delete(answer);
  until(c, scores, 0.9);
  assert_true(number_of(slot_stats(c, 0), "height") > 1);
  assert_true(number_of(c->stats, "rate") > 0);

  answer = await(c, "prompted", say_prompt(c, 0, PROMPT_GOAL, "torso.z = 0.5"));
  assert_string_equal(text_of(answer, "score"), "similarity");
  cJSON_Delete(answer);
  // from the start: who stands firmly, as this model has learned to, keeps standing
  prompt(c, 0, "run");
  tell(c, (Message){.say = SAY_RESET, .kind = RESET_START});
  until(c, is_fast, 2);
  client_free(c);
}

static void test_a_drag_lifts_the_torso(void **state) {
  (void)state;
  Client *c = client_with(1);
  Message pull = {.say = SAY_DRAG, .body = TORSO, .to = {0, 0, 2.6}};
  double end = seconds_now() + PATIENCE;
  while (!is_high(c, 2) && seconds_now() < end) {
    tell(c, pull);
    usleep(30000);
    drain(c);
  }
  assert_true(is_high(c, 2));
  // nobody renews it: it ends by itself
  until(c, is_low, 1.5);
  tell(c, pull);
  tell(c, (Message){.say = SAY_RELEASE});
  double now = time_of(c);
  until(c, is_past, now + 0.5);
  assert_true(is_low(c, 1.5));
  client_free(c);
}

static void test_pause_and_single_steps(void **state) {
  (void)state;
  Client *c = client_with(1);
  tell(c, (Message){.say = SAY_PAUSE, .on = 1});
  until(c, says_paused, 1);
  until(c, has_frames, c->frames + 10);
  double stopped = time_of(c);
  until(c, has_frames, c->frames + 10);
  assert_true(time_of(c) == stopped);
  tell(c, (Message){.say = SAY_STEP});
  until(c, is_past, stopped);
  until(c, has_frames, c->frames + 10);
  assert_true(time_of(c) <= stopped + 0.0251);
  tell(c, (Message){.say = SAY_PAUSE, .on = 0});
  until(c, says_paused, 0);
  until(c, is_past, stopped + 0.2);
  client_free(c);
}

static void test_resets(void **state) {
  (void)state;
  Client *c = client_with(1);
  float first = torso_z(c);
  until(c, is_past, time_of(c) + 0.5);
  tell(c, (Message){.say = SAY_PAUSE, .on = 1});
  tell(c, (Message){.say = SAY_RESET, .kind = RESET_START});
  until(c, is_young, 1);
  float again = torso_z(c);
  tell(c, (Message){.say = SAY_RESET, .kind = RESET_RANDOM});
  int frames = c->frames;
  until(c, has_frames, frames + 20);
  assert_true(fabsf(torso_z(c) - again) > 1e-4F);
  tell(c, (Message){.say = SAY_RESET, .kind = RESET_START});
  until(c, has_frames, c->frames + 20);
  assert_true(torso_z(c) == again);
  assert_true(fabsf(first - again) < 0.1F);  // the first frame came a moment later
  client_free(c);
}

static void test_equal_prompts_give_equal_robots(void **state) {
  (void)state;
  Client *c = client_with(2);
  prompt(c, -1, "run");
  until(c, is_past, time_of(c) + 1);
  assert_true(equal_slots(c));
  prompt(c, 1, "spin");
  until(c, differs, 0);
  prompt(c, 1, "run");
  until(c, is_past, time_of(c) + 0.1);  // taken up with the next control step
  tell(c, (Message){.say = SAY_RESET, .kind = RESET_START});
  until(c, is_young, 10);
  until(c, is_past, time_of(c) + 0.5);
  assert_true(equal_slots(c));
  client_free(c);
}

// of many prompts for a robot only the last one counts; every one is answered
static void test_the_latest_prompt_wins(void **state) {
  (void)state;
  Client *c = client_with(1);
  enum { MANY = 20 };
  int64_t first = say_prompt(c, 0, PROMPT_REWARD, "speed");
  for (int i = 1; i < MANY; i++) {
    char text[64];
    snprintf(text, sizeof text, "speed * %d", i + 1);
    say_prompt(c, 0, PROMPT_REWARD, text);
  }
  int answers = 0, cancelled = 0;
  double end = seconds_now() + PATIENCE;
  while (answers < MANY && seconds_now() < end) {
    cJSON *text;
    if (!take(c, &text)) usleep(1000);
    if (text && number_of(text, "id") >= (double)first) {
      answers++;
      cancelled += cJSON_IsTrue(cJSON_GetObjectItem(text, "cancelled"));
    }
    if (answers == MANY) assert_string_equal(text_of(text, "text"), "speed * 20");
    cJSON_Delete(text);
  }
  assert_int_equal(answers, MANY);
  assert_true(cancelled > 0);

  // a prompt that nobody wants any more
  int64_t id = say_prompt(c, 0, PROMPT_REWARD, "sum(actuator_force)");
  tell(c, (Message){.say = SAY_CANCEL, .id = id});
  prompt(c, 0, "stand");
  client_free(c);
}

static void test_errors_name_their_place(void **state) {
  (void)state;
  Client *c = client_with(1);
  Message check = {.say = SAY_CHECK, .text = "upright * spead"};
  tell(c, check);
  cJSON *answer = await(c, "checked", c->id);
  assert_int_equal((int)number_of(answer, "at"), 10);
  assert_string_equal(text_of(answer, "suggestion"), "speed");
  cJSON_Delete(answer);

  say_prompt(c, 0, PROMPT_REWARD, "upright * spead");
  answer = await(c, "refused", c->id);
  assert_int_equal((int)number_of(answer, "at"), 10);
  assert_int_equal((int)number_of(answer, "length"), 5);
  cJSON_Delete(answer);
  double now = time_of(c);
  until(c, is_past, now + 0.1);  // the robot goes on

  say_prompt(c, 3, PROMPT_REWARD, "run");
  answer = await(c, "refused", c->id);
  assert_non_null(strstr(text_of(answer, "error"), "there are 1 robots"));
  cJSON_Delete(answer);
  client_free(c);
}

static void test_nothing_goes_without_a_model(void **state) {
  (void)state;
  Client *c = client_new();
  for (int say = SAY_CHECK; say <= SAY_ACK; say++) {
    tell(c, (Message){.say = say, .text = "run", .slot = 0, .seconds = 1, .on = 1});
  }
  cJSON_Delete(await(c, "refused", -1));
  tell(c, (Message){.say = SAY_OPEN, .slots = 1, .text = "nobody"});
  cJSON *answer = await(c, "refused", c->id);
  assert_non_null(strstr(text_of(answer, "error"), "no model \"nobody\""));
  cJSON_Delete(answer);
  cJSON_Delete(open_model(c, 1));
  client_free(c);
}

// what a parser would never let through
static void test_garbage_harms_nobody(void **state) {
  (void)state;
  Client *c = client_with(2);
  const double bad[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 0};
  const int indices[] = {-5, 0, 1, 7, 8, 1 << 30};
  for (int i = 0; i < 6; i++) {
    double x = bad[i];
    int n = indices[i];
    tell(c, (Message){.say = SAY_DRAG, .slot = n, .body = n, .at = {x, x, x}, .to = {x, x, x}});
    tell(c, (Message){.say = SAY_DRAG, .slot = 0, .body = 1, .at = {0}, .to = {x, x, x}});
    tell(c, (Message){.say = SAY_PUSH, .slot = n, .body = n, .at = {x, x, x}, .to = {x, x, x}});
    tell(c, (Message){.say = SAY_PUSH, .slot = 1, .body = 1, .at = {x, 0, 0}, .to = {x, x, x}});
    tell(c, (Message){.say = SAY_SPEED, .factor = x});
    tell(c, (Message){.say = SAY_ACT, .es = n, .noise = x});
    tell(c, (Message){.say = SAY_ACT, .es = 0, .noise = 0});
    Message ghost = {.say = SAY_GHOST, .on = 1, .count = NQ, .numbers = {x, x}};
    tell(c, ghost);
    Message pose = {.say = SAY_PROMPT, .kind = PROMPT_POSE, .slot = 0, .count = NQ, .numbers = {x}};
    tell(c, pose);
    usleep(50000);
    drain(c);
  }
  double now = time_of(c);
  until(c, is_past, now + 0.2);
  for (int slot = 0; slot < 2; slot++) {
    for (int i = 0; i < 7 * BODIES + NQ; i++) assert_true(isfinite(f32(c, slot, 8 + 4 * i)));
  }
  client_free(c);
}

static void test_ghosts(void **state) {
  (void)state;
  Client *c = client_with(1);
  tell(c, (Message){.say = SAY_GHOST, .on = 1, .count = NQ});
  double end = seconds_now() + PATIENCE;
  while (!c->ghosts && seconds_now() < end) drain(c);
  assert_int_equal(c->ghosts, 1);
  tell(c, (Message){.say = SAY_GHOST, .on = 1, .count = 3});
  cJSON *answer = await(c, "refused", c->id);
  assert_non_null(strstr(text_of(answer, "error"), "qpos has 3 numbers"));
  cJSON_Delete(answer);
  client_free(c);
}

// ask for a download and write it to a file, whose path is returned
static const char *download(Client *c, TakeKind kind, const char *suffix) {
  static char path[128];
  c->piece_bytes = 0;
  tell(c, (Message){.say = SAY_TAKE, .kind = kind, .seconds = 1});
  cJSON *taken = await(c, "taken", c->id);
  assert_int_equal((int)number_of(taken, "bytes"), c->piece_bytes);
  assert_non_null(strstr(text_of(taken, "name"), suffix));
  cJSON_Delete(taken);
  snprintf(path, sizeof path, "/tmp/bfm-test-%d%s", (int)getpid(), suffix);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(c->pieces, 1, c->piece_bytes, file), c->piece_bytes);
  fclose(file);
  return path;
}

static void test_downloads_can_be_used(void **state) {
  (void)state;
  Client *c = client_with(1);
  bfm_agent *agent;
  float z[64], expected[64];
  good(bfm_agent_load(&agent, MODEL, "{\"device\": \"cpu\"}"));
  prompt(c, 0, "run");
  until(c, is_past, time_of(c) + 1.2);

  const char *path = download(c, TAKE_Z, ".json");
  good(bfm_agent_prompt_file(agent, 0, path, z));
  good(bfm_agent_prompt_text(agent, 0, "run", 0, expected));
  for (int i = 0; i < 64; i++) assert_true(fabsf(z[i] - expected[i]) < 1e-4F);
  unlink(path);

  path = download(c, TAKE_TRAJECTORY, ".h5");
  good(bfm_agent_prompt_demo(agent, 0, path, z));
  unlink(path);

  Message demo = {.say = SAY_PROMPT, .kind = PROMPT_DEMO, .slot = 0, .seconds = 0.5};
  tell(c, demo);
  cJSON_Delete(await(c, "prompted", c->id));
  bfm_agent_free(agent);
  client_free(c);
}

// A film takes long: meanwhile prompts are answered, and it can be stopped.
static void test_a_film_delays_nothing(void **state) {
  (void)state;
  Client *c = client_with(1);
  until(c, is_past, time_of(c) + 1.5);
  tell(c, (Message){.say = SAY_TAKE, .kind = TAKE_FILM, .seconds = 1});
  int64_t film = c->id;
  prompt(c, 0, "run");
  tell(c, (Message){.say = SAY_TAKE, .kind = TAKE_FILM, .seconds = 1});
  tell(c, (Message){.say = SAY_CANCEL, .id = film});
  cJSON *text;
  double end = seconds_now() + PATIENCE;
  for (int found = 0; !found && seconds_now() < end;) {
    if (!take(c, &text)) usleep(1000);
    found =
        text && number_of(text, "id") == (double)film && strcmp(text_of(text, "type"), "progress");
    // cancelled; or, on a machine without a renderer or with a quick one, over before that
    cJSON_Delete(text);
  }
  assert_true(seconds_now() < end);
  client_free(c);
}

static void test_another_model_replaces_the_first(void **state) {
  (void)state;
  Client *c = client_with(4);
  assert_int_equal(c->frame_bytes, HEAD + 4 * SLOT_BYTES);
  for (int i = 0; i < 3; i++) {
    cJSON_Delete(open_model(c, 1));
    assert_int_equal(c->frame_bytes, HEAD + SLOT_BYTES);
    cJSON_Delete(open_model(c, 2));
    assert_int_equal(c->frame_bytes, HEAD + 2 * SLOT_BYTES);
  }
  client_free(c);
}

// prompt robots, and compare with what the model of a file says
static int is_z_of(Client *c, const char *path) {
  bfm_agent *agent;
  float z[64];
  int same = 1;
  cJSON *prompted = await(c, "prompted", say_prompt(c, -1, PROMPT_REWARD, "run"));
  good(bfm_agent_load(&agent, path, "{\"device\": \"cpu\"}"));
  good(bfm_agent_prompt_text(agent, 0, "run", 0, z));
  for (int i = 0; i < 64; i++) {
    double told = cJSON_GetArrayItem(cJSON_GetObjectItem(prompted, "z"), i)->valuedouble;
    same &= fabs(told - z[i]) < 1e-4;
  }
  bfm_agent_free(agent);
  cJSON_Delete(prompted);
  return same;
}

// A run writes a newer model, which the client of another page loads first: the robots of this page act
// with it from then on, and their prompts are worked out anew.
static void test_a_newer_model_takes_over(void **state) {
  (void)state;
  char path[128];
  bfm_agent *agent;
  snprintf(path, sizeof path, "/tmp/bfm-test-%d.safetensors", (int)getpid());
  good(bfm_agent_load(&agent, MODEL, "{\"device\": \"cpu\"}"));
  good(bfm_agent_export(agent, 0, path, 0, 0, 2000));
  Client *c = client_of(models_of(path));
  cJSON_Delete(open_model(c, 2));
  assert_true(is_z_of(c, path));
  until(c, is_past, time_of(c) + 0.2);

  good(bfm_agent_export(agent, 0, path, 0, 0, 500));
  Client *other = client_of(c->models);
  other->borrowed = 1;
  cJSON_Delete(open_model(other, 1));
  assert_int_equal(models_version(c->models, 0), 2);
  int tries = 0;
  while (!is_z_of(c, path)) assert_true(tries++ < 50);  // the worker looks four times a second
  assert_true(equal_slots(c));
  until(c, is_past, time_of(c) + 0.2);
  client_free(other);
  client_free(c);
  bfm_agent_free(agent);
  unlink(path);
}

// leaving in the middle of everything
static void test_ending_at_any_moment(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    Client *c = client_new();
    Message m = {.say = SAY_OPEN, .slots = 4};
    snprintf(m.text, sizeof m.text, "%s", models_label(c->models, 0));
    tell(c, m);
    say_prompt(c, -1, PROMPT_REWARD, "sum(actuator_force)");
    tell(c, (Message){.say = SAY_TAKE, .kind = TAKE_FILM, .seconds = 1});
    usleep(150000 * i);
    client_free(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opening_shows_the_robot),
      cmocka_unit_test(test_a_prompt_is_obeyed),
      cmocka_unit_test(test_a_drag_lifts_the_torso),
      cmocka_unit_test(test_pause_and_single_steps),
      cmocka_unit_test(test_resets),
      cmocka_unit_test(test_equal_prompts_give_equal_robots),
      cmocka_unit_test(test_the_latest_prompt_wins),
      cmocka_unit_test(test_errors_name_their_place),
      cmocka_unit_test(test_nothing_goes_without_a_model),
      cmocka_unit_test(test_garbage_harms_nobody),
      cmocka_unit_test(test_ghosts),
      cmocka_unit_test(test_downloads_can_be_used),
      cmocka_unit_test(test_a_film_delays_nothing),
      cmocka_unit_test(test_another_model_replaces_the_first),
      cmocka_unit_test(test_a_newer_model_takes_over),
      cmocka_unit_test(test_ending_at_any_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
