// What a URDF lacks. Its joints get one motor each, whose torque is limited by the joint's effort; an
// effort of 0 makes a joint passive. Its base is free if something is heavy that hangs rigidly on it,
// unless the URDF itself has a link "world". A floor and a light are added if it has none.

#include "envs/urdf.h"

#include <stdlib.h>
#include <string.h>

#include "envs/xml.h"

// ---------------------------------- the text -----------------------------------------------------

typedef struct {
  int has_world;       // a link with this name
  XmlSlice unlimited;  // the first joint that moves and has no effort limit; at NULL: none
  int line;            // of it
} Findings;

static int moves(const XmlReader *r) {
  const XmlAttribute *type = xml_attribute(r, "type");
  return type && (xml_is(type->value, "revolute") || xml_is(type->value, "continuous") ||
                  xml_is(type->value, "prismatic"));
}

static void look_at_tag(const XmlReader *r, Findings *found, XmlSlice *joint, int *line) {
  const XmlAttribute *name = xml_attribute(r, "name");
  int top = r->depth == 1 + !r->empty;
  if (top && xml_is(r->name, "link")) {
    found->has_world |= name && name->value.length == 5 && !memcmp(name->value.at, "world", 5);
  } else if (top && xml_is(r->name, "joint")) {
    *joint = name && moves(r) ? name->value : (XmlSlice){NULL, 0};
    *line = r->line;
  } else if (xml_is(r->name, "limit") && xml_attribute(r, "effort")) {
    joint->at = NULL;
  }
}

static int look(const FlatText *flat, Findings *found) {
  XmlReader *r = malloc(sizeof *r);
  if (!r) return bfm_fail(BFM_NO_MEMORY, "out of memory for a URDF");
  XmlSlice joint = {NULL, 0};
  int line = 0, status;
  *found = (Findings){0};
  xml_begin(r, flat->sources[0], flat->text, flat->size);
  while (!(status = xml_next(r)) && r->kind != XML_END) {
    if (r->kind == XML_OPEN) look_at_tag(r, found, &joint, &line);
    int ends = r->kind == XML_CLOSE ? r->depth == 1 : r->kind == XML_OPEN && r->empty;
    if (!ends || r->depth != 1 || !xml_is(r->name, "joint")) continue;
    if (joint.at && !found->unlimited.at) {
      found->unlimited = joint;
      found->line = line;
    }
    joint.at = NULL;
  }
  free(r);
  return status;
}

// ---------------------------------- the base -----------------------------------------------------

static int has_joint(const mjsBody *body) { return mjs_firstChild(body, mjOBJ_JOINT, 0) != NULL; }

static int has_mass(const mjsBody *body) {
  if (body->mass > 0 || mjs_firstChild(body, mjOBJ_GEOM, 0)) return 1;
  for (mjsElement *e = mjs_firstChild(body, mjOBJ_BODY, 0); e; e = mjs_nextChild(body, e, 0)) {
    const mjsBody *child = mjs_asBody(e);
    if (!has_joint(child) && has_mass(child)) return 1;
  }
  return 0;
}

static int free_base(mjSpec *spec, BundleBase base, int has_world) {
  mjsBody *world = mjs_findBody(spec, "world");
  for (mjsElement *e = mjs_firstChild(world, mjOBJ_BODY, 0); e; e = mjs_nextChild(world, e, 0)) {
    mjsBody *body = mjs_asBody(e);
    int heavy = has_mass(body);
    if (has_joint(body) || base == BASE_FIXED || (base == BASE_DEFAULT && (has_world || !heavy))) {
      continue;
    }
    if (!heavy) return bfm_fail(BFM_BAD_FILE, "the base cannot be free: it has no mass");
    mjsJoint *joint = mjs_addFreeJoint(body);
    if (!joint) return bfm_fail(BFM_NO_MEMORY, "out of memory for a joint");
    mjs_setName(joint->element, mjs_findElement(spec, mjOBJ_JOINT, "root") ? "" : "root");
  }
  return BFM_OK;
}

