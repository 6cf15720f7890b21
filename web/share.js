// The state of the page as a fragment of its address: robot, prompts, seed, camera. The token is never
// part of it.

// state: model, seed, prompts [{kind, text | qpos | z, softmax}], es, noise, camera [numbers]
export function toFragment(state) {
  const words = new URLSearchParams();
  words.set("robot", state.model);
  words.set("seed", state.seed);
  for (const prompt of state.prompts) words.append("prompt", promptWords(prompt));
  if (state.es) words.set("best", state.es);
  if (state.noise) words.set("noise", state.noise);
  if (state.camera) words.set("camera", state.camera.map((x) => +x.toFixed(2)).join(","));
  return words.toString();
}

// What a fragment says; parts that it lacks or that make no sense are missing
export function fromFragment(fragment) {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const found = {};
  if (words.get("robot")) found.model = words.get("robot");
  if (words.has("seed")) found.seed = Math.round(between(words.get("seed"), 0, 999999999, 0));
  const prompts = words.getAll("prompt").map(readPrompt).filter(Boolean).slice(0, 4);
  if (prompts.length) found.prompts = prompts;
  if (words.has("best")) found.es = Math.round(between(words.get("best"), 0, 256, 0));
  if (words.has("noise")) found.noise = between(words.get("noise"), 0, 1, 0);
  const camera = numbers(words.get("camera") || "");
  if (camera?.length === 6 && isPlace(camera)) found.camera = camera;
  return found;
}

function promptWords({ kind, text, qpos, z, softmax }) {
  if (kind === "reward") return softmax ? `reward ${softmax}:${text}` : `reward:${text}`;
  if (kind === "goal") return `goal:${text}`;
  if (kind === "pose") return `pose:${qpos.map((x) => +x.toFixed(4)).join(",")}`;
  return `z:${pack(z)}`;
}

function readPrompt(words) {
  const found = /^(reward|goal|pose|z)(?: ([0-9.]+))?:([^]*)$/.exec(words);
  if (!found || words.includes("\0")) return null;
  const [, kind, softmax, rest] = found;
  if (kind === "pose") return numbers(rest) && { kind, qpos: numbers(rest) };
  if (kind === "z") return unpack(rest) && { kind, z: unpack(rest) };
  return { kind, text: rest.slice(0, 1999), softmax: between(softmax, 0, 1000, 0) };
}

function between(text, low, high, otherwise) {
  const x = Number(text);
  return Number.isFinite(x) && x >= low && x <= high ? x : otherwise;
}

function numbers(text) {
  return text ? checked(text.split(",").map(Number)) : null;
}

// whether the camera is neither in its target nor out of sight
function isPlace(camera) {
  return Math.hypot(...camera.slice(0, 3)) > 0.01 && Math.hypot(...camera) < 1e4;
}

// The server takes no more numbers, and none that are larger
function checked(list) {
  return list.length <= 1024 && list.every((x) => Math.abs(x) <= 1e9) ? list : null;
}

// z as base64 of float32: a third of the length of its digits
function pack(z) {
  return btoa(String.fromCharCode(...new Uint8Array(Float32Array.from(z).buffer)));
}

function unpack(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return checked([...new Float32Array(bytes.buffer)]);
  } catch {
    return null;
  }
}
