// Load a model, tell it in words what to do, and let it control a walker for ten seconds.
//   cc examples/walker.c -Iinclude -Lbuild -lbfm -Wl,-rpath,build -o walker
//   ./walker models/walker.safetensors "torso.z > 1.2"

#include <bfm.h>
#include <stdio.h>

#define STEPS 400
#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", bfm_error()), 1

int main(int argc, char **argv) {
  const char *model = argc > 1 ? argv[1] : "models/walker.safetensors";
  const char *reward = argc > 2 ? argv[2] : "torso.z > 1.2";
  bfm_agent *agent;
  bfm_env *robot;  // here MuJoCo; on a robot, your own sensors and motors
  TRY(bfm_agent_load(&agent, model, "{\"device\": \"cpu\"}"));
  TRY(bfm_env_new(&robot, bfm_agent_env(agent), 1, 0, 1));

  float z[4096], obs[4096], act[1024];
  double sensors[4096], motors[1024], now, sum = 0;
  int64_t obs_dim = bfm_agent_obs_dim(agent), act_dim = bfm_agent_act_dim(agent);
  TRY(bfm_agent_prompt_text(agent, 0, reward, 0, z));

  for (int step = 0; step < STEPS; step++) {
    bfm_env_obs(robot, sensors);
    for (int i = 0; i < obs_dim; i++) obs[i] = (float)sensors[i];
    TRY(bfm_agent_act(agent, 0, 1, obs, z, 0, 0, step, act));
    for (int i = 0; i < act_dim; i++) motors[i] = act[i];
    TRY(bfm_env_step(robot, motors));
    TRY(bfm_env_reward(robot, reward, &now));
    sum += now;
  }
  printf("%s: %.0f of %d\n", reward, sum, STEPS);
  bfm_env_free(robot);
  bfm_agent_free(agent);
}
