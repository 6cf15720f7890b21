// Pictures: something is drawn, and an error of MuJoCo's renderer becomes a status instead of the end
// of the process.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

int main(void) {
  const World *world = world_of("point_mass");
  Render *render;
  int here = !render_new(&render, world, SIDE, SIDE);
  if (here) render_free(render);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_errors_of_mujoco, (void *)world),
      cmocka_unit_test_prestate(test_sizes, (void *)world),
  };
  int failed = here ? cmocka_run_group_tests(tests, NULL, NULL) : 0;  // else there is no OpenGL
  world_release(world);
  return failed;
}
