// Training runs, live: how far each is and whether it is healthy, and their returns, health and losses
// as small charts that lay the runs over each other. Whatever a run is called or says is set as text.

import { radio, check } from "./groups.js";
import { brief, make, nice, Plot, steps } from "./curves.js";

const COLORS = 8;
const NO_RETURNS = "No evaluations yet. With --eval-every, bfm train evaluates while it trains.";

// what the log says about health, in the order of docs/learning.md
const HEALTH = [
  { title: "norm of F / bound", help: "the largest that theory allows is 1; the guard stops a run at 2",
    names: ["F", "psi.norm"], scale: ({ health }) => 1 / health.F_bound, floor: 0,
    marks: [{ at: 1, name: "bound" }, { at: 2, name: "stop" }] },
  { title: "largest F·B", help: "it grows long before the norm of F when a run is about to diverge",
    names: ["M.max"], log: true },
  { title: "eigenvalues of E[BBᵀ]", help: "the smallest and the largest; both are near 1 in a healthy run",
    names: ["B.eig.min", "phi.eig.min", "B.eig.max", "phi.eig.max"], log: true,
    marks: [{ at: 1, name: "" }] },
  { title: "sample size of weights", help: "effective sample size of the weights as a share of the batch (ess), "
    + "above a few percent in a healthy run", names: ["ess"], floor: 0, ceiling: 1 },
  { title: "Q (dashed: data)", help: "mean F·z at the actions of the policy, and dashed at those of the data; "
    + "they are close to each other in a healthy run", names: ["Q.pi", "Q.data"], dashed: "Q.data" },
];

const TITLES = { fb: "FB loss", ortho: "orthonormality", actor: "actor", psi: "successor features",
  lap: "Laplacian", critic: "critic", q: "Q" };

export class Runs {
  constructor(container) {
    this.runs = new Map();  // by label: {label, color, shown, message, heard, row}
    this.es = "all";
    this.step = null;
    this.view = make("div", "runs", container);
    this.view.hidden = true;  // until its style is there
    const style = make("link", "", document.head);
    style.rel = "stylesheet";
    style.href = "runs.css";
    style.onload = style.onerror = () => {
      this.view.hidden = false;
      this.request();
    };
    this.build(container);
    new ResizeObserver(() => this.request()).observe(container);
    setInterval(() => this.tick(), 1000);
  }

  build(container) {
    const head = make("header", "", this.view);
    this.title = make("h2", "", head);
    const large = make("button", "", head, "Enlarge");
    large.type = "button";
    large.setAttribute("aria-pressed", "false");
    large.addEventListener("click", () => {
      const on = container.classList.toggle("large");
      large.setAttribute("aria-pressed", String(on));
      large.textContent = on ? "Reduce" : "Enlarge";
    });
    this.list = make("ul", "list", this.view);
    this.returns = this.section("Returns");
    this.health = this.section("Health");
    this.losses = this.section("Losses");
    this.choice();
    this.tip = make("div", "tip", this.view);
    this.tip.setAttribute("role", "status");
    this.tip.hidden = true;
  }

  // a heading and its charts: one stop of Tab, in which the arrow keys move
  section(title) {
    const section = make("section", "", this.view), head = make("header", "", section);
    make("h3", "", head, title);
    const part = { head, empty: make("p", "empty", section), grid: make("div", "plots", section),
      plots: new Map() };
    part.grid.addEventListener("pointermove", (event) => this.hover(part, event));
    part.grid.addEventListener("pointerleave", () => this.point(null));
    part.grid.addEventListener("focusin", (event) => this.focus(part, event));
    part.grid.addEventListener("focusout", () => this.point(null));
    part.grid.addEventListener("keydown", (event) => this.key(part, event));
    return part;
  }

  // with and without evaluation-based sampling, offered where both were evaluated
  choice() {
    this.pick = make("div", "pick", this.returns.head);
    this.pick.setAttribute("role", "radiogroup");
    this.pick.setAttribute("aria-label", "How the evaluated agents act");
    for (const [value, text] of [["all", "both"], ["es", "best of M"], ["mean", "┄ mean"]]) {
      const button = make("button", "", this.pick, text);
      button.type = "button";
      button.dataset.value = value;
      button.setAttribute("role", "radio");
    }
    check(this.pick, this.es);
    radio(this.pick, (value) => {
      this.es = value;
      this.request();
    });
  }

