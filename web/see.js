// The measurements beside the robot: reward, predicted value and what was then earned, spread of F's
// members, speed and height over time, z by blocks, and the histogram of rewards at the prompt states.

import { begin, brief, Chart } from "./chart.js";
import { Record } from "./record.js";

const NOBODY = { points: [] };

export class See {
  // colors(): the present colours: ink, soft, line, accent, font, slots [4]
  constructor(parent, histogram, colors) {
    this.colors = colors;
    this.charts = {
      reward: new Chart(parent, { title: "Reward", help: "means of a quarter of a second", ceiling: 1 }),
      value: new Chart(parent, { title: "Value F·z",
        help: "the discounted sum of rewards that the model predicts, and what was then earned" }),
      spread: new Chart(parent, { title: "Spread of F's members" }),
      speed: new Chart(parent, { title: "Speed", unit: "m/s", ceiling: 1 }),
      height: new Chart(parent, { title: "Height", unit: "m", ceiling: 1 }),
    };
    this.z = makeBars(parent);
    this.histogram = histogram;
    this.at = null;
    this.chosen = 0;
    this.records = [];
    parent.addEventListener("pointermove", (event) => this.hover(event));
    parent.addEventListener("pointerleave", () => this.hover(null));
    new ResizeObserver(() => this.request()).observe(parent);
  }

  open(scene) {
    this.scene = scene;
    this.records = Array.from({ length: scene.slots },
      () => new Record(scene.control_dt, scene.gamma));
    for (const chart of Object.values(this.charts)) chart.clear();
    this.charts.spread.box.hidden = scene.members < 2;
    this.numbers = null;
    this.request();
  }

  add(stats) {
    stats.slots.forEach((slot, i) => this.records[i]?.add(stats.time, slot));
    this.request();
  }

  // a robot has a new prompt
  cut(slot) {
    this.records[slot]?.cut();
  }

  cutAll() {
    for (const record of this.records) record.cut();
  }

  choose(slot) {
    this.chosen = slot;
    this.request();
  }

  hover(event) {
    const chart = this.charts.reward;
    this.at = event?.target.closest?.(".chart") ? chart.timeAt(event.clientX, this.now) : null;
    this.request();
  }

  get now() {
    return Math.max(0, ...this.records.map(({ last }) => last));
  }

  request() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = null;
      this.draw();
    });
  }

  draw() {
    const colors = this.colors(), { charts, records, now, at } = this;
    if (!this.scene) return;
    const each = (make) => records.map((record, i) => ({ ...make(record), color: colors.slots[i],
      width: i === this.chosen ? 1.75 : 1.1 }));
    const show = (chart, lines) => charts[chart].draw(lines, now, at, colors);
    show("reward", each((record) => ({ points: record.smooth() })));
    show("value", this.valueLines(colors));
    if (this.scene.members > 1) {
      show("spread", each((record) => ({ points: record.line(record.steps, "spread") })));
    }
    show("speed", each((record) => ({ points: record.line(record.slow, "speed") })));
    show("height", each((record) => ({ points: record.line(record.slow, "height") })));
    this.bars(colors);
    this.spread(colors);
  }

  // of the chosen robot alone: two lines for each of four would say nothing
  valueLines(colors) {
    const record = this.records[this.chosen];
    if (!record) return [NOBODY];
    return [
      { points: record.line(record.steps, "value"), color: colors.slots[this.chosen], name: "predicted" },
      { points: record.earned(), color: colors.ink, name: "then earned", width: 1.1, dash: [3, 2] },
    ];
  }

  // ---------------------------------- z -----------------------------------------------------------

  show(z) {
    this.numbers = z;
    this.request();
  }

  bars(colors) {
    const paper = begin(this.z.canvas);
    if (!paper || !this.numbers) return;
    const { pen, width, height } = paper, { numbers } = this;
    const blocks = this.scene.blocks?.length ? this.scene.blocks : [numbers.length];
    const gap = Math.min(4, 0.25 * width / blocks.length);
    const step = (width - gap * (blocks.length - 1)) / numbers.length;
    const most = Math.max(...numbers.map(Math.abs)) || 1;
    pen.fillStyle = colors.slots[this.chosen];
    let i = 0, left = 0;
    for (const block of blocks) {
      for (const end = i + block; i < end; i++, left += step) {
        const tall = (0.5 * height - 1) * numbers[i] / most;
        pen.fillRect(left, 0.5 * height - Math.max(tall, 0), Math.max(step - 1, 0.6),
          Math.max(Math.abs(tall), 0.75));
      }
      left += gap;
    }
    const norm = Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0));
    this.z.values.textContent = `${numbers.length} numbers in ${blocks.length} `
      + `block${blocks.length > 1 ? "s" : ""}, norm ${brief(norm)}`;
  }

  // ---------------------------------- histogram ---------------------------------------------------

  // values: {lo, hi, mean, counts}, or null
  count(values) {
    this.counted = values?.counts?.length ? values : null;
    this.histogram.classList.toggle("empty", !this.counted);
    this.request();
  }

  // heights are square roots of counts: rare rewards are what a prompt is about
  spread(colors) {
    const [low, title, high] = this.histogram.querySelectorAll("figcaption span");
    const paper = begin(this.histogram.querySelector("canvas"));
    if (!paper) return;
    const { pen, width, height } = paper, { counted } = this;
    pen.fillStyle = colors.line;
    pen.fillRect(0, height - 1, width, 1);
    low.textContent = counted ? brief(counted.lo) : "";
    high.textContent = counted ? brief(counted.hi) : "";
    title.textContent = counted ? `mean ${brief(counted.mean)}` : "prompt states";
    if (!counted) return;
    const { counts, lo, hi, mean } = counted, most = Math.sqrt(Math.max(...counts)) || 1;
    const step = width / counts.length;
    pen.fillStyle = colors.accent;
    counts.forEach((count, i) => {
      const tall = count ? Math.max(1.5, (height - 4) * Math.sqrt(count) / most) : 0;
      pen.fillRect(i * step, height - tall, Math.max(step - 1, 1), tall);
    });
    if (hi > lo) {
      pen.fillStyle = colors.ink;
      pen.fillRect(Math.min(width - 1.5, width * (mean - lo) / (hi - lo)), 0, 1.5, height);
    }
  }
}

function makeBars(parent) {
  const box = document.createElement("figure"), caption = document.createElement("figcaption");
  box.className = "chart bars";
  const title = document.createElement("span"), values = document.createElement("span");
  title.textContent = "z";
  values.className = "values";
  caption.append(title, values);
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "The numbers of z, block by block");
  box.append(caption, canvas);
  parent.append(box);
  return { canvas, values };
}