// ---------------------------------- motors -------------------------------------------------------

static int add_motor(mjSpec *spec, mjsJoint *joint) {
  double effort = joint->actfrcrange[1];
  if ((joint->type != mjJNT_HINGE && joint->type != mjJNT_SLIDE) || effort <= 0) return BFM_OK;
  const char *name = mjs_getString(mjs_getName(joint->element));
  mjsActuator *motor = mjs_addActuator(spec, NULL);
  if (!motor) return bfm_fail(BFM_NO_MEMORY, "out of memory for a motor");
  mjs_setName(motor->element, name);
  mjs_setString(motor->target, name);
  motor->trntype = mjTRN_JOINT;
  motor->ctrllimited = mjLIMITED_TRUE;
  motor->ctrlrange[0] = -effort;
  motor->ctrlrange[1] = effort;
  const char *error = mjs_setToMotor(motor);
  return *error ? bfm_fail(BFM_BAD_FILE, "the motor of %s: %s", name, error) : BFM_OK;
}

static int add_motors(mjSpec *spec) {
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_JOINT); e; e = mjs_nextElement(spec, e)) {
    TRY(add_motor(spec, mjs_asJoint(e)));
  }
  return BFM_OK;
}

// ---------------------------------- surroundings -------------------------------------------------

static int has_floor(mjSpec *spec) {
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_GEOM); e; e = mjs_nextElement(spec, e)) {
    mjtGeom type = mjs_asGeom(e)->type;
    if (type == mjGEOM_PLANE || type == mjGEOM_HFIELD) return 1;
  }
  return 0;
}

static void add_floor(mjSpec *spec, mjsBody *world) {
  static const char name[] = "bfm_floor";  // no link has it
  mjsTexture *texture = mjs_addTexture(spec, NULL);
  mjs_setName(texture->element, name);
  texture->type = mjTEXTURE_2D;
  texture->builtin = mjBUILTIN_CHECKER;
  texture->width = texture->height = 300;
  for (int i = 0; i < 3; i++) {
    texture->rgb1[i] = 0.2 + 0.1 * i;
    texture->rgb2[i] = 0.1 + 0.1 * i;
  }
  mjsMaterial *material = mjs_addMaterial(spec, NULL);
  mjs_setName(material->element, name);
  mjs_setInStringVec(material->textures, mjTEXROLE_RGB, name);
  material->texrepeat[0] = material->texrepeat[1] = 1;
  material->texuniform = 1;

  mjsGeom *floor = mjs_addGeom(world, NULL);
  mjs_setName(floor->element, mjs_findElement(spec, mjOBJ_GEOM, "floor") ? name : "floor");
  mjs_setString(floor->material, name);
  floor->type = mjGEOM_PLANE;
  floor->size[2] = 0.05;
}

static void add_light(mjsBody *world) {
  mjsLight *light = mjs_addLight(world, NULL);
  light->type = mjLIGHT_DIRECTIONAL;
  light->pos[2] = 3;
  for (int i = 0; i < 3; i++) {
    light->dir[i] = i == 2 ? -1 : 0;
    light->diffuse[i] = 0.7f;
    light->specular[i] = 0.2f;
  }
}

int urdf_complete(mjSpec *spec, BundleBase base, const FlatText *flat) {
  Findings found;
  TRY(look(flat, &found));
  if (found.unlimited.at) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s:%d: the joint '%.*s' has no effort limit, which its motor needs: write "
                    "<limit effort=\"…\"/> in N m or N, or 0 for a passive joint",
                    flat->sources[0], found.line, found.unlimited.length, found.unlimited.at);
  }
  TRY(free_base(spec, base, found.has_world));
  TRY(add_motors(spec));
  mjsBody *world = mjs_findBody(spec, "world");
  if (!has_floor(spec)) add_floor(spec, world);
  if (!mjs_firstElement(spec, mjOBJ_LIGHT)) add_light(world);
  spec->compiler.discardvisual =
      0;  // the parser left visual geometry out; now it would be the floor's texture
  return BFM_OK;
}
