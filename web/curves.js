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

function powers(low, high) {
  const from = 10 ** Math.floor(Math.log10(low) + 1e-9);
  return [from, Math.max(10 * from, 10 ** Math.ceil(Math.log10(high) - 1e-9))];
}

// A range that contains 0, unless the values differ by little beside their size
function rounded(low, high) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (low * high > 0 && high - low < 0.4 * size) {
    const unit = nice((high - low) / 4 || size / 10);
    return [Math.floor(low / unit) * unit, Math.ceil(high / unit + 1e-9) * unit];
  }
  if (!size) return [0, 1];
  return [low < 0 ? -nice(-low) : 0, high > 0 ? nice(high) : 0];
}

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
    let low = this.floor ?? Infinity, high = this.ceiling ?? -Infinity;
    for (const { points } of this.curves) {
      for (const [, mean] of points) {
        if (this.log && mean <= 0) continue;
        low = Math.min(low, mean);
        high = Math.max(high, mean);
      }
    }
    if (low > high) [low, high] = this.log ? [0.1, 1] : [0, 1];
    [this.low, this.high] = this.log ? powers(low, high) : rounded(low, high);
  }

  x(step) {
    return this.width * Math.min(1, step / this.last);
  }

  y(value) {
    const by = this.log ? Math.log : Number, { low, high } = this;
    const part = (by(Math.min(high, Math.max(low, value))) - by(low)) / (by(high) - by(low));
    return this.height - BELOW - (this.height - ABOVE - BELOW) * part;
  }

  rules() {
    const { paper, width, height, low, high } = this;
    for (const value of new Set([low, high, !this.log && low < 0 && high > 0 ? 0 : low])) {
      const at = Math.round(this.y(value)) + 0.5;
      draw("path", paper, { class: "rule", d: `M0 ${at}H${width}` });
      const near = value === 0 && low && (at < ABOVE + 24 || at > height - BELOW - 24);
      if (near) continue;
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

  // the point of every curve that is nearest to a step, and the step of the nearest of them
  nearest(step) {
    const near = this.curves.map((curve) => {
      const point = curve.points.reduce((best, one) =>
        Math.abs(one[0] - step) < Math.abs(best[0] - step) ? one : best);
      return { curve, point };
    });
    const distance = ({ point }) => Math.abs(point[0] - step);
    return { near, at: near.reduce((a, b) => (distance(b) < distance(a) ? b : a)).point[0] };
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
    if (step === null || !this.width || !this.curves.length) return;
    const x = Math.round(this.x(step)) + 0.5;
    draw("path", this.cursor, { class: "at", d: `M${x} ${ABOVE}V${this.height - BELOW}` });
    for (const { curve, point } of this.nearest(step).near) {
      draw("circle", this.cursor, { class: `run-${curve.color}`, cx: this.x(point[0]),
        cy: this.y(point[1]), r: 3 });
    }
  }
}
