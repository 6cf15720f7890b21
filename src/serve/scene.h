// The scene of a domain for a browser: the message `scene` without what belongs to a model, and the
// meshes and textures that its geoms name (docs/playground.md).

#ifndef BFM_SERVE_SCENE_H
#define BFM_SERVE_SCENE_H

#include <cjson/cJSON.h>

#include "serve/outbox.h"
#include "serve/poses.h"

// Add bodies, geoms, joints, tendons, camera, mass and sizes to the message. poses: of the initial state.
void scene_describe(cJSON *scene, const Poses *poses);

// add what a reward can name: names, functions, tasks and examples
void scene_words(cJSON *scene, const World *world);

// Send the meshes and textures. BFM_NO_MEMORY when there is no memory for one.
int scene_send_blobs(const World *world, Outbox *outbox);

// ---------------------------------- shared by its files ------------------------------------------

// the texture of a geom that is sent to the browser, or -1: one whose mean colour tints the geom
int scene_texture(const mjModel *model, int geom);
// the number of a geom's mesh or height field among the blobs, or -1
int scene_mesh(const mjModel *model, int geom);
// whether a geom is drawn: groups above 2 are for collisions
int scene_draws(const mjModel *model, int geom);

#endif
