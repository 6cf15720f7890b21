// What the robot is told: kinds of prompts as tabs, a row of a table each; the lines of rewards and
// goals; chips for tasks and examples; which robot is meant; errors and reports below the line.

import { Line } from "./complete.js";

const LETTERS = "ABCD";

export class Tell {
  // say(message): to the server; prompt(slot, prompt): tells a robot; pose: the sliders;
  // histogram(values or null)
  constructor(box, { say, nextId, prompt, pose, histogram, choose }) {
    Object.assign(this, { box, say, nextId, prompt, pose, histogram, choose });
    const one = (selector) => box.querySelector(selector);
    this.error = one("#error");
    this.note = one("#note");
    this.suggestion = one("#suggestion");
    this.whom = one("#whom");
    const line = (kind) => new Line(one(`#${kind}`), one("#names"), {
      check: (text) => this.check(kind, text), apply: () => this.apply(),
      closed: () => this.held && this.fail(this.held, kind) });
    this.lines = { reward: line("reward"), goal: line("goal") };
    this.seconds = one("#demo-seconds");
    // a further kind of prompt is a row here, a tab and a panel
    this.kinds = {
      reward: { button: one("#apply"), read: () => this.textOf("reward") },
      goal: { button: one("#apply-goal"), read: () => this.textOf("goal") },
      pose: { button: one("#apply-pose"), read: () => ({ qpos: [...this.pose.qpos] }) },
      demo: { button: one("#apply-demo"), read: () => ({ seconds: Number(this.seconds.value) }) },
    };
    for (const kind of Object.keys(this.kinds)) {
      one(`#tab-${kind}`).addEventListener("click", () => this.turn(kind));
      this.kinds[kind].button.addEventListener("click", () => this.apply());
    }
    one("#pose-here").addEventListener("click", () => this.pose.set(this.pose.here()));
    this.seconds.addEventListener("input", () => {
      this.seconds.nextElementSibling.textContent = `${Number(this.seconds.value).toFixed(1)} s`;
    });
    this.suggestion.addEventListener("click", () => this.correct());
    this.kind = "reward";
    this.asked = new Map();  // id → {kind, text} of checks
  }

  // ---------------------------------- kinds -------------------------------------------------------

  turn(kind) {
    this.kind = kind;
    for (const name of Object.keys(this.kinds)) {
      const tab = this.box.querySelector(`#tab-${name}`), chosen = name === kind;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      this.box.querySelector(`#by-${name}`).hidden = !chosen;
    }
    this.clear();
    if (kind === "pose") this.pose.show();
    else this.pose.hide();
    if (this.lines[kind]?.text) this.check(kind, this.lines[kind].text);
    else this.histogram(null);
  }

  open(scene) {
    this.scene = scene;
    this.asked.clear();
    this.clear();
    for (const line of Object.values(this.lines)) line.offer(scene.names, scene.functions);
    this.lines.goal.input.placeholder = scene.examples.find(({ kind }) => kind === "goal")?.text
      ?? "a name = a value, another = another";
    this.lines.reward.input.placeholder = scene.examples.find(({ kind }) => kind === "reward")?.text
      ?? "an expression of the names of this robot";
    this.chips("#tasks", scene.tasks.map(({ name, help, expression }) =>
      ({ title: name, help: expression ? `${help}\n${expression}` : help, text: name, kind: "reward" })));
    this.chips("#examples", scene.examples.map((example) => ({ ...example, help: example.text })));
    this.slots(scene.slots);
    this.pose.open(scene);
    if (this.kind === "pose") this.pose.show();
  }

  chips(selector, rows) {
    this.box.querySelector(selector).replaceChildren(...rows.map(({ title, help, text, kind }) => {
      const chip = document.createElement("button");
      Object.assign(chip, { type: "button", className: "chip", textContent: title, title: help });
      chip.dataset.text = text;
      chip.addEventListener("click", () => this.example(kind, text));
      return chip;
    }));
  }

