// A small chart of curves over training steps, as SVG, so that the style sheet colours it. Hairlines for
// the range, no box; a band is a standard deviation. The chart itself can have the focus: the arrow
// keys move its cursor from point to point.

const SVG = "http://www.w3.org/2000/svg";
const ABOVE = 5, BELOW = 15;  // pixels around the curves; the steps stand below them

export function make(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

function draw(name, parent, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

// 1234 as "1,234", 35000 as "35k", 1500000 as "1.5M"
export function steps(x) {
  if (x >= 999500) return `${+(x / 1e6).toPrecision(3)}M`;
  if (x >= 9999.5) return `${+(x / 1e3).toPrecision(3)}k`;
  return Math.round(x).toLocaleString("en");
}

// a number with about three digits
export function brief(x) {
  const size = Math.abs(x);
  if (!Number.isFinite(x)) return "–";
  if (size >= 1e4) return steps(size).replace(/^/, x < 0 ? "−" : "");
  if (size && size < 0.01) return x.toExponential(0).replace("-", "−");
  return String(+x.toPrecision(3)).replace("-", "−");
}

// the next of 1, 1.5, 2, 3, 5, 8, 10 …
export function nice(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 1.5, 2, 3, 5, 8, 10].find((step) => step * unit >= x * (1 - 1e-9));
}

const wholePower = (x) => 10 ** Math.ceil(Math.log10(x) - 1e-9);

export class Plot {
  // help: what it shows, for a reader without eyes on it; log: a logarithmic axis; floor and ceiling:
  // values that the range always contains; marks: [{at, name}], values with a dotted line if in range
  constructor(parent, { title, help = "", log = false, floor = null, ceiling = null, marks = [] }) {
    Object.assign(this, { title, log, floor, ceiling, marks, curves: [], last: 1 });
    this.box = make("figure", "plot", parent);
    const caption = make("figcaption", "", this.box);
    make("span", "title", caption, title).title = help ? `${title}: ${help}` : title;
    this.values = make("span", "values", caption);
    this.svg = draw("svg", this.box, { role: "img", tabindex: -1 });
    this.paper = draw("g", this.svg, {});
    this.cursor = draw("g", this.svg, { class: "cursor" });
  }

  // curves: [{name, color, dashed, points [[step, mean, std]…]}]; last: the step at the right edge
  set(curves, last) {
    this.curves = curves.filter(({ points }) => points.length);
    this.last = last;
    this.svg.setAttribute("aria-label", this.summary());
    this.redraw();
  }

  summary() {
    if (!this.curves.length) return `${this.title}: nothing yet`;
    const ends = this.curves.map(({ name, points }) => {
      const [step, mean] = points[points.length - 1];
      return `${name} ${brief(mean)} at step ${steps(step)}`;
    });
    return `${this.title}: ${ends.join(", ")}`;
  }

  // ---------------------------------- drawing -------------------------------------------------------

  redraw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    this.paper.replaceChildren();
    if (!width || !height) return;
    this.range();
    Object.assign(this, { width, height });
    this.rules();
    for (const curve of this.curves) this.curve(curve);
    // several runs are told apart in the tooltip; here one number would be anyone's
    const [only] = this.curves;
    this.values.textContent = this.curves.length === 1
      ? brief(only.points[only.points.length - 1][1]) : "";
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const { points } of this.curves) {
      for (const [, mean, std = 0] of points) {
        if (this.log && mean <= 0) continue;
        low = Math.min(low, this.log ? mean : mean - std);
        high = Math.max(high, this.log ? mean : mean + std);
      }
    }
    if (this.floor !== null) low = Math.min(low, this.floor);
    if (this.ceiling !== null) high = Math.max(high, this.ceiling);
    if (low > high) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (this.log) {
      this.low = 1 / wholePower(1 / low);
      this.high = Math.max(wholePower(high), 10 * this.low);
      return;
    }
    // from 0 where the values are not far from it in their own measure
    if (low > 0 && low < 0.7 * high) low = 0;
    if (high < 0 && high > 0.7 * low) high = 0;
    const unit = nice((high - low || Math.abs(high) || 1) / 4);
    this.low = Math.floor(low / unit + 1e-9) * unit;
    this.high = Math.ceil(high / unit - 1e-9) * unit;
    if (this.high <= this.low) this.high = this.low + unit;
  }

  x(step) {
    return this.width * Math.min(1, step / this.last);
  }

  y(value) {
    const by = this.log ? Math.log : Number;
    const part = (by(Math.max(value, this.log ? this.low : -Infinity)) - by(this.low)) /
      (by(this.high) - by(this.low));
    return this.height - BELOW - (this.height - ABOVE - BELOW) * part;
  }

  rules() {
    const { paper, width, height, low, high } = this;
    for (const value of new Set([low, !this.log && low < 0 && high > 0 ? 0 : low, high])) {
      const at = Math.round(this.y(value)) + 0.5;
      draw("path", paper, { class: "rule", d: `M0 ${at}H${width}` });
      draw("text", paper, { x: 0, y: value === low ? at - 4 : at + 10 }).textContent = brief(value);
    }
    for (const { at, name } of this.marks) {
      if (at <= low || at >= high) continue;
      const y = Math.round(this.y(at)) + 0.5;
      draw("path", paper, { class: "mark", d: `M0 ${y}H${width}` });
      draw("text", paper, { class: "right", x: width, y: y - 3 }).textContent = name;
    }
    draw("text", paper, { x: 0, y: height - 2 }).textContent = "0";
    draw("text", paper, { class: "right", x: width, y: height - 2 }).textContent = steps(this.last);
  }

  curve({ color, dashed, points }) {
    const group = draw("g", this.paper, { class: `run-${color}${dashed ? " dashed" : ""}` });
    const at = ([step, mean], by = 0) => `${this.x(step).toFixed(1)} ${this.y(mean + by).toFixed(1)}`;
    if (!this.log && points.some(([, , std]) => std > 0)) {
      const above = points.map((point) => at(point, point[2]));
      const below = points.map((point) => at(point, -point[2])).reverse();
      draw("path", group, { class: "band", d: `M${above.join("L")}L${below.join("L")}Z` });
    }
    if (points.length === 1) {
      const [step, mean] = points[0];
      draw("circle", group, { cx: this.x(step), cy: this.y(mean), r: 2.2 });
    } else {
      draw("path", group, { class: "line", d: `M${points.map((point) => at(point)).join("L")}` });
    }
  }

  // ---------------------------------- the cursor ------------------------------------------------------

  stepAt(clientX) {
    const box = this.svg.getBoundingClientRect();
    return this.last * Math.min(1, Math.max(0, (clientX - box.left) / box.width));
  }

  // the points nearest to a step: [{curve, point}]
  nearest(step) {
    return this.curves.map((curve) => {
      let best = curve.points[0];
      for (const point of curve.points) {
        if (Math.abs(point[0] - step) < Math.abs(best[0] - step)) best = point;
      }
      return { curve, point: best };
    });
  }

  // the next step that has a point, in a direction
  neighbour(step, direction) {
    const all = this.curves.flatMap(({ points }) => points.map(([at]) => at));
    const beyond = all.filter((at) => (at - step) * direction > 1e-9);
    if (!beyond.length) return step;
    return direction > 0 ? Math.min(...beyond) : Math.max(...beyond);
  }

  // null: no cursor
  point(step) {
    this.cursor.replaceChildren();
    if (step === null || !this.width) return;
    const x = Math.round(this.x(step)) + 0.5;
    draw("path", this.cursor, { class: "at", d: `M${x} ${ABOVE}V${this.height - BELOW}` });
    for (const { curve, point } of this.nearest(step)) {
      draw("circle", this.cursor, { class: `run-${curve.color}`, cx: this.x(point[0]),
        cy: this.y(point[1]), r: 3 });
    }
  }
}