  // ---------------------------------- messages --------------------------------------------------------

  hello({ runs }) {
    for (const [label, run] of this.runs) {
      if (runs.includes(label)) continue;
      run.row.box.remove();
      this.runs.delete(label);
    }
    for (const [i, label] of runs.entries()) this.add(label, i % COLORS);
    for (const run of this.runs.values()) run.number = -1;  // the server may have been started again
    set(this.title, this.runs.size === 1 ? "1 run" : `${this.runs.size} runs`);
    this.request();
  }

  run(message) {
    const run = this.runs.get(message.label);
    if (!run || message.number < run.number) return;
    Object.assign(run, { message, number: message.number, heard: performance.now() });
    this.request();
  }

  // its step is in the next message of the run
  model() {}

  add(label, color) {
    if (this.runs.has(label)) return;
    const run = { label, color, shown: true, message: null, number: -1 };
    run.row = this.row(run);
    this.runs.set(label, run);
  }

  // ---------------------------------- rows of runs ----------------------------------------------------

  row(run) {
    const box = make("li", `run-${run.color}`, this.list);
    const top = make("p", "", box), name = make("button", "name", top), swatch = make("i", "", name);
    swatch.setAttribute("aria-hidden", "true");
    name.type = "button";
    name.title = `Show or hide the curves of ${run.label}`;
    name.setAttribute("aria-pressed", "true");
    make("span", "", name, run.label);
    name.addEventListener("click", () => {
      run.shown = !run.shown;
      name.setAttribute("aria-pressed", String(run.shown));
      this.request();
    });
    const state = make("span", "state", top), bar = make("progress", "", box);
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", `Progress of ${run.label}`);
    const below = make("p", "", box);
    return { box, state, bar, done: make("span", "done", below), rate: make("span", "rate", below),
      health: make("p", "health", box) };
  }

  fill({ row, message }) {
    if (!message) {
      row.state.textContent = "reading";
      return;
    }
    const { step, steps: all, state, note, rate, health, model_step: model } = message;
    const going = state === "running";
    row.box.dataset.state = state;
    row.bar.value = all ? Math.min(1, step / all) : 0;
    set(row.done, all ? `${steps(step)} of ${steps(all)} steps` : `${steps(step)} steps`);
    set(row.rate, going && rate ? `${brief(rate)} steps/s` : note === health.text ? "" : note);
    row.rate.title = note;
    row.box.title = model === null ? "It has no model to act with yet."
      : `Its model of step ${steps(model)} acts.`;
    row.health.dataset.word = health.word;
    row.health.replaceChildren(make("b", "", null, health.word), ` ${health.text}`);
    row.health.title = health.text;
  }

  // the time left goes on between messages
  tick() {
    for (const { row, message, heard } of this.runs.values()) {
      if (message) set(row.state, stateText(message, (performance.now() - heard) / 1000));
    }
  }

  // ---------------------------------- drawing ---------------------------------------------------------

