// The page's state and how its parts work together: what the server says goes to the parts, and what
// the user does goes to the server. After a lost connection the same state is set up again.

import { Controls } from "./controls.js";
import { arrows, radio } from "./groups.js";
import { Keys } from "./keys.js";
import { Link, takeToken } from "./link.js";
import { closeHint, held, hint, toast } from "./notes.js";
import { Pose } from "./pose.js";
import { See } from "./see.js";
import { fromFragment, toFragment } from "./share.js";
import { Still } from "./still.js";
import { Take, toClipboard } from "./take.js";
import { Tell } from "./tell.js";
import { Theme } from "./theme.js";
import { Touch } from "./touch.js";
import { grid, View } from "./view.js";
import * as wire from "./wire.js";

const $ = (selector) => document.querySelector(selector);
const LETTERS = "ABCD";

// What a reconnection or a link brings back. From the start with seed 7, the shipped walker does each of
// its first tasks after any other; from many starts, one that stands still does not begin to run.
const state = { model: null, seed: 7, slots: 1, chosen: 0, prompts: [], es: 0, noise: 0, speed: 1,
  paused: false };

// for tests and for curious people at the console
const bfm = window.bfm = { framesReceived: 0, z: [], qpos: [], scene: null, stats: null, state };

let ids = 0;
const nextId = () => ++ids;
const asked = new Map();  // id → {slot, prompt, first} of prompts on their way
let hello = null, scene = null, runs = null;
let ready = false;  // whether the scene on the page is the one on the server
let begun = false;  // whether its robots have all had a prompt
const early = [];  // messages of runs that came before the part for them was loaded

// ---------------------------------- parts -----------------------------------------------------------

// first, so that the server and the graphics get ready at the same time
takeToken();
const link = new Link({ text, bytes, state: connection });
link.connect();
const theme = new Theme();
const stage = $("#stage");
const view = makeView();
const see = new See($("#charts"), $("#histogram"), () => theme.colors);
const say = (message) => link.say(message);
const pose = new Pose($("#pose"), {
  ask: (qpos) => (qpos ? say({ do: "ghost", id: nextId(), qpos })
    : (view.haunt(null), say({ do: "ghost", off: true }))),
  here: () => bfm.qpos.length && bfm.qpos,
  beside: stage, below: $("#tell"),
});
const tell = new Tell($("#tell"), { say, nextId, pose, prompt: send, choose,
  histogram: (values) => see.count(values) });
const take = new Take($("#take"), $("#code"), { say, toast, nextId, what: recipe,
  slot: () => view.chosen });
const controls = new Controls(state, { say, restart: () => see.cutAll(), open: build,
  changed: () => { status(); remember(); } });
const touch = view.world && new Touch(view, stage, say, held);
// not enumerated: they are no data
Object.defineProperties(bfm, { view: { value: view }, link: { value: link } });

function makeView() {
  try {
    return new View($("#view"), { moved: remember });
  } catch {
    return new Still(stage);
  }
}

// ---------------------------------- the server's words ----------------------------------------------

