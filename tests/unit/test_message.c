// Messages of the playground's clients: each kind arrives with its fields, and every field that is
// missing, unknown, of a wrong type or out of range is refused in one sentence.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "serve/message.h"

static Message message;

static void accept(const char *text) {
  if (message_read(&message, text, strlen(text))) fail_msg("%s: %s", text, bfm_error());
}

// the text is refused, and the error contains `part`
static void refuse(const char *text, size_t size, const char *part) {
  assert_int_equal(message_read(&message, text, size), BFM_BAD_ARGUMENT);
  if (!strstr(bfm_error(), part)) fail_msg("%s: \"%s\" lacks \"%s\"", text, bfm_error(), part);
}

static void test_every_kind_is_read(void **state) {
  (void)state;
  accept(" {\"do\":\"open\",\"model\":\"walker\",\"slots\":4,\"seed\":9007199254740991}\r\n");
  assert_int_equal(message.say, SAY_OPEN);
  assert_string_equal(message.text, "walker");
  assert_int_equal(message.slots, 4);
  assert_int_equal(message.seed, 9007199254740991);
  accept("{\"do\":\"open\",\"model\":\"läufer\"}");
  assert_int_equal(message.slots, 1);
  accept("{\"do\":\"check\",\"id\":7,\"text\":\"torso.z > 1\",\"kind\":\"goal\"}");
  assert_int_equal(message.say, SAY_CHECK);
  assert_int_equal(message.id, 7);
  assert_int_equal(message.kind, PROMPT_GOAL);
  accept(
      "{\"do\":\"prompt\",\"slot\":-1,\"kind\":\"z\",\"z\":[1,-2.5,3e1],\"ramp\":0.5,\"softmax\":"
      "2}");
  assert_int_equal(message.say, SAY_PROMPT);
  assert_int_equal(message.slot, -1);
  assert_int_equal(message.count, 3);
  assert_true(message.numbers[1] == -2.5 && message.ramp == 0.5 && message.softmax == 2);
  accept("{\"do\":\"ghost\",\"qpos\":[1]}");
  assert_int_equal(message.on, 1);
  accept("{\"do\":\"ghost\",\"off\":true}");
  assert_int_equal(message.on, 0);
  accept("{\"do\":\"reset\",\"how\":\"random\"}");
  assert_int_equal(message.kind, RESET_RANDOM);
  accept("{\"do\":\"push\",\"slot\":2,\"body\":3,\"at\":[1,2,3],\"impulse\":[4,5,6]}");
  assert_true(message.body == 3 && message.at[2] == 3 && message.to[0] == 4);
  accept("{\"do\":\"take\",\"id\":1,\"what\":\"trajectory\",\"seconds\":30}");
  assert_int_equal(message.kind, TAKE_TRAJECTORY);
  const char *const others[] = {
      "{\"do\":\"pause\",\"on\":true}",
      "{\"do\":\"step\"}",
      "{\"do\":\"speed\",\"factor\":4}",
      "{\"do\":\"act\",\"es\":256,\"noise\":1}",
      "{\"do\":\"release\"}",
      "{\"do\":\"cancel\",\"id\":2}",
      "{\"do\":\"drag\",\"slot\":0,\"body\":1,\"at\":[0,0,0],\"to\":[1,1,1]}",
      "{\"do\":\"ack\",\"seq\":12}",
      "{\"do\":\"take\",\"what\":\"z\"}",
      "{\"do\":\"prompt\",\"kind\":\"demo\",\"seconds\":10}",
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) accept(others[i]);
}