  request() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = null;
      this.draw();
    });
  }

  draw() {
    if (!this.view.clientWidth) return;
    for (const run of this.runs.values()) {
      fadeIn(run);
      this.fill(run);
    }
    this.tick();
    const shown = [...this.runs.values()].filter(({ shown, message }) => shown && message);
    this.last = lastStep(shown);
    this.drawReturns(shown);
    this.drawHealth(shown);
    this.drawLosses(shown);
    this.point(this.step, this.pointed);
  }

  drawReturns(shown) {
    const all = shown.flatMap(({ message }) => message.returns);
    const both = all.some(({ es }) => es) && all.some(({ es }) => !es);
    const many = [...new Set(all.map(({ es }) => es).filter(Boolean))];
    this.pick.hidden = !both;
    set(this.pick.children[1], many.length === 1 ? `best of ${many[0]}` : "best of M");
    const wanted = ({ es }) => !both || this.es === "all" || (this.es === "es") === es > 0;
    const titles = new Set(all.map(({ task }) => task));
    const curves = new Map();
    if (titles.size > 1) curves.set("mean", []);
    for (const title of titles) curves.set(`task ${title}`, []);
    for (const run of shown) {
      const own = run.message.returns.filter(wanted);
      for (const curve of own) {
        curves.get(`task ${curve.task}`).push(curveOf(run, curve.points, esName(curve), both && !curve.es));
      }
      if (titles.size < 2) continue;
      for (const es of new Set(own.map((curve) => curve.es))) {
        const points = meanOf(own.filter((curve) => curve.es === es), titles.size);
        curves.get("mean").push(curveOf(run, points, esName({ es }), both && !es));
      }
    }
    set(this.returns.empty, titles.size ? "" : NO_RETURNS);
    for (const [key, list] of curves) {
      const title = key === "mean" ? "mean of all" : key.slice(5);
      this.plot(this.returns, key, { title, floor: 0, help: "return of an episode" }, list);
    }
    this.keep(this.returns, curves);
  }

  drawHealth(shown) {
    const curves = new Map();
    for (const part of HEALTH) {
      const list = [];
      for (const run of shown) {
        const scale = part.scale?.(run.message) ?? 1;
        for (const { name, points } of run.message.metrics) {
          if (!part.names.includes(name) || !Number.isFinite(scale)) continue;
          list.push(curveOf(run, points.map(([at, x]) => [at, x * scale]), shortName(part, name),
            name === part.dashed));
        }
      }
      if (!list.length) continue;
      curves.set(part.title, list);
      this.plot(this.health, part.title, part, list);
    }
    set(this.health.empty, curves.size ? "" : "No lines in the log yet.");
    this.keep(this.health, curves);
  }

  drawLosses(shown) {
    const curves = new Map();
    for (const run of shown) {
      for (const { name, points } of run.message.losses) {
        if (!curves.has(name)) curves.set(name, []);
        curves.get(name).push(curveOf(run, points, ""));
      }
    }
    for (const [name, list] of curves) {
      this.plot(this.losses, name, { title: TITLES[name] ?? name, help: `the loss ${name}` }, list);
    }
    set(this.losses.empty, curves.size ? "" : "No lines in the log yet.");
    this.keep(this.losses, curves);
  }

  plot(part, key, options, curves) {
    if (!part.plots.has(key)) part.plots.set(key, new Plot(part.grid, options));
    part.plots.get(key).set(curves, this.last);
  }

  // the charts that are still wanted, in order, the first of which Tab reaches
  keep(part, wanted) {
    for (const [key, plot] of part.plots) {
      if (wanted.has(key)) continue;
      plot.box.remove();
      part.plots.delete(key);
    }
    const boxes = [...wanted.keys()].map((key) => part.plots.get(key).box);
    boxes.forEach((box, i) => {
      if (part.grid.children[i] !== box) part.grid.insertBefore(box, part.grid.children[i] ?? null);
    });
    const svgs = boxes.map((box) => box.querySelector("svg"));
    if (svgs.length && !svgs.some((svg) => svg.tabIndex === 0)) svgs[0].tabIndex = 0;
  }

  // ---------------------------------- pointing --------------------------------------------------------

  plotOf(part, element) {
    const box = element.closest?.(".plot");
    return [...part.plots.values()].find((plot) => plot.box === box);
  }

  hover(part, event) {
    const plot = this.plotOf(part, event.target);
    this.point(plot ? plot.stepAt(event.clientX) : null, plot);
  }

  focus(part, event) {
    const plot = this.plotOf(part, event.target);
    for (const { svg } of part.plots.values()) svg.tabIndex = svg === event.target ? 0 : -1;
    if (plot && event.target.matches(":focus-visible")) this.point(this.step ?? this.last, plot);
  }

  key(part, event) {
    const plots = [...part.plots.values()], at = plots.findIndex(({ svg }) => svg === event.target);
    const plot = plots[at], step = this.step ?? this.last;
    const turn = (other) => {
      other?.svg.focus();
      if (other) this.point(step, other);
    };
    const does = {
      ArrowLeft: () => this.point(plot.neighbour(step, -1), plot),
      ArrowRight: () => this.point(plot.neighbour(step, 1), plot),
      Home: () => this.point(plot.neighbour(-1, 1), plot),
      End: () => this.point(plot.neighbour(Infinity, -1), plot),
      ArrowUp: () => turn(plots[at - 1]),
      ArrowDown: () => turn(plots[at + 1]),
      Escape: () => this.point(null),
    }[event.key];
    if (!plot || !does) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  }

  // a cursor at a step in all charts, and what one of them has there
  point(step, plot) {
    this.step = step;
    this.pointed = plot;
    for (const part of [this.returns, this.health, this.losses]) {
      for (const one of part.plots.values()) one.point(step);
    }
    this.tip.hidden = step === null || !plot?.curves.length;
    if (!this.tip.hidden) this.say(plot, step);
  }

  say(plot, step) {
    const { near, at } = plot.nearest(step);
    this.tip.replaceChildren(make("b", "", null, `${plot.title}, step ${steps(at)}`));
    for (const { curve, point: [where, mean, std] } of near) {
      const line = make("span", `run-${curve.color}`, this.tip);
      make("i", curve.dashed ? "dashed" : "", line);
      const far = Math.abs(where - at) > this.last / 50;
      make("span", "", line, curve.name + (far ? ` at ${steps(where)}` : ""));
      make("output", "", line, brief(mean) + (std ? ` ± ${brief(std)}` : ""));
    }
    this.place(plot, step);
  }

  // above the chart, or below where there is no room, and within the view
  place(plot, step) {
    const view = this.view.getBoundingClientRect(), box = plot.svg.getBoundingClientRect();
    const tip = this.tip.getBoundingClientRect(), port = this.view.closest("aside, body");
    const top = Math.max(0, port.getBoundingClientRect().top);
    const x = box.left - view.left + plot.x(step) - tip.width / 2;
    const above = box.top - tip.height - 22;
    const y = (above < top ? box.bottom + 6 : above) - view.top;
    this.tip.style.transform = `translate(${Math.round(Math.max(-8,
      Math.min(view.width - tip.width + 8, x)))}px, ${Math.round(y)}px)`;
  }
}

