// Forces of a hand. The spring is solved for the velocity after the substep, with the mobility of the
// point that it pulls: a stiff spring on a light part would be unstable otherwise. Its strength follows
// from the mass of the whole robot: 0.1 m of it hold the robot, and it never pulls with more than five
// times the robot's weight.

#include "serve/touch.h"

#include <math.h>

#define GRAVITY 9.81
#define STRETCH 0.1   // m at which the spring holds the robot's weight
#define DAMPING 0.5   // of critical damping
#define MOST_FORCE 5  // times the robot's weight
#define MOST_SPEED 3  // m/s that a push gives to the whole robot at most …
#define MOST_KICK 10  // … and to the point where it acts
#define DOF_MAX 256   // degrees of freedom of a model

// a point of a body
typedef struct {
  int body;
  double mass;  // of its whole robot
  double pos[3], vel[3];
  double mobility[9];  // J M⁻¹ Jᵀ: the acceleration of the point by a force
} Point;

int touch_moves(const mjModel *model, int body) {
  return body > 0 && body < model->nbody && model->body_weldid[body] != 0 && model->nv <= DOF_MAX;
}

// the farthest that a point may be from its body's origin, so that its lever stays within the body
static double reach_of(const mjModel *model, int body) {
  double reach = 0.05;
  for (int g = model->body_geomadr[body], end = g + model->body_geomnum[body]; g < end; g++) {
    reach = fmax(reach, mju_norm3(model->geom_pos + 3 * g) + model->geom_rbound[g]);
  }
  return reach;
}

// shorten a vector to a length
static void limit(double x[3], double most) {
  double length = mju_norm3(x);
  if (length > most) mju_scl3(x, x, most / length);
}

// a point given in its body's frame; positions and masses in data must be computed
static Point point_of(const mjModel *model, mjData *data, int body, const double at[3]) {
  double jacobian[3 * DOF_MAX], moved[3 * DOF_MAX], within[3];
  int nv = (int)model->nv;
  Point p = {.body = body, .mass = model->body_subtreemass[model->body_rootid[body]]};
  mju_copy3(within, at);
  limit(within, reach_of(model, body));
  mju_mulMatVec3(p.pos, data->xmat + 9 * body, within);
  mju_addTo3(p.pos, data->xpos + 3 * body);
  mj_jac(model, data, jacobian, NULL, p.pos, body);
  mju_mulMatVec(p.vel, jacobian, data->qvel, 3, nv);
  mj_solveM(model, data, moved, jacobian, 3);
  mju_mulMatMatT(p.mobility, jacobian, moved, 3, nv, 3);
  return p;
}

// add a force at a point to the external forces of its body
static void add_force(mjData *data, const Point *p, const double force[3]) {
  double lever[3], torque[3], *external = data->xfrc_applied + 6 * p->body;
  mju_sub3(lever, p->pos, data->xipos + 3 * p->body);
  mju_cross(torque, lever, force);
  mju_addTo3(external, force);
  mju_addTo3(external + 3, torque);
}

// x of (1 + share·A) x = b by Cramer's rule; A is symmetric and not negative, so there always is one
static void solve(const double mobility[9], double share, const double b[3], double x[3]) {
  double m[9], column[3], normal[3];
  for (int i = 0; i < 9; i++) m[i] = share * mobility[i] + (i % 4 == 0);
  mju_cross(normal, m + 3, m + 6);
  double det = mju_dot3(m, normal);
  for (int i = 0; i < 3; i++) {
    // the adjugate's rows are cross products of the rows, as the matrix is symmetric
    mju_cross(column, m + 3 * ((i + 1) % 3), m + 3 * ((i + 2) % 3));
    x[i] = mju_dot3(column, b) / det;
  }
}

static void pull(const mjModel *model, mjData *data, const Drag *drag) {
  Point p = point_of(model, data, drag->body, drag->at);
  double h = model->opt.timestep, weight = p.mass * GRAVITY;
  double stiffness = weight / STRETCH, damping = 2 * DAMPING * sqrt(stiffness * p.mass);
  double stretch[3], wanted[3], force[3];
  mju_sub3(stretch, drag->to, p.pos);
  limit(stretch, 10 * MOST_FORCE * STRETCH);
  mju_scl3(wanted, stretch, stiffness);
  mju_addToScl3(wanted, p.vel, -(stiffness * h + damping));
  solve(p.mobility, (stiffness * h + damping) * h, wanted, force);
  limit(force, MOST_FORCE * weight);
  add_force(data, &p, force);
}

static void kick(const mjModel *model, mjData *data, const Push *push, double seconds) {
  Point p = point_of(model, data, push->body, push->at);
  double force[3], moved[3], length;
  mju_copy3(force, push->impulse);
  limit(force, MOST_SPEED * p.mass);
  mju_mulMatVec3(moved, p.mobility, force);
  length = mju_norm3(moved);  // of the velocity that it would give to the point
  if (length > MOST_KICK) mju_scl3(force, force, MOST_KICK / length);
  mju_scl3(force, force, 1 / seconds);
  add_force(data, &p, force);
}

void touch_apply(const mjModel *model, mjData *data, const Drag *drag, const Push *push,
                 double seconds) {
  mj_kinematics(model, data);
  mj_comPos(model, data);
  mj_tendon(model, data);
  mj_makeM(model, data);
  mj_factorM(model, data);
  if (drag) pull(model, data, drag);
  if (push) kick(model, data, push, seconds);
}

void touch_end(const mjModel *model, mjData *data) {
  mju_zero(data->xfrc_applied, 6 * model->nbody);
}
