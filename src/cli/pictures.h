// What bfm draws: strips and plots (PNG), films (mp4), plots (SVG).

#ifndef BFM_CLI_PICTURES_H
#define BFM_CLI_PICTURES_H

#include <cjson/cJSON.h>

// add what such a file shows, or fail where it is damaged
typedef int PictureInfo(const char *path, cJSON *info);

// which of them a file is by its first bytes; NULL: none
PictureInfo *picture_of(const char *head, size_t size);

#endif
