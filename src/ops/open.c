// Choosing the device. The CUDA backend is a plugin beside the library or the program. It is loaded
// only if there is an NVIDIA driver and a GPU, so one binary runs on machines with and without one.

#define _GNU_SOURCE  // dladdr
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files.h"
#include "ops/plugin.h"

// Asks the driver before the plugin is loaded: without a GPU, CUDA's libraries may be missing.
static int find_gpu(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return bfm_fail(BFM_UNAVAILABLE, "no GPU: the NVIDIA driver is not installed");
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
  int devices = 0, status = init && count ? init(0) : -1;
  if (!status) status = count(&devices);
  dlclose(driver);
  if (status || devices == 0) {
    return bfm_fail(BFM_UNAVAILABLE, "no GPU: the NVIDIA driver finds none (status %d)", status);
  }
  return BFM_OK;
}

// $BFM_CUDA_PLUGIN, or the plugin in the folder of the library or program that contains this code, or
// its bare name, which the loader looks for in the folder of libraries that make install has made.
// dladdr does not know the folder of a program that was started by its bare name.
static int plugin_path(char *path, size_t size) {
  const char *given = getenv("BFM_CUDA_PLUGIN");
  if (given && *given) {
    snprintf(path, size, "%s", given);
    return BFM_OK;
  }
  Dl_info info;
  if (!dladdr((void *)plugin_path, &info) || !info.dli_fname) {
    return bfm_fail(BFM_UNAVAILABLE,
                    "cannot find the folder of " CUDA_PLUGIN ": set BFM_CUDA_PLUGIN");
  }
  char *own = strchr(info.dli_fname, '/') ? realpath(info.dli_fname, NULL) : NULL;
  if (!own) own = realpath("/proc/self/exe", NULL);
  if (!own)
    return bfm_fail(BFM_UNAVAILABLE,
                    "cannot find the folder of " CUDA_PLUGIN ": set BFM_CUDA_PLUGIN");
  char *slash = strrchr(own, '/');
  snprintf(path, size, "%.*s/" CUDA_PLUGIN, (int)(slash - own), own);
  if (access(path, F_OK)) snprintf(path, size, CUDA_PLUGIN);
  free(own);
  return BFM_OK;
}

// The loader maps as much as the ELF header states; in a truncated file, touching a missing page
// would kill the process. The section table is the last thing in a file.
static int check_whole(const char *path) {
  Elf64_Ehdr head;
  FILE *file = NULL;
  if (!access(path, F_OK)) TRY(input_stream(path, &file));  // the loader reports a missing file
  int read = file && fread(&head, sizeof head, 1, file) == 1 && !fseek(file, 0, SEEK_END);
  uint64_t has = read ? (uint64_t)ftell(file) : 0, needs = 0;
  if (file) fclose(file);
  if (read && !memcmp(head.e_ident, ELFMAG, SELFMAG)) {
    needs = head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize;
  }
  if (has >= needs) return BFM_OK;  // the loader reports a file that is no plugin
  return bfm_fail(BFM_UNAVAILABLE, "the CUDA plugin %s is truncated: it has %lu of %lu bytes", path,
                  (unsigned long)has, (unsigned long)needs);
}

static int open_plugin(Ops **ops, const char *path, int device, Precision precision) {
  if (strchr(path, '/')) TRY(check_whole(path));
  // never closed: CUDA's threads may outlive the last handle
  void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!plugin) return bfm_fail(BFM_UNAVAILABLE, "cannot load the CUDA plugin: %s", dlerror());
  CudaOpen open = (CudaOpen)dlsym(plugin, CUDA_ENTRY);
  if (!open) return bfm_fail(BFM_UNAVAILABLE, "%s is not a plugin of bfm", path);
  return open(ops, device, precision, BFM_VERSION, OPS_SUM, bfm_fail);
}

static int open_cuda(Ops **ops, int device, Precision precision) {
  char path[4096];
  TRY(find_gpu());
  TRY(plugin_path(path, sizeof path));
  return open_plugin(ops, path, device, precision);
}

// the CPU if there is no GPU or no plugin; if there are both but the GPU fails, that is an error
static int open_any(Ops **ops, Precision precision, int threads) {
  char path[4096], why[512];
  if (find_gpu() || plugin_path(path, sizeof path) || access(path, F_OK)) {
    return ops_open_cpu(ops, precision_type(precision), threads);
  }
  int status = open_plugin(ops, path, 0, precision);
  if (!status) return BFM_OK;
  snprintf(why, sizeof why, "%s", bfm_error());
  return bfm_fail(status, "%s; use --device cpu to run without the GPU", why);
}

int ops_open(Ops **ops, const char *device, Precision precision, int threads) {
  *ops = NULL;
  if (!strcmp(device, "cpu")) return ops_open_cpu(ops, precision_type(precision), threads);
  if (!strcmp(device, "cuda")) return open_cuda(ops, 0, precision);
  if (!strcmp(device, "auto")) return open_any(ops, precision, threads);
  char *end;
  long number = strncmp(device, "cuda:", 5) ? -1 : strtol(device + 5, &end, 10);
  if (number < 0 || number > 1023 || !isdigit((unsigned char)device[5]) || *end) {
    return bfm_fail(BFM_BAD_ARGUMENT, "device is '%s', but must be auto, cpu, cuda or cuda:N",
                    device);
  }
  return open_cuda(ops, (int)number, precision);
}
