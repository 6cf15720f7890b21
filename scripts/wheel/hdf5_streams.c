// What HDF5's static archive needs inside a shared library. Its objects are compiled for programs, so
// they address three variables of libc directly, which a shared library cannot do. The wheel renames
// these variables in the archive, and here they are.

#include <stdio.h>

extern char **environ;
FILE *hdf5_stderr, *hdf5_stdout;
char **hdf5_environ;

__attribute__((constructor)) static void fill(void) {
  hdf5_stderr = stderr;
  hdf5_stdout = stdout;
  hdf5_environ = environ;
}
