// From an argument to a domain. Datasets and models name theirs and carry a user's own robot.

#include "cli/domain_arg.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/warn.h"
#include "data/robot_files.h"
#include "nets/checkpoint.h"

enum { ENV = 64 };  // bytes of a domain's name

static int of_model(char env[ENV], const char *path) {
  SafeTensors *file;
  TRY(checkpoint_open(&file, path));
  const char *name = safetensors_metadata(file, "env");
  snprintf(env, ENV, "%s", name ? name : "");
  safetensors_close(file);
  return BFM_OK;
}

static int read_env(hid_t file, void *env) {
  hdf5_attribute(file, "env", env, ENV);
  return robot_files_read(file);
}

int domain_arg(const Domain **domain, const char *text) {
  char env[ENV] = "";
  int model = cli_has_suffix(text, ".safetensors");
  if (!model && !cli_has_suffix(text, ".h5") && !cli_has_suffix(text, ".hdf5")) {
    return domain_find(domain, text);
  }
  TRY(model ? of_model(env, text) : hdf5_use(text, read_env, env));
  if (!*env) return bfm_fail(BFM_BAD_FILE, "%s does not name its domain", text);
  if (domain_find(domain, env)) return bfm_fail_prefix(BFM_BAD_FILE, "%s: ", text);
  warn_of_robot(env);
  return BFM_OK;
}
