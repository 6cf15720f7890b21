// Pictures: something is drawn, and an error of MuJoCo's renderer becomes a status instead of the end
// of the process.

#define _GNU_SOURCE  // mkstemps

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/status.h"
#include "render/render.h"

enum { SIDE = 32 };

// for sanitized builds: OSMesa never frees some of its memory
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libOSMesa\nleak:libEGL\n"; }

static const World *world_of(const char *name) {
  const Domain *domain;
  const World *world;
  assert_int_equal(domain_find(&domain, name), BFM_OK);
  assert_int_equal(world_acquire(&world, domain), BFM_OK);
  return world;
}

static void draw_once(const World *world) {
  Render *render;
  uint8_t rgb[SIDE * SIDE * 3] = {0};
  assert_int_equal(render_new(&render, world, SIDE, SIDE), BFM_OK);
  assert_int_equal(render_draw(render, world->model->qpos0, rgb, 3 * SIDE), BFM_OK);
  render_free(render);
  int drawn = 0;
  for (size_t i = 0; i < sizeof rgb; i++) drawn += rgb[i] != 0;
  assert_true(drawn > SIDE * SIDE / 2);
}

static void test_errors_of_mujoco(void **state) {
  const World *world = *state;
  Render *render;
  mjVisual good = world->model->vis;
  world->model->vis.global.offwidth = -5;
  assert_int_equal(render_new(&render, world, SIDE, SIDE), BFM_UNAVAILABLE);
  assert_non_null(strstr(bfm_error(), "MuJoCo cannot draw"));
  world->model->vis = good;
  draw_once(world);
}

static void test_sizes(void **state) {
  Render *render;
  assert_int_equal(render_new(&render, *state, 8, SIDE), BFM_BAD_ARGUMENT);
  assert_int_equal(render_new(&render, *state, SIDE, 10000), BFM_BAD_ARGUMENT);
}

// A red robot on a large black floor, which falls, stands or flies: pictures show it, and not only a dot of it.
static void test_a_robot_is_seen(void **state) {
  (void)state;
  static const char xml[] =
      "<mujoco><worldbody><light pos='0 0 3' dir='0 0 -1'/>"
      "<geom type='plane' size='50 50 1' rgba='0 0 0 1'/>"
      "<body name='box' pos='0 0 .5'><freejoint/><geom type='box' size='.2 .2 .2' rgba='1 0 0 1'/>"
      "<body><joint name='j' axis='0 1 0'/><geom size='.1' rgba='1 0 0 "
      "1'/></body></body></worldbody>"
      "<actuator><motor joint='j'/></actuator></mujoco>";
  static const double heights[] = {0.2, 0.5, 5};
  char path[] = "/tmp/test_render_XXXXXX.xml";
  int fd = mkstemps(path, 4);
  assert_true(fd >= 0 && write(fd, xml, sizeof xml - 1) == sizeof xml - 1 && !close(fd));
  const World *world = world_of(path);
  unlink(path);
  Render *render;
  assert_int_equal(render_new(&render, world, SIDE, SIDE), BFM_OK);
  for (int i = 0; i < 3; i++) {
    const double qpos[] = {40, 7, heights[i], 1, 0, 0, 0, 0};
    uint8_t rgb[SIDE * SIDE * 3];
    int red = 0;
    assert_int_equal(render_draw(render, qpos, rgb, 3 * SIDE), BFM_OK);
    for (int p = 0; p < SIDE * SIDE; p++) red += rgb[3 * p] > 60 && rgb[3 * p + 1] < 30;
    assert_in_range(red, SIDE * SIDE / 12, SIDE * SIDE * 3 / 4);
  }
  render_free(render);
  world_release(world);
}

int main(void) {
  const World *world = world_of("point_mass");
  Render *render;
  int here = !render_new(&render, world, SIDE, SIDE);
  if (here) render_free(render);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_errors_of_mujoco, (void *)world),
      cmocka_unit_test_prestate(test_sizes, (void *)world),
      cmocka_unit_test(test_a_robot_is_seen),
  };
  int failed = here ? cmocka_run_group_tests(tests, NULL, NULL) : 0;  // else there is no OpenGL
  world_release(world);
  return failed;
}
