// Arenas: many buffers in one allocation. A layout function takes its buffers from an arena and
// runs twice: first on an arena without memory, which only counts bytes, then on one of that size.

#ifndef BFM_CORE_ARENA_H
#define BFM_CORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGNMENT 256

typedef struct {
  char *base;  // NULL while counting
  size_t used;
} Arena;

// an aligned buffer; NULL while counting
static inline void *arena_take(Arena *arena, size_t bytes) {
  size_t at = arena->used;
  arena->used += (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
  return arena->base ? arena->base + at : NULL;
}

// an aligned buffer of `count` floats; NULL while counting
static inline float *floats(Arena *arena, int64_t count) {
  return arena_take(arena, count * sizeof(float));
}

#endif
