// Robots that are no rows of the table in domain.c: those of a user's own files, and those that datasets
// and models carry. Each has a name that tells its contents, "my_robot#1f0c97e2": the name of its file
// and a hash of its canonical description, its XML and its assets. Files store that name as any other
// domain's, and the robot's files beside it. A registered robot stays for the life of the process.

#ifndef BFM_ENVS_REGISTRY_H
#define BFM_ENVS_REGISTRY_H

#include "envs/bundle.h"
#include "envs/domain.h"

enum { ROBOT_NAME = 64 };  // bytes of a robot's name

// whether a domain's name is that of a robot with files
int registry_is_name(const char *name);

// The domain of the robot whose model or description is at a path, registered under the name of its
// contents. The robot is read again at each call: a file that has changed is another robot.
int registry_read(const Domain **domain, const char *path);

// The domain registered under a name. A robot out of a file is compiled when it is first asked for.
int registry_find(const Domain **domain, const char *name);

// Registers the robot that a dataset or model carries, without compiling it. Takes the bundle, also
// after a failure. The name must be that of its contents. origin: registry_origin's text, or NULL
int registry_add(Bundle *bundle, const char *name, const char *origin);

// The files of the robot of this name, or NULL
const Bundle *registry_files(const char *name);

// Where the robot was read from, as a dataset and a model remember it: "robots/mine.yaml 5e1c…", the
// path and a hash of the files. "" if that path means nothing to others
const char *registry_origin(const char *name);

// Whether the files that the robot was read from are there and have changed since. *path: theirs
int registry_has_changed(const char *name, const char **path);

#endif
