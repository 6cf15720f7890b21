// A small model with one of everything that a reward can name, some with awkward names.

#ifndef BFM_TESTS_REWARD_MODEL_H
#define BFM_TESTS_REWARD_MODEL_H

#include <mujoco/mujoco.h>

static const char reward_model_xml[] =
    "<mujoco>"
    "<option timestep='0.005'/>"
    "<worldbody>"
    "  <geom name='floor' type='plane' size='5 5 0.1'/>"
    "  <body name='lamp' pos='0 0 3'><geom name='bulb' size='0.1'/></body>"
    "  <body name='torso' pos='0.1 0.2 0.6'>"
    "    <freejoint name='root'/>"
    "    <geom name='trunk' type='capsule' size='0.1 0.2'/>"
    "    <site name='imu' pos='0.05 0 0.1' euler='20 10 5'/>"
    "    <body name='swing' pos='0.2 0 0.1' euler='0 15 0'>"
    "      <joint name='swing' axis='0 1 0' damping='0.1'/>"
    "      <geom name='bar' type='capsule' fromto='0 0 0 0.3 0 0' size='0.03'/>"
    "      <body name='left/hand' pos='0.3 0 0'>"
    "        <joint name='wrist' type='ball'/>"
    "        <geom name='palm' type='box' size='0.05 0.02 0.03' pos='0.05 0.01 0'/>"
    "        <site name='tip' pos='0.1 0 0'/>"
    "      </body>"
    "    </body>"
    "    <body name='foot' pos='-0.2 0 -0.3'>"
    "      <joint name='piston' type='slide' axis='0 0 1' range='-0.1 0.1' limited='true'/>"
    "      <geom name='sole' size='0.08'/>"
    "      <site name='sole' size='0.1'/>"
    "    </body>"
    "  </body>"
    "</worldbody>"
    "<tendon><fixed name='string'><joint joint='swing' coef='0.5'/>"
    "  <joint joint='piston' coef='2'/></fixed></tendon>"
    "<actuator>"
    "  <motor name='swing' joint='swing' gear='3'/>"
    "  <general name='pump' joint='piston' dyntype='filter' dynprm='0.1' gainprm='5'/>"
    "</actuator>"
    "<sensor>"
    "  <velocimeter name='speedometer' site='imu'/>"
    "  <framequat name='heading' objtype='body' objname='torso'/>"
    "  <jointpos name='stroke' joint='piston'/>"
    "  <tendonpos name='pull' tendon='string'/>"
    "  <tendonvel name='pull_rate' tendon='string'/>"
    "  <subtreelinvel name='drift' body='torso'/>"
    "  <touch name='step' site='sole'/>"
    "  <accelerometer name='shake' site='imu'/>"
    "</sensor>"
    "</mujoco>";

static mjModel *reward_model(void) {
  char error[256];
  mjSpec *spec = mj_parseXMLString(reward_model_xml, NULL, error, sizeof error);
  mjModel *model = spec ? mj_compile(spec, NULL) : NULL;
  if (spec) mj_deleteSpec(spec);
  return model;
}

#endif
