// The argument DOMAIN of a command line: a domain's name, the path of a robot's model or description, or a
// dataset or model, whose domain is meant.

#ifndef BFM_CLI_DOMAIN_ARG_H
#define BFM_CLI_DOMAIN_ARG_H

#include "envs/domain.h"

#define DOMAIN_ARG_HELP                                                                          \
  "DOMAIN is a name that bfm tasks lists, the .xml, .urdf or .yaml of a robot, or a dataset or " \
  "model."

int domain_arg(const Domain **domain, const char *text);

#endif
