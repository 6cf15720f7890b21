// bfm info for pictures: strips and plots (PNG), films (mp4) and plots (SVG).

#ifndef BFM_CLI_PICTURES_H
#define BFM_CLI_PICTURES_H

#include <cjson/cJSON.h>

// Add the size and kind of a picture to `info`. Fails if the file is damaged.
typedef int PictureInfo(const char *path, cJSON *info);

// Return the function for a file with these first bytes, or NULL if it is not a picture.
PictureInfo *picture_of(const char *head, size_t size);

#endif
