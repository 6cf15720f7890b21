// Robots of the user's own: a path and a name are the same robot as long as its files are, whoever asks
// first, on however many threads.

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"
#include "envs/registry.h"
#include "envs/tasks.h"

enum { THREADS = 8 };

static char folder[64], path[128];

static void write_robot(const char *pole) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "<mujoco><worldbody><body name='pole' pos='0 0 1'><joint name='hinge' axis='0 1 0'/>"
          "<geom size='.1' mass='%s'/></body></worldbody>"
          "<actuator><motor joint='hinge' ctrlrange='-1 1'/></actuator></mujoco>",
          pole);
  fclose(file);
}

static int set_up(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/bfm-registry-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/pole.xml", folder);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static const Domain *find(const char *name) {
  const Domain *domain;
  if (domain_find(&domain, name)) fail_msg("%s", bfm_error());
  return domain;
}

static void test_a_path_and_a_name_are_one_robot(void **state) {
  (void)state;
  const char *changed;
  write_robot("1");
  const Domain *light = find(path);
  assert_true(registry_is_name(light->name));
  assert_memory_equal(light->name, "pole#", 5);
  assert_ptr_equal(find(path), light);
  assert_ptr_equal(find(light->name), light);
  assert_false(registry_has_changed(light->name, &changed));

  write_robot("2");
  assert_true(registry_has_changed(light->name, &changed));
  assert_string_equal(changed, path);
  const Domain *heavy = find(path);
  assert_ptr_not_equal(heavy, light);
  assert_string_not_equal(heavy->name, light->name);
  assert_ptr_equal(find(light->name), light);  // both live on

  write_robot("1");
  assert_ptr_equal(find(path), light);
}

static void *find_on_a_thread(void *found) {
  const World *world;
  const Domain **domain = found;
  if (domain_find(domain, path) || world_acquire(&world, *domain)) *domain = NULL;
  else world_release(world);
  return NULL;
}

static void test_threads_find_the_same_robot(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  const Domain *found[THREADS];
  write_robot("3");
  for (int i = 0; i < THREADS; i++) pthread_create(threads + i, NULL, find_on_a_thread, found + i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_non_null(found[i]);
    assert_ptr_equal(found[i], found[0]);
  }
}

static Bundle *copy_of(const char *name) {
  const Bundle *bundle = registry_files(name);
  const BundleFile *file;
  Bundle *copy;
  assert_non_null(bundle);
  assert_int_equal(bundle_new(&copy), 0);
  for (int i = 0; (file = bundle_file(bundle, i)); i++) {
    assert_int_equal(bundle_add(copy, file->name, file->bytes, file->size), 0);
  }
  return copy;
}

static void test_carried_robots_have_the_names_of_their_files(void **state) {
  (void)state;
  char other[ROBOT_NAME];
  write_robot("4");
  const Domain *domain = find(path);
  assert_int_equal(registry_add(copy_of(domain->name), domain->name, NULL), 0);  // once more
  assert_ptr_equal(find(domain->name), domain);

  snprintf(other, sizeof other, "%s", domain->name);
  other[strlen(other) - 1] ^= 1;
  assert_int_equal(registry_add(copy_of(domain->name), other, NULL), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), "are not its own"));
  assert_null(registry_files(other));

  // another name before the hash is another robot, which is compiled when somebody asks for it
  snprintf(other, sizeof other, "stick%s", strchr(domain->name, '#'));
  assert_int_equal(registry_add(copy_of(domain->name), other, "../stick.xml 12"), 0);
  assert_string_equal(registry_origin(other), "");  // that path means nothing to others
  const Domain *stick = find(other);
  assert_int_equal(stick->obs_dim, domain->obs_dim);
  assert_int_equal(stick->substeps, domain->substeps);

  Bundle *empty;
  assert_int_equal(bundle_new(&empty), 0);
  assert_int_equal(registry_add(empty, "a#12345678", NULL), BFM_BAD_FILE);
}

static void test_the_public_interface_takes_paths(void **state) {
  (void)state;
  double qpos[2] = {0, 1}, rewards[2];
  bfm_env *env;
  write_robot("5");
  if (bfm_env_new(&env, path, 2, 0, 1)) fail_msg("%s", bfm_error());
  bfm_env_free(env);
  if (bfm_domain_rewards(path, "hinge", 2, qpos, NULL, NULL, 1, rewards)) {
    fail_msg("%s", bfm_error());
  }
  assert_true(rewards[0] == 0 && rewards[1] == 1);
  assert_null(bfm_domain_task(path, 0, NULL, NULL));
  unlink(path);
  assert_int_equal(bfm_env_new(&env, path, 2, 0, 1), BFM_IO);
  assert_int_equal(bfm_env_new(&env, "pole#00000000", 2, 0, 1), BFM_BAD_ARGUMENT);
  write_robot("5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_path_and_a_name_are_one_robot),
      cmocka_unit_test(test_threads_find_the_same_robot),
      cmocka_unit_test(test_carried_robots_have_the_names_of_their_files),
      cmocka_unit_test(test_the_public_interface_takes_paths),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