const HEARD = {
  hello(message) {
    hello = message;
    offerRobots();
    if (message.runs.length) showRuns(message);
    if (!hello.models.some(({ label }) => label === state.model)) {
      if (state.model) {
        toast(`There is no robot called ${state.model} here.`);
        state.prompts = [];
      }
      state.model = hello.models[0]?.label ?? null;
    }
    open();
  },

  scene(message) {
    scene = bfm.scene = message;
    ready = true;
    begun = false;
    state.slots = scene.slots;
    state.chosen = Math.min(state.chosen, scene.slots - 1);
    $("#robot").value = state.model = scene.model;
    $("#seed").value = scene.seed;
    document.title = `${scene.title} – bfm playground`;
    view.open(scene);
    see.open(scene);
    tell.open(scene);
    labels();
    again();
  },

  checked: (message) => tell.checked(message),

  prompted(message) {
    const { slot, prompt, first } = asked.get(message.id) ?? {};
    if (!prompt) return;
    asked.delete(message.id);
    const kept = prompt.kind === "demo" ? { kind: "z", name: "demonstration" } : prompt;
    for (const i of slot < 0 ? state.prompts.keys() : [slot]) {
      state.prompts[i] = { ...kept, z: message.z, values: message.counts && message };
      see.cut(i);
    }
    present();
    if (slot < 0 || slot === view.chosen) {
      if (!first) tell.clear();
      see.count(state.prompts[view.chosen].values);
      tell.tell(message.warning ?? (first ? "" : message.report), message.warning ? "warning" : "");
    }
    begin();
  },

  refused(message) {
    if (take.refused(message)) return;
    const { slot, prompt, first } = asked.get(message.id) ?? {};
    asked.delete(message.id);
    if (message.cancelled) return status();  // a newer prompt took its place
    pose.answered();
    if (!prompt) return toast(message.error);
    const next = first && fallback(slot, prompt.text);
    if (next && !prompt.own) toast(message.error);  // of a link
    if (next) return send(slot, next, 0, true);
    tell.fail(message);
    status();
  },

  stats(message) {
    bfm.stats = message;
    see.add(message);
    const { score } = message.slots[view.chosen] ?? {};
    $("#score").textContent = fixed(score);
    $("#rate").textContent = message.paused ? "paused" : `${message.rate.toFixed(1)}× real time`;
    for (const [i, label] of [...$("#labels").children].entries()) {
      label.querySelector("i").textContent = fixed(message.slots[i]?.score);
    }
    controls.hear(message);
  },

  progress: (message) => take.progress(message),
  taken: (message) => take.taken(message),
  run: (message) => (runs ? runs.run(message) : early.push(message)),

  // a run has a newer model, or its first one
  model(message) {
    const at = hello.models.findIndex(({ label }) => label === message.label);
    hello.models.splice(at < 0 ? hello.models.length : at, at < 0 ? 0 : 1, message);
    if (at < 0) offerRobots();
    $("#robot").value = state.model;
    if (message.label === state.model) {
      toast(`${message.label} acts with its model of step ${message.step.toLocaleString("en")} now.`);
    } else if (!state.model) {
      state.model = message.label;
      open();
    }
  },

  bye(message) {
    link.reason = message.reason;
  },
};

// two digits, and no minus before zeros
function fixed(score) {
  return Number.isFinite(score) ? (Math.round(100 * score) / 100 + 0).toFixed(2) : "–";
}

function text(message) {
  HEARD[message.type]?.(message);
}

const READ = {
  [wire.FRAME](buffer) {
    say({ do: "ack", seq: wire.sequence(buffer) });
    bfm.framesReceived++;
    const frame = scene && wire.readFrame(buffer, scene);
    if (!frame) return;
    bfm.qpos = Array.from(frame.slots[view.chosen].qpos);
    view.show(frame);
  },
  [wire.BLOB]: (buffer) => view.blob(wire.readBlob(buffer)),
  [wire.PIECE]: (buffer) => take.piece(wire.readPiece(buffer)),
  [wire.GHOST](buffer) {
    if (pose.answered()) view.haunt(wire.readGhost(buffer).poses);
  },
};

function bytes(buffer) {
  READ[wire.kindOf(buffer)]?.(buffer);
}

// ---------------------------------- connection ------------------------------------------------------

const LOST = {
  lost: ["Connection lost", "The robot comes back as soon as bfm serve answers. This page keeps trying."],
  refused: ["The server refuses this page", "Open the address that bfm serve printed: it ends with a"
    + " token, and the token changes with every start. Or too many pages are open already."],
  token: ["This page needs its token", "Open the address that bfm serve printed in the terminal, with"
    + " everything after the #."],
};

function connection(how) {
  const box = $("#lost");
  box.hidden = how === "open";
  document.body.classList.toggle("offline", how !== "open");
  if (how === "open") return status("connected");
  asked.clear();
  ready = false;
  take.end();
  touch?.end();
  const [title, sentence] = LOST[how];
  box.querySelector("strong").textContent = title;
  box.querySelector("p").textContent = link.reason
    ? `The server ended the connection: ${link.reason}. ${sentence}` : sentence;
  status(how === "lost" ? "connection lost, trying again" : "not connected");
}

function open() {
  if (!state.model) return status("there is no model to serve");
  const { title } = hello.models.find(({ label }) => label === state.model);
  status(`loading ${title}`);
  asked.clear();
  ready = false;
  say({ do: "open", model: state.model, slots: state.slots, seed: state.seed });
}

// the user wants another scene
function build() {
  closeHint();
  controls.show();
  if (hello) open();
}

