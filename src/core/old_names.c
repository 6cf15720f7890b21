// The functions of version 0.1 that have new names, for programs compiled against it.

#include "bfm.h"

bfm_status bfm_agent_prompt_kept(bfm_agent *agent, int replica, const char *path, float *z) {
  return bfm_agent_prompt_file(agent, replica, path, z);
}

void bfm_env_ended(const bfm_env *env, uint8_t *ended) { bfm_env_end_reasons(env, ended); }

const char *bfm_task_name(const char *domain, int index, const char **help,
                          const char **expression) {
  return bfm_domain_task(domain, index, help, expression);
}

bfm_status bfm_rewards(const char *domain, const char *task, int64_t count, const double *qpos,
                       const double *qvel, const double *act, int threads, double *rewards) {
  return bfm_domain_rewards(domain, task, count, qpos, qvel, act, threads, rewards);
}

bfm_status bfm_pictures(const char *domain, int64_t count, const double *qpos, int columns,
                        int width, int height, const char *path) {
  return bfm_domain_render(domain, count, qpos, columns, width, height, path);
}

int64_t bfm_explorer_row(const bfm_explorer *explorer) { return bfm_explorer_row_size(explorer); }