static void test_bad_messages_are_refused(void **state) {
  (void)state;
  const char *const rows[][2] = {
      {"", "not one JSON object"},
      {"{\"do\":\"step\"} {}", "not one JSON object"},
      {"{\"do\":\"step\"", "not one JSON object"},
      {"[]", "must be a JSON object"},
      {"7", "must be a JSON object"},
      {"{}", "\"do\" names no message"},
      {"{\"do\":7}", "\"do\" names no message"},
      {"{\"do\":\"fly\"}", "\"do\" names no message"},
      {"{\"do\":\"step\",\"path\":\"/etc/passwd\"}", "\"step\" has no field \"path\""},
      {"{\"do\":\"open\"}", "\"open\" lacks the field \"model\""},
      {"{\"do\":\"open\",\"model\":7}", "\"model\" must be a text"},
      {"{\"do\":\"open\",\"model\":\"w\",\"slots\":3}", "\"slots\" must be 1, 2 or 4, not 3"},
      {"{\"do\":\"open\",\"model\":\"w\",\"slots\":5}", "\"slots\" is 5, but must be from 1 to 4"},
      {"{\"do\":\"open\",\"model\":\"w\",\"seed\":1.5}", "\"seed\" must be a whole number"},
      {"{\"do\":\"open\",\"model\":\"w\",\"seed\":-1}", "\"seed\" is -1"},
      {"{\"do\":\"open\",\"model\":\"w\",\"seed\":\"1\"}", "\"seed\" must be a number"},
      {"{\"do\":\"open\",\"model\":\"a\\u0000b\"}", "zero byte"},
      {"{\"do\":\"check\",\"kind\":\"reward\"}", "lacks the field \"text\""},
      {"{\"do\":\"check\",\"text\":\"1\",\"kind\":\"pose\"}",
       "\"kind\" must be one of reward|goal"},
      {"{\"do\":\"check\",\"text\":\"1\",\"kind\":\"\"}", "\"kind\" must be one of reward|goal"},
      {"{\"do\":\"check\",\"text\":\"1 > ü\",\"kind\":\"goal\"}",
       "byte 4 of the text is not ASCII"},
      {"{\"do\":\"prompt\",\"kind\":\"reward\"}", "the prompt lacks \"text\""},
      {"{\"do\":\"prompt\",\"kind\":\"pose\",\"qpos\":[]}", "the prompt lacks \"qpos\""},
      {"{\"do\":\"prompt\",\"kind\":\"demo\"}", "the prompt lacks \"seconds\""},
      {"{\"do\":\"prompt\",\"kind\":\"z\",\"z\":[1,\"2\"]}", "\"z\" must be a number"},
      {"{\"do\":\"prompt\",\"kind\":\"z\",\"z\":[1e999]}", "\"z\" is inf"},
      {"{\"do\":\"prompt\",\"kind\":\"z\",\"z\":[NaN]}", "not one JSON object"},
      {"{\"do\":\"prompt\",\"kind\":\"z\",\"z\":7}", "\"z\" must be an array of numbers"},
      {"{\"do\":\"prompt\",\"kind\":\"reward\",\"text\":\"1\",\"ramp\":11}", "\"ramp\" is 11"},
      {"{\"do\":\"prompt\",\"kind\":\"reward\",\"text\":\"1\",\"slot\":4}", "\"slot\" is 4"},
      {"{\"do\":\"ghost\"}", "\"ghost\" lacks the field \"qpos\""},
      {"{\"do\":\"pause\",\"on\":1}", "\"on\" must be true or false"},
      {"{\"do\":\"speed\",\"factor\":0}", "\"factor\" is 0, but must be from 0.1 to 4"},
      {"{\"do\":\"act\",\"es\":257}", "\"es\" is 257"},
      {"{\"do\":\"act\",\"noise\":-0.1}", "\"noise\" is -0.1"},
      {"{\"do\":\"drag\",\"body\":1,\"at\":[0,0],\"to\":[0,0,0]}", "\"at\" must be an array of 3"},
      {"{\"do\":\"drag\",\"body\":1,\"at\":[0,0,0,0],\"to\":[0,0,0]}", "\"at\" has more than 3"},
      {"{\"do\":\"drag\",\"body\":1,\"at\":[0,0,1e5],\"to\":[0,0,0]}", "\"at\" is 100000"},
      {"{\"do\":\"drag\",\"body\":-1,\"at\":[0,0,0],\"to\":[0,0,0]}", "\"body\" is -1"},
      {"{\"do\":\"take\",\"what\":\"film\"}", "\"take\" lacks the field \"seconds\""},
      {"{\"do\":\"take\",\"what\":\"film\",\"seconds\":31}", "\"seconds\" is 31"},
      {"{\"do\":\"cancel\"}", "\"cancel\" lacks the field \"id\""},
      {"{\"do\":\"ack\",\"seq\":[1]}", "\"seq\" must be a number"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    refuse(rows[i][0], strlen(rows[i][0]), rows[i][1]);
  }
  refuse("{\"do\":\"step\"}\0", 14, "zero byte");
}

static void test_an_error_keeps_the_id(void **state) {
  (void)state;
  const char *text = "{\"id\":41,\"do\":\"check\",\"text\":7}";
  refuse(text, strlen(text), "\"text\" must be a text");
  assert_int_equal(message.id, 41);
  text = "{\"do\":\"check\",\"id\":\"x\"}";
  refuse(text, strlen(text), "\"id\" must be a number");
  assert_int_equal(message.id, 0);
}

// {"do":"check","kind":"reward","text":"111…"} with so many characters of text
static size_t long_text(char *out, size_t size, size_t characters) {
  int n = snprintf(out, size, "{\"do\":\"check\",\"kind\":\"reward\",\"text\":\"");
  memset(out + n, '1', characters);
  return n + characters + snprintf(out + n + characters, size - n - characters, "\"}");
}

static void test_sizes_are_bounded(void **state) {
  (void)state;
  static char text[2 * MESSAGE_BYTES];
  size_t size = long_text(text, sizeof text, MESSAGE_TEXT - 1);
  assert_int_equal(message_read(&message, text, size), BFM_OK);
  assert_int_equal(strlen(message.text), MESSAGE_TEXT - 1);
  size = long_text(text, sizeof text, MESSAGE_TEXT);
  refuse(text, size, "\"text\" has 2000 characters; at most 1999");
  size = long_text(text, sizeof text, MESSAGE_BYTES);
  refuse(text, size, "bytes; at most 16384");

  int n = snprintf(text, sizeof text, "{\"do\":\"ghost\",\"qpos\":[1");
  for (int i = 1; i < MESSAGE_NUMBERS; i++) n += snprintf(text + n, sizeof text - n, ",%d", i % 9);
  snprintf(text + n, sizeof text - n, "]}");
  accept(text);
  assert_int_equal(message.count, MESSAGE_NUMBERS);
  snprintf(text + n, sizeof text - n, ",1]}");
  refuse(text, strlen(text), "\"qpos\" has more than 1024 numbers");
  memset(text, '[', MESSAGE_BYTES);
  refuse(text, MESSAGE_BYTES, "not one JSON object");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_kind_is_read),
      cmocka_unit_test(test_bad_messages_are_refused),
      cmocka_unit_test(test_an_error_keeps_the_id),
      cmocka_unit_test(test_sizes_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