// A new scene gets the state of the page
function again() {
  controls.again();
  state.prompts = Array.from({ length: scene.slots }, (_, i) => state.prompts[i] ?? fallback(i));
  state.prompts.forEach((prompt, i) => send(i, prompt, 0, true));
  choose(state.chosen);
  hint(shortExample(), Boolean(touch));
}

// All robots begin in the same state once all have their prompts: without one, a robot falls.
function begin() {
  if (begun || asked.size || !state.prompts.every(({ z }) => z)) return;
  begun = true;
  controls.reset("start");
}

// What a robot does before somebody tells it something: a task that moves it. Where a model cannot do
// it, the one after it, or nothing after the last.
function fallback(slot, after) {
  const tasks = scene.tasks.map(({ name }) => name);
  const rewards = scene.examples.filter(({ kind }) => kind === "reward").map(({ text }) => text);
  const liked = ["walk", "run", "stand", "spin"].filter((name) => tasks.includes(name));
  const texts = [...new Set([...liked, ...tasks, ...rewards])];
  const own = (text) => ({ kind: "reward", text, own: true });
  if (after === undefined) return own(texts[slot % texts.length] ?? "1");
  const next = texts[texts.indexOf(after) + 1];
  return next ? own(next) : null;
}

function shortExample() {
  const rewards = scene.examples.filter(({ kind }) => kind === "reward").map(({ text }) => text);
  return rewards.sort((a, b) => a.length - b.length)[0] ?? fallback(1).text;
}

// ---------------------------------- prompts ---------------------------------------------------------

// slot -1: all of them. first: the page asks, not the user.
function send(slot, prompt, ramp, first = false) {
  const { kind, text, qpos, seconds, softmax } = prompt, id = nextId();
  const message = { do: "prompt", id, slot, kind, ramp };
  if (text !== undefined) message.text = text;
  if (kind === "pose") message.qpos = qpos;
  if (kind === "z") message.z = prompt.z;
  if (kind === "demo") message.seconds = seconds;
  if (softmax) message.softmax = softmax;
  if (!ready || !say(message)) {
    // it is said as soon as there is a robot
    for (let i = 0; i < state.slots; i++) if (slot < 0 || slot === i) state.prompts[i] = prompt;
    return present();
  }
  asked.set(id, { slot, prompt, first });
  if (!first) closeHint();
  status("prompting");
}

function nameOf({ kind, text, name }) {
  return text ?? name ?? (kind === "pose" ? "a pose" : "a z");
}

// slot -1: prompts go to all robots; the measurements are then the first one's
function choose(slot) {
  state.chosen = Math.max(slot, 0);
  view.choose(state.chosen);
  see.choose(state.chosen);
  tell.chosen(slot, state.prompts[state.chosen]);
  see.count(state.prompts[state.chosen].values);
  present();
}

// everything that shows the present prompts
function present() {
  const prompt = state.prompts[view.chosen];
  if (prompt?.z) {
    bfm.z = prompt.z;
    see.show(prompt.z);
  }
  tell.light(prompt);
  score(prompt);
  [...$("#labels").children].forEach((label, i) => {
    label.querySelector("span").textContent = state.prompts[i] ? nameOf(state.prompts[i]) : "";
    label.setAttribute("aria-pressed", String(i === view.chosen));
  });
  status();
  remember();
}

// what the large number is
function score(prompt) {
  const rewarded = (prompt?.kind ?? "reward") === "reward", box = $("#scored");
  box.textContent = rewarded ? "mean reward, last second" : "mean of B·z, last second";
  box.title = rewarded ? "" : "This prompt has no reward. B·z is what the model takes for one.";
}

function labels() {
  const [columns, rows] = grid(scene.slots, stage.clientWidth, stage.clientHeight);
  const box = $("#labels");
  box.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  box.replaceChildren(...(scene.slots === 1 ? [] : Array.from({ length: scene.slots }, (_, i) => {
    const label = document.createElement("button");
    label.type = "button";
    label.dataset.slot = LETTERS[i];
    const parts = ["b", "span", "i"].map((tag) => document.createElement(tag));
    parts[0].textContent = LETTERS[i];
    label.append(...parts);
    label.addEventListener("click", () => choose(i));
    return label;
  })));
}

