// One XML text from a model's file and the files that it includes, and the list of all files that the
// text names, with the places in the text where it does.

#ifndef BFM_ENVS_FLATTEN_H
#define BFM_ENVS_FLATTEN_H

#include <stddef.h>

#include "envs/xml.h"

typedef enum {
  REF_MESH_FOLDER,     // compiler: where meshes, height fields and skins lie
  REF_TEXTURE_FOLDER,  // compiler: where textures lie
  REF_ASSET_FOLDER,    // compiler: both
  REF_MESH,            // a file below the folder of meshes
  REF_TEXTURE,         // a file below the folder of textures
} RefKind;

// a place in the text that names a file or a folder
typedef struct {
  RefKind kind;
  size_t tag;  // in the text
  size_t at;   // of the value in the text
  int length;  // of it
  int needed;  // 0: MuJoCo does not read this file
  int source;  // the file that has it, an index into FlatText.sources
  int line;    // in that file
} Ref;

// where a stretch of the text comes from
typedef struct {
  int line, source, source_line;
} Origin;

typedef struct {
  char *text;  // and a zero after it
  size_t size, room;
  int is_urdf, strippath;
  char **sources;  // paths of the model and the files it includes
  int source_count;
  Ref *refs;
  int ref_count;
  Origin *origins;  // by line
  int origin_count;
  int lines;
} FlatText;

// Reads a model and what it includes. bytes NULL: the file at the path; else its `size` bytes, which
// may not include anything. The caller frees `flat` even after a failure.
int flat_read(FlatText *flat, const char *path, const char *bytes, size_t size);
void flat_free(FlatText *flat);

// fails with the file and the line where a reference is
int flat_fail(const FlatText *flat, const Ref *ref, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// the file and its line behind a line of the text
void flat_origin(const FlatText *flat, int line, const char **file, int *file_line);

#endif
