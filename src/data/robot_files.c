// A robot's files in a dataset: "robot/my_robot.xml", "robot/meshes/foot.stl", … of one axis of bytes
// each, which other programs can read, too.

#include "data/robot_files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "envs/registry.h"

#define GROUP "robot"

// ---------------------------------- writing ------------------------------------------------------

static int write_file(hid_t group, const BundleFile *robot) {
  hsize_t size = robot->size;
  hid_t space = H5Screate_simple(1, &size, NULL), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  hid_t table =
      H5Dcreate2(group, robot->name, H5T_STD_U8LE, space, links, H5P_DEFAULT, H5P_DEFAULT);
  herr_t result = table < 0 ? -1 : 0;
  if (!result && size) {
    result = H5Dwrite(table, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, robot->bytes);
  }
  if (table >= 0) H5Dclose(table);
  H5Pclose(links);
  H5Sclose(space);
  return result < 0 ? bfm_fail(BFM_IO, "cannot write the robot's file %s", robot->name) : BFM_OK;
}

int robot_files_write(hid_t file, const char *env) {
  const Bundle *bundle = registry_files(env);
  const BundleFile *robot;
  if (!bundle) return BFM_OK;
  hid_t group = H5Gcreate2(file, GROUP, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0) return bfm_fail(BFM_IO, "cannot write the robot's files");
  int status = BFM_OK;
  if (*registry_origin(env)) status = hdf5_put_text(group, "origin", registry_origin(env));
  for (int i = 0; (robot = bundle_file(bundle, i)) && !status; i++) {
    status = write_file(group, robot);
  }
  H5Gclose(group);
  return status;
}

// ---------------------------------- reading ------------------------------------------------------

typedef struct {
  Bundle *bundle;
  int status;
} Visit;

// the number of a table's bytes, or negative if it is none
static hssize_t byte_count(hid_t table) {
  hid_t type = H5Dget_type(table), space = H5Dget_space(table);
  hssize_t count = H5Sget_simple_extent_ndims(space) == 1 && H5Tequal(type, H5T_STD_U8LE) > 0
                       ? H5Sget_simple_extent_npoints(space)
                       : -1;
  H5Sclose(space);
  H5Tclose(type);
  return count;
}

static int read_file(Bundle *bundle, hid_t table, const char *name) {
  hssize_t count = byte_count(table);
  if (count < 0 || count > BUNDLE_BYTES) {
    return bfm_fail(BFM_BAD_FILE, "the robot's file %.200s is not a table of bytes", name);
  }
  char *bytes = malloc((size_t)count + 1);
  if (!bytes) return bfm_fail(BFM_NO_MEMORY, "out of memory for %.200s", name);
  int status = BFM_OK;
  if (count && H5Dread(table, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0) {
    status = bfm_fail(BFM_BAD_FILE, "cannot read the robot's file %.200s", name);
  }
  if (!status) status = bundle_add(bundle, name, bytes, (size_t)count);
  free(bytes);
  return status;
}

// hard links alone: others could lead to other files
static herr_t visit(hid_t group, const char *name, const H5L_info_t *link, void *context) {
  Visit *v = context;
  if (link->type != H5L_TYPE_HARD) {
    v->status = bfm_fail(BFM_BAD_FILE, "the robot's file %.200s is a link", name);
    return -1;
  }
  hid_t object = H5Oopen(group, name, H5P_DEFAULT);
  if (object < 0) v->status = bfm_fail(BFM_BAD_FILE, "cannot read the robot's file %.200s", name);
  else if (H5Iget_type(object) == H5I_DATASET) v->status = read_file(v->bundle, object, name);
  if (object >= 0) H5Oclose(object);
  return v->status ? -1 : 0;
}

static int read_group(hid_t group, const char *env) {
  char origin[PATH_MAX + 32];
  Visit v = {0};
  TRY(bundle_new(&v.bundle));
  if (H5Lvisit(group, H5_INDEX_NAME, H5_ITER_INC, visit, &v) < 0 && !v.status) {
    v.status = bfm_fail(BFM_BAD_FILE, "cannot list the robot's files");
  }
  if (v.status) {
    bundle_free(v.bundle);
    return v.status;
  }
  hdf5_attribute(group, "origin", origin, sizeof origin);
  return registry_add(v.bundle, env, origin);
}

int robot_files_read(hid_t file) {
  char env[ROBOT_NAME];
  hdf5_attribute(file, "env", env, sizeof env);
  if (!registry_is_name(env) || registry_files(env) || !hdf5_has(file, GROUP)) return BFM_OK;
  hid_t group = H5Gopen2(file, GROUP, H5P_DEFAULT);
  if (group < 0) return bfm_fail(BFM_BAD_FILE, "cannot read the robot's files");
  int status = read_group(group, env);
  H5Gclose(group);
  return status;
}