// ---------------------------------- words and numbers ---------------------------------------------------

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fadeIn({ row, shown }) {
  row.box.classList.toggle("off", !shown);
}

function duration(seconds) {
  const minutes = Math.round(seconds / 60);
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

function stateText({ state, seconds, seconds_left: left }, since) {
  if (state === "running") {
    return Number.isFinite(left) ? `${duration(Math.max(1, left - since))} left` : "running";
  }
  if (state === "finished" && seconds) return `finished in ${duration(seconds)}`;
  return state;
}

// As far as the longest run has come, rounded up, so that curves fill their charts and rarely shrink
function lastStep(shown) {
  const reached = Math.max(1, ...shown.map(({ message }) => message.step));
  const planned = Math.max(reached, ...shown.map(({ message }) => message.steps || 0));
  return Math.min(planned, nice(reached));
}

function curveOf({ label, color }, points, detail, dashed = false) {
  return { name: detail ? `${label}, ${detail}` : label, color, points, dashed };
}

function esName({ es }) {
  return es ? `best of ${es}` : "mean action";
}

function shortName({ names, dashed }, name) {
  if (names.length < 3 && !dashed) return "";
  return { "Q.pi": "policy", "Q.data": "data" }[name] ?? (name.endsWith("min") ? "smallest" : "largest");
}

// means over tasks at the steps at which all of them were evaluated
function meanOf(curves, tasks) {
  const sums = new Map();
  for (const { points } of curves) {
    for (const [step, mean] of points) {
      const [sum, count] = sums.get(step) ?? [0, 0];
      sums.set(step, [sum + mean, count + 1]);
    }
  }
  const most = Math.min(tasks, curves.length);
  return [...sums].filter(([, [, count]]) => count === most)
    .map(([step, [sum, count]]) => [step, sum / count]).sort((a, b) => a[0] - b[0]);
}
