// Pictures are decoded and films are read box by box to the end, so that cut and damaged files are
// noticed.

#include "cli/pictures.h"

#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"

// ---------------------------------- PNG ----------------------------------------------------------

#define MOST_PIXELS (1 << 28)

static int decode(const char *path, png_image *image) {
  if (!png_image_begin_read_from_file(image, path)) {
    return bfm_fail(BFM_BAD_FILE, "%s: %s", path, image->message);
  }
  if ((uint64_t)image->width * image->height > MOST_PIXELS) {
    return bfm_fail(BFM_BAD_FILE, "%s has %u x %u pixels, more than %d: it is not read", path,
                    image->width, image->height, MOST_PIXELS);
  }
  image->format = PNG_FORMAT_RGBA;
  void *pixels = malloc(PNG_IMAGE_SIZE(*image));
  if (!pixels) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int good = png_image_finish_read(image, NULL, pixels, 0, NULL);
  free(pixels);
  return good ? BFM_OK : bfm_fail(BFM_BAD_FILE, "%s: %s", path, image->message);
}

static int png_info_of(const char *path, cJSON *info) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  int status = decode(path, &image);
  if (!status) {
    cJSON_AddStringToObject(info, "kind", "picture");
    cJSON_AddNumberToObject(info, "width", image.width);
    cJSON_AddNumberToObject(info, "height", image.height);
  }
  png_image_free(&image);
  return status;
}

// ---------------------------------- mp4 ----------------------------------------------------------

typedef struct {
  uint64_t frames;
  double seconds, width, height;
} Film;

static uint64_t number(const unsigned char *at, int bytes) {
  uint64_t x = 0;
  for (int i = 0; i < bytes; i++) x = x << 8 | at[i];
  return x;
}

static int is(const unsigned char *type, const char *name) { return !memcmp(type, name, 4); }

// read duration, size or number of frames from a box that contains no other boxes
static void read_leaf(const unsigned char *type, const unsigned char *body, size_t size,
                      Film *film) {
  int is_64_bit = size && body[0] == 1;  // version 1: times have eight bytes, not four
  if (is(type, "mvhd") && size >= (is_64_bit ? 32u : 20u)) {
    const unsigned char *scale = body + (is_64_bit ? 20 : 12), *duration = scale + 4;
    double ticks = (double)number(scale, 4);
    if (ticks > 0) film->seconds = (double)number(duration, is_64_bit ? 8 : 4) / ticks;
  } else if (is(type, "tkhd") && size >= (is_64_bit ? 96u : 84u)) {
    film->width = (double)number(body + size - 8, 4) / 65536;
    film->height = (double)number(body + size - 4, 4) / 65536;
  } else if (is(type, "stsz") && size >= 12) {
    film->frames = number(body + 8, 4);
  }
}

// read the boxes from `at` to `end`; returns whether they fill this range exactly
static int read_boxes(const unsigned char *at, const unsigned char *end, int depth, Film *film) {
  static const char *const folders[] = {"moov", "trak", "mdia", "minf", "stbl"};
  while (at < end) {
    size_t left = (size_t)(end - at), head = 8;
    uint64_t size = left >= 8 ? number(at, 4) : 0;
    if (size == 1 && left >= 16) size = number(at + 8, 8), head = 16;
    if (size < head || size > left) return 0;
    const unsigned char *type = at + 4;
    int folder = 0;
    for (int i = 0; i < 5; i++) folder |= is(type, folders[i]);
    if (folder && depth < 8 && !read_boxes(at + head, at + size, depth + 1, film)) return 0;
    if (!folder) read_leaf(type, at + head, size - head, film);
    at += size;
  }
  return 1;
}

static int mp4_info(const char *path, cJSON *info) {
  char *bytes;
  size_t size;
  TRY(input_bytes(path, &bytes, &size));
  Film film = {.frames = 0};
  int whole = read_boxes((unsigned char *)bytes, (unsigned char *)bytes + size, 0, &film);
  free(bytes);
  if (!whole) return bfm_fail(BFM_BAD_FILE, "%s: the film is cut or damaged", path);
  if (!film.frames) return bfm_fail(BFM_BAD_FILE, "%s: the film has no frames", path);
  cJSON_AddStringToObject(info, "kind", "film");
  cJSON_AddNumberToObject(info, "width", film.width);
  cJSON_AddNumberToObject(info, "height", film.height);
  cJSON_AddNumberToObject(info, "frames", (double)film.frames);
  cJSON_AddNumberToObject(info, "seconds", film.seconds);
  return BFM_OK;
}

// ---------------------------------- SVG ----------------------------------------------------------

static int svg_info(const char *path, cJSON *info) {
  static const char last[] = "</svg>";
  char *bytes;
  size_t size;
  TRY(input_bytes(path, &bytes, &size));
  bytes[size] = 0;
  while (size && strchr(" \t\r\n", bytes[size - 1])) size--;
  int whole = strstr(bytes, "<svg") && size >= sizeof last - 1 &&
              !memcmp(bytes + size - (sizeof last - 1), last, sizeof last - 1);
  free(bytes);
  if (!whole) return bfm_fail(BFM_BAD_FILE, "%s is cut, or is not an SVG file", path);
  cJSON_AddStringToObject(info, "kind", "plot");
  return BFM_OK;
}

// ---------------------------------- kinds by first bytes -----------------------------------------

PictureInfo *picture_of(const char *head, size_t size) {
  if (size >= 8 && !memcmp(head, "\x89PNG\r\n\x1a\n", 8)) return png_info_of;
  if (size >= 8 && !memcmp(head + 4, "ftyp", 4)) return mp4_info;
  if (size >= 5 && (!memcmp(head, "<?xml", 5) || !memcmp(head, "<svg ", 5))) return svg_info;
  return NULL;
}