  example(kind, text) {
    if (this.kind !== kind) this.turn(kind);
    this.lines[kind].text = text;
    this.apply();
  }

  // ---------------------------------- robots ------------------------------------------------------

  slots(count) {
    this.whom.hidden = count === 1;
    const names = count === 1 ? [] : [...LETTERS.slice(0, count), "all"];
    this.whom.replaceChildren(...names.map((name, i) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: name });
      button.setAttribute("role", "radio");
      button.dataset.slot = name === "all" ? -1 : i;
      button.setAttribute("aria-label", name === "all" ? "all robots" : `robot ${name}`);
      button.addEventListener("click", () => this.choose(name === "all" ? -1 : i));
      return button;
    }));
  }

  // the chosen robot, -1 for all of them, and its prompt
  chosen(slot, prompt) {
    this.slot = slot;
    for (const button of this.whom.children) {
      const checked = Number(button.dataset.slot) === slot;
      button.setAttribute("aria-checked", String(checked));
      button.tabIndex = checked ? 0 : -1;
    }
    const line = this.lines[prompt?.kind];
    if (line && document.activeElement !== line.input) line.text = prompt.text;
    this.light(prompt);
  }

  // the chip of the present prompt
  light(prompt) {
    for (const chip of this.box.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(chip.dataset.text === prompt?.text));
    }
  }

  // ---------------------------------- checks ------------------------------------------------------

  textOf(kind) {
    const { text } = this.lines[kind];
    return text ? { text } : null;
  }

  check(kind, text) {
    if (kind !== this.kind) return;
    this.held = null;
    if (!text) {
      this.clear();
      return this.histogram(null);
    }
    const id = this.nextId();
    this.asked.clear();  // only the last answer counts
    this.asked.set(id, { kind, text });
    this.say({ do: "check", id, kind, text });
  }

  checked(answer) {
    const asked = this.asked.get(answer.id);
    if (!asked || this.lines[asked.kind].text !== asked.text) return;
    this.asked.delete(answer.id);
    if (!answer.ok) return this.fail(answer, asked.kind);
    this.clear();
    if (answer.warning) this.tell(answer.warning, "warning");
    this.histogram(answer);
  }

  // An error's sentence and its place; with a suggestion, a button that takes it. A word that is still
  // being written is no error before its list of names is closed.
  fail(answer, kind = this.kind) {
    const { error, at, length, suggestion } = answer;
    this.held = this.lines[kind]?.unfinished(at, length ?? 1) ? answer : null;
    if (this.held) return;
    this.error.textContent = this.error.title = error;
    this.note.textContent = "";
    this.lines[kind]?.mark(at ?? null, length);
    this.suggestion.hidden = !suggestion || at === undefined;
    this.suggestion.textContent = suggestion ? `Use ${suggestion}` : "";
    this.fix = { kind, at, length, suggestion };
  }

  correct() {
    const { kind, at, length, suggestion } = this.fix;
    this.suggestion.hidden = true;
    this.lines[kind].replace(at, length ?? 1, suggestion);
  }

  clear() {
    this.held = null;
    this.error.textContent = this.note.textContent = "";
    this.suggestion.hidden = true;
    for (const line of Object.values(this.lines)) line.mark(null);
  }

  // a sentence that is no error
  tell(text, state = "") {
    if (this.error.textContent) return;
    this.note.textContent = text;
    this.note.dataset.state = state;
  }

  // ---------------------------------- prompts -----------------------------------------------------

  apply() {
    const read = this.kinds[this.kind].read();
    if (!read) {
      return this.fail({ error: `Write a ${this.kind} first, or choose one of the tasks below.` });
    }
    const prompt = { kind: this.kind, ...read };
    const softmax = Number(this.box.querySelector("#softmax").value);
    if (this.kind === "reward" && softmax) prompt.softmax = softmax;
    this.prompt(this.slot ?? 0, prompt, Number(this.box.querySelector("#ramp").value));
  }
}
