// A prompt as text that runs: a command line, Python, C. Every word of the user's is quoted for the
// language it goes into. What is no text (a pose, a z) is written out as numbers.

// what: {model (its path), domain, prompt {kind, text | qpos | z, softmax}, task (whether the text
// names a task), seed, es, noise, d}

// ---------------------------------- quoting -----------------------------------------------------

export const shell = (text) => (/^[\w./=+-]+$/.test(text) && text[0] !== "-" ? text
  : `'${text.replaceAll("'", "'\\''")}'`);

// a string of JSON is one of Python, too
export const python = (text) => JSON.stringify(text);

// octal escapes end after three digits, whatever follows; ?? could begin a trigraph
export const c = (text) => `"${text.replace(/["\\]/g, "\\$&").replace(/\?(?=\?)/g, "?\"\"")
  .replace(/[^\x20-\x7e]/g, (x) => [...new TextEncoder().encode(x)]
    .map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join(""))}"`;

const numbers = (list, digits) => list.map((x) => String(+x.toPrecision(digits)));

// lines of at most 96 characters
function wrap(words, indent) {
  const lines = [""];
  for (const word of words) {
    if (lines.at(-1).length + word.length + 2 > 96 - indent.length) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${word},`;
  }
  return lines.map((line) => indent + line).join("\n").slice(0, -1);
}

// ---------------------------------- command line --------------------------------------------------

export function commandLine(what) {
  const { prompt, model, seed, es } = what;
  const words = ["build/bfm play", shell(model)];
  let before = "";
  if (prompt.kind === "reward") {
    words.push(what.task ? "--task" : "--reward", shell(prompt.text));
    if (prompt.softmax) words.push("--softmax", String(prompt.softmax));
  } else if (prompt.kind === "goal") {
    words.push("--goal", shell(prompt.text));
  } else {
    const [name, json] = fileOf(prompt);
    before = `printf '%s\\n' '${json}' >${name} &&\n`;
    words.push(prompt.kind === "pose" ? "--goal" : "--z", name);
  }
  if (es) words.push("--es", String(es));
  words.push("--seed", String(seed), "-o", "film.mp4");
  return `${before}${words.join(" ")}`;
}

function fileOf({ kind, qpos, z }) {
  return kind === "pose" ? ["goal.json", `{"qpos": [${numbers(qpos, 6).join(", ")}]}`]
    : ["z.json", `{"z": [${numbers(z, 9).join(", ")}]}`];
}

// ---------------------------------- Python --------------------------------------------------------

export function pythonCode(what) {
  const { prompt, seed, es } = what, scored = prompt.kind === "reward";
  const lines = [
    "# In the checkout of bfm: PYTHONPATH=python .venv/bin/python FILE",
    ...(prompt.kind === "z" ? ["import numpy as np"] : []),
    "import bfm",
    "",
    `model = bfm.load(${python(what.model)})`,
    `env = bfm.Env(${python(what.domain)}, num_envs=1, seed=${seed})`,
    pythonPrompt(prompt),
    "obs = env.reset()",
    ...(scored ? ["total = 0.0"] : []),
    "for step in range(env.episode_steps):",
    `  obs = env.step(model.act(obs, z${es ? `, es=${es}, seed=${seed}, step=step` : ""}))`,
    ...(scored ? [`  total += env.reward(${python(prompt.text)})[0]`,
      'print(f"mean reward {total / env.episode_steps:.3f}")']
      : ["qpos, qvel, act = env.state()", "print(qpos[0].round(3))"]),
  ];
  return `${lines.join("\n")}\n`;
}

function pythonPrompt({ kind, text, qpos, z, softmax }) {
  if (kind === "reward") {
    return `z = model.prompt(reward=${python(text)}${softmax ? `, softmax=${softmax}` : ""})`;
  }
  if (kind === "goal") return `z = model.prompt(goal=${python(text)})`;
  if (kind === "pose") {
    return `qpos = [\n${wrap(numbers(qpos, 6), "  ")}]\n`
      + 'z = model.prompt(goal={"qpos": qpos})';
  }
  return `z = np.array([\n${wrap(numbers(z, 9), "  ")}], np.float32)`;
}

// ---------------------------------- C -----------------------------------------------------------

export function cCode(what) {
  const { prompt, seed, es } = what, scored = prompt.kind === "reward";
  const score = scored ? `
    TRY(bfm_env_reward(robot, ${c(prompt.text)}, &now));
    sum += now;` : "";
  return `// In the checkout of bfm:
//   cc FILE.c -Iinclude -Lbuild -lbfm -Wl,-rpath,"$PWD/build" -o robot && ./robot
#include <bfm.h>
#include <stdio.h>

#define TRY(call) \\
  if (call) return fprintf(stderr, "%s\\n", bfm_error()), 1

int main(void) {
  bfm_agent *agent;
  bfm_env *robot;
  TRY(bfm_agent_load(&agent, ${c(what.model)}, "{\\"device\\": \\"cpu\\"}"));
  TRY(bfm_env_new(&robot, ${c(what.domain)}, 1, ${seed}, 1));

  bfm_env_sizes sizes = {.size = sizeof sizes};
  bfm_env_get_sizes(robot, &sizes);
  float obs[sizes.obs_dim], act[sizes.act_dim];
  double sensors[sizes.obs_dim], motors[sizes.act_dim]${scored ? ", now, sum = 0" : ""};
${cPrompt(what)}
  for (int step = 0; step < sizes.episode_steps; step++) {
    bfm_env_obs(robot, sensors);
    for (int i = 0; i < sizes.obs_dim; i++) obs[i] = (float)sensors[i];
    TRY(bfm_agent_act(agent, 0, 1, obs, z, ${es}, ${es ? seed : 0}, step, act));
    for (int i = 0; i < sizes.act_dim; i++) motors[i] = act[i];
    TRY(bfm_env_step(robot, motors));${score}
  }
  printf(${scored ? '"mean reward %.3f\\n", sum / sizes.episode_steps' : '"%d steps\\n", sizes.episode_steps'});
  bfm_env_free(robot);
  bfm_agent_free(agent);
}
`;
}

function cPrompt({ prompt: { kind, text, qpos, z, softmax }, d }) {
  if (kind === "z") return `  static const float z[] = {\n${wrap(floats(z, 9), "    ")}};`;
  const head = `  float z[${d}];\n`;
  if (kind === "reward") {
    return `${head}  TRY(bfm_agent_prompt_text(agent, 0, ${c(text)}, ${softmax || 0}, z));`;
  }
  if (kind === "goal") {
    return `${head}  TRY(bfm_agent_prompt_goal(agent, 0, ${c(text)}, z, NULL, 0));`;
  }
  return `  static const double qpos[] = {\n${wrap(numbers(qpos, 6), "    ")}};\n`
    + `${head}  TRY(bfm_agent_prompt_state(agent, 0, qpos, NULL, NULL, z));`;
}

// a C constant with an exponent or a point, and the suffix of float
const floats = (list, digits) => numbers(list, digits).map((x) => `${/[.e]/.test(x) ? x : `${x}.0`}f`);
