// Meshes, height fields and textures as binary messages. MuJoCo gives a corner of a face one index for
// its position, one for its normal and one for its place in the texture; WebGL has one for all, so every
// combination that occurs becomes a vertex.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/scene.h"

enum { KIND_BLOB = 2, BLOB_MESH = 1, BLOB_TEXTURE = 2, TEXTURE_MOST = 512 };

static unsigned char *put_head(unsigned char *out, int what, int id) {
  memset(out, 0, 4);
  out[0] = KIND_BLOB;
  out[1] = (unsigned char)what;
  return put_u32(out + 4, (uint32_t)id);
}

// ---------------------------------- meshes -------------------------------------------------------

typedef struct {
  int vertices, faces;
  float *position, *normal;  // [vertices, 3]
  float *uv;                 // [vertices, 2]
  uint32_t *index;           // [faces, 3]
  void *memory;
} Surface;

static int surface_new(Surface *s, int vertices, int faces) {
  *s = (Surface){.faces = faces};
  s->memory = calloc(8 * (size_t)vertices + 3 * (size_t)faces + 1, sizeof(float));
  if (!s->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for a mesh");
  s->position = s->memory;
  s->normal = s->position + 3 * (size_t)vertices;
  s->uv = s->normal + 3 * (size_t)vertices;
  s->index = (uint32_t *)(s->uv + 2 * (size_t)vertices);
  return BFM_OK;
}

static int send_surface(const Surface *s, int id, Outbox *outbox) {
  size_t v = (size_t)s->vertices, f = (size_t)s->faces, bytes = 16 + 32 * v + 12 * f;
  unsigned char *message = malloc(bytes);
  if (!message) return bfm_fail(BFM_NO_MEMORY, "out of memory for a mesh");
  unsigned char *at = put_head(message, BLOB_MESH, id);
  at = put_u32(put_u32(at, (uint32_t)v), (uint32_t)f);
  memcpy(at, s->position, 12 * v);
  memcpy(at + 12 * v, s->normal, 12 * v);
  memcpy(at + 24 * v, s->uv, 8 * v);
  memcpy(at + 32 * v, s->index, 12 * f);
  outbox_blob(outbox, message, bytes);
  free(message);
  return BFM_OK;
}

typedef struct {
  int position, normal, uv;  // indices within the mesh; uv -1: none
} Corner;

// an open hash table from corners to vertices
typedef struct {
  Corner *corners;
  int *vertices;  // -1: free
  size_t size;    // a power of 2
} Corners;

static int corners_new(Corners *table, int count) {
  for (table->size = 16; table->size < 2 * (size_t)count;) table->size *= 2;
  table->corners = malloc(table->size * sizeof *table->corners);
  table->vertices = malloc(table->size * sizeof *table->vertices);
  if (!table->corners || !table->vertices)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a mesh");
  memset(table->vertices, -1, table->size * sizeof *table->vertices);
  return BFM_OK;
}

static void corners_free(Corners *table) {
  free(table->corners);
  free(table->vertices);
}

// the vertex of a corner, or -1, and where it is in the table
static int corners_find(const Corners *table, Corner c, size_t *at) {
  uint64_t hash = (uint64_t)c.position * 0x9E3779B97F4A7C15u ^
                  (uint64_t)c.normal * 0xC2B2AE3D27D4EB4Fu ^ (uint64_t)c.uv * 0x165667B19E3779F9u;
  for (*at = (hash >> 20) & (table->size - 1); table->vertices[*at] >= 0;
       *at = (*at + 1) & (table->size - 1)) {
    const Corner *has = &table->corners[*at];
    if (has->position == c.position && has->normal == c.normal && has->uv == c.uv) {
      return table->vertices[*at];
    }
  }
  return -1;
}

static int add_vertex(Surface *s, const mjModel *m, int mesh, Corner c) {
  int i = s->vertices++;
  memcpy(s->position + 3 * (size_t)i, m->mesh_vert + 3 * (m->mesh_vertadr[mesh] + c.position),
         3 * sizeof(float));
  memcpy(s->normal + 3 * (size_t)i, m->mesh_normal + 3 * (m->mesh_normaladr[mesh] + c.normal),
         3 * sizeof(float));
  if (c.uv >= 0) {
    const float *uv = m->mesh_texcoord + 2 * (m->mesh_texcoordadr[mesh] + c.uv);
    s->uv[2 * (size_t)i] = uv[0];
    s->uv[2 * (size_t)i + 1] = 1 - uv[1];  // MuJoCo's first row is at 0, the browser's at 1
  }
  return i;
}

static void join_corners(Surface *s, const mjModel *m, int mesh, Corners *table) {
  int first = 3 * m->mesh_faceadr[mesh], textured = m->mesh_texcoordadr[mesh] >= 0;
  for (int k = 0; k < 3 * s->faces; k++) {
    size_t at;
    Corner c = {m->mesh_face[first + k], m->mesh_facenormal[first + k],
                textured ? m->mesh_facetexcoord[first + k] : -1};
    int vertex = corners_find(table, c, &at);
    if (vertex < 0) {
      vertex = add_vertex(s, m, mesh, c);
      table->corners[at] = c;
      table->vertices[at] = vertex;
    }
    s->index[k] = (uint32_t)vertex;
  }
}

static int send_mesh(const mjModel *m, int mesh, Outbox *outbox) {
  Surface s;
  Corners table = {.size = 0};
  int faces = m->mesh_facenum[mesh];
  TRY(surface_new(&s, 3 * faces, faces));
  int status = corners_new(&table, 3 * faces);
  if (!status) {
    join_corners(&s, m, mesh, &table);
    status = send_surface(&s, mesh, outbox);
  }
  corners_free(&table);
  free(s.memory);
  return status;
}

// ---------------------------------- height fields ------------------------------------------------

// the vertex in a row and a column, with the normal of its slope
static void field_vertex(Surface *s, const mjModel *m, int field, int row, int column) {
  int rows = m->hfield_nrow[field], columns = m->hfield_ncol[field], i = row * columns + column;
  const double *size = m->hfield_size + 4 * field;
  const float *heights = m->hfield_data + m->hfield_adr[field];
  int left = column ? column - 1 : 0, right = column + 1 < columns ? column + 1 : column;
  int below = row ? row - 1 : 0, above = row + 1 < rows ? row + 1 : row;
  double u = (double)column / (columns - 1), v = (double)row / (rows - 1);
  double dx = 2 * size[0] * (right - left) / (columns - 1);
  double dy = 2 * size[1] * (above - below) / (rows - 1);
  double normal[3] =
      {-size[2] * (heights[row * columns + right] - heights[row * columns + left]) / dx,
       -size[2] * (heights[above * columns + column] - heights[below * columns + column]) / dy, 1};
  mju_normalize3(normal);
  const double place[3] = {size[0] * (2 * u - 1), size[1] * (2 * v - 1), size[2] * heights[i]};
  for (int k = 0; k < 3; k++) {
    s->position[3 * (size_t)i + k] = (float)place[k];
    s->normal[3 * (size_t)i + k] = (float)normal[k];
  }
  s->uv[2 * (size_t)i] = (float)u;
  s->uv[2 * (size_t)i + 1] = (float)v;
}

static int send_field(const mjModel *m, int field, Outbox *outbox) {
  int rows = m->hfield_nrow[field], columns = m->hfield_ncol[field];
  Surface s;
  TRY(surface_new(&s, rows * columns, 2 * (rows - 1) * (columns - 1)));
  s.vertices = rows * columns;
  uint32_t *index = s.index;
  for (int row = 0; row < rows; row++) {
    for (int column = 0; column < columns; column++) {
      uint32_t i = (uint32_t)(row * columns + column), n = (uint32_t)columns;
      field_vertex(&s, m, field, row, column);
      if (row + 1 == rows || column + 1 == columns) continue;
      const uint32_t corners[6] = {i, i + 1, i + n + 1, i, i + n + 1, i + n};
      memcpy(index, corners, sizeof corners);
      index += 6;
    }
  }
  int status = send_surface(&s, (int)m->nmesh + field, outbox);
  free(s.memory);
  return status;
}

// ---------------------------------- textures -----------------------------------------------------

// the mean of a square of pixels in a channel
static unsigned char mean_of(const mjModel *m, int texture, int step, int x, int y, int channel) {
  int width = m->tex_width[texture], channels = m->tex_nchannel[texture], sum = 0;
  const mjtByte *data = m->tex_data + m->tex_adr[texture];
  for (int i = 0; i < step * step; i++) {
    int64_t at = (int64_t)(y * step + i / step) * width + x * step + i % step;
    sum += data[at * channels + (channel < channels ? channel : 0)];
  }
  return (unsigned char)(sum / (step * step));
}

static int send_texture(const mjModel *m, int texture, Outbox *outbox) {
  int step = 1;
  while (m->tex_width[texture] / step > TEXTURE_MOST ||
         m->tex_height[texture] / step > TEXTURE_MOST) {
    step *= 2;
  }
  int width = m->tex_width[texture] / step, height = m->tex_height[texture] / step;
  size_t bytes = 20 + 3 * (size_t)width * (size_t)height;
  unsigned char *message = malloc(bytes);
  if (!message) return bfm_fail(BFM_NO_MEMORY, "out of memory for a texture");
  unsigned char *at = put_head(message, BLOB_TEXTURE, texture);
  at = put_u32(put_u32(put_u32(at, (uint32_t)width), (uint32_t)height), 3);
  for (int i = 0; i < 3 * width * height; i++) {
    *at++ = mean_of(m, texture, step, i / 3 % width, i / 3 / width, i % 3);
  }
  outbox_blob(outbox, message, bytes);
  free(message);
  return BFM_OK;
}

// ---------------------------------- all of them --------------------------------------------------

static int send_shape(const mjModel *m, int shape, Outbox *outbox) {
  return shape < m->nmesh ? send_mesh(m, shape, outbox)
                          : send_field(m, shape - (int)m->nmesh, outbox);
}

// send what the drawn geoms name, each once
static int send_used(const mjModel *m, int count, int (*of)(const mjModel *model, int geom),
                     int (*send)(const mjModel *model, int id, Outbox *outbox), Outbox *outbox) {
  unsigned char *used = calloc((size_t)count + 1, 1);
  if (!used) return bfm_fail(BFM_NO_MEMORY, "out of memory for a scene");
  for (int g = 0; g < m->ngeom; g++) {
    int id = of(m, g);
    if (id >= 0 && scene_draws(m, g)) used[id] = 1;
  }
  int status = BFM_OK;
  for (int id = 0; id < count && !status; id++) {
    if (used[id]) status = send(m, id, outbox);
  }
  free(used);
  return status;
}

int scene_send_blobs(const World *world, Outbox *outbox) {
  const mjModel *m = world->model;
  TRY(send_used(m, (int)(m->nmesh + m->nhfield), scene_mesh, send_shape, outbox));
  return send_used(m, (int)m->ntex, scene_texture, send_texture, outbox);
}