function status(text) {
  const prompt = state.prompts[view.chosen];
  const working = asked.size > 0;
  const box = $("#status");
  box.textContent = text ?? (working ? "prompting" : state.paused ? "paused"
    : prompt?.z ? `acting: ${nameOf(prompt)}` : "connected");
  box.dataset.state = document.body.classList.contains("offline") ? "lost"
    : working || text?.startsWith("loading") ? "waiting" : "good";
  box.title = box.textContent;
}

// ---------------------------------- links and texts -------------------------------------------------

let remembering = 0;

// The address always says what the page shows, so that a reload or a bookmark brings it back
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    if (scene) history.replaceState(null, "", `${location.pathname}#${fragment()}`);
  }, 250);
}

function fragment() {
  return toFragment({ ...state, prompts: state.prompts.slice(0, scene.slots), camera: view.camera });
}

function restore() {
  const found = fromFragment(location.hash);
  Object.assign(state, found);
  if (found.prompts) state.slots = [1, 2, 4].find((count) => count >= found.prompts.length);
  if (found.camera) view.camera = found.camera;
  controls.show();
}

async function copyLink() {
  const address = `${location.origin}${location.pathname}#${scene ? fragment() : ""}`;
  if (await toClipboard(address)) return toast("Copied a link to this state. It holds no token.");
  history.replaceState(null, "", address);
  toast("The address of this page is the link.");
}

function recipe() {
  const prompt = state.prompts[view.chosen];
  if (!scene || !prompt?.z) return null;
  const { path } = hello.models.find(({ label }) => label === scene.model);
  return { model: path, domain: scene.domain, prompt, seed: state.seed, es: state.es,
    noise: state.noise, d: scene.d, task: scene.tasks.some(({ name }) => name === prompt.text) };
}

// ---------------------------------- controls --------------------------------------------------------

function offerRobots() {
  const box = $("#robot");
  box.replaceChildren(...hello.models.map(({ label, title }) => new Option(title, label)));
  box.disabled = hello.models.length === 0;
}

$("#robot").addEventListener("change", ({ target }) => {
  const domainOf = (label) => hello.models.find((model) => model.label === label)?.domain;
  if (domainOf(target.value) !== domainOf(state.model)) state.prompts = [];
  // a z means nothing to another model: what has words or a pose is computed anew
  state.prompts = state.prompts.filter(({ kind }) => kind !== "z").map(({ z, ...rest }) => rest);
  state.model = target.value;
  build();
});
radio($("#pointer"), (value) => { if (touch) touch.mode = value; });
for (const group of [$("#kinds"), $("#whom"), $("#views")]) arrows(group);
$("#link").addEventListener("click", copyLink);
$("#theme").addEventListener("click", () => theme.toggle());
$("#help").addEventListener("click", () => $("#keys").showModal());
$("#quality").addEventListener("change", ({ target }) => quality(target.value));
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
}
addEventListener("hashchange", () => {
  takeToken();
  restore();
  if (!link.socket) link.retry();
  else if (hello) open();
});

function quality(name) {
  view.quality(name);
  $("#quality").value = name;
  try {
    localStorage.setItem("bfm.quality", name);
  } catch {
    // then the choice lasts as long as the page
  }
}

// ---------------------------------- training --------------------------------------------------------

// the part for training is only loaded where runs are served
async function showRuns(message) {
  if (runs) return runs.hello(message);
  const { Runs } = await import("./runs.js");
  runs = new Runs($("#runs"));
  runs.hello(message);
  for (const run of early.splice(0)) runs.run(run);
  $("#views").hidden = false;
  const turn = (name) => {
    for (const [tab, panel] of [["now", "see"], ["runs", "runs"]]) {
      const chosen = tab === name, button = $(`#tab-${tab}`);
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      $(`#${panel}`).hidden = !chosen;
    }
  };
  for (const tab of ["now", "runs"]) $(`#tab-${tab}`).addEventListener("click", () => turn(tab));
  if (!state.model) turn("runs");
}

new Keys({ controls, view, touch, theme, help: () => $("#keys").showModal(),
  choose: () => choose((state.chosen + 1) % state.slots), write: () => {
    tell.turn("reward");
    $("#reward").focus();
    $("#reward").select();
  } });

theme.changed = ({ dark, colors }) => {
  view.paint(dark, colors.accent, colors.slots);
  see.request();
};
theme.refresh();
new ResizeObserver(() => scene && labels()).observe(stage);
try {
  quality(localStorage.getItem("bfm.quality") ?? "auto");
} catch {
  // automatic is the default
}
restore();
