// One chart of lines over the last seconds, drawn like a recorder's strip: the newest value at the right
// edge, two thin lines for the range, no box.

import { WINDOW } from "./record.js";

const ROOM = 6;  // pixels above and below the lines

// a number with about three digits
export function brief(x) {
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  return x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace(/^-(0(\.0+)?)$/, "$1");
}

export class Chart {
  // floor and ceiling: values that the range always contains
  constructor(parent, { title, help = "", unit = "", floor = 0, ceiling = 0 }) {
    Object.assign(this, { floor, ceiling });
    this.box = document.createElement("figure");
    this.box.className = "chart";
    const caption = document.createElement("figcaption");
    this.title = document.createElement("span");
    this.title.textContent = title;
    this.title.title = help;
    this.unit = unit;
    this.values = document.createElement("span");
    this.values.className = "values";
    caption.append(this.title, this.values);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${title} over the last ${WINDOW} seconds`);
    this.box.append(caption, this.canvas);
    parent.append(this.box);
    this.clear();
  }

  // another robot has other ranges
  clear() {
    this.low = this.floor;
    this.high = this.ceiling;
  }

  // lines: [{points [[t, x] | null…], color, dash, name}]; now: time of the right edge; at: time under
  // the pointer or null
  draw(lines, now, at, colors) {
    const paper = begin(this.canvas);
    if (!paper) return;
    const { pen, width, height } = paper;
    this.range(lines, now);
    const x = (t) => width * (1 - (now - t) / WINDOW);
    const y = (v) => height - ROOM - (height - 2 * ROOM) * (v - this.low) / (this.high - this.low);
    const marks = rules(pen, this, y, width, colors);
    for (const line of lines) strip(pen, line, x, y);
    label(pen, marks, colors);
    if (at !== null) rule(pen, x(at), height, colors.ink);
    this.read(lines, at);
  }

  range(lines, now) {
    let low = this.floor, high = this.ceiling;
    for (const { points } of lines) {
      for (const point of points) {
        if (!point || point[0] < now - WINDOW) continue;
        low = Math.min(low, point[1]);
        high = Math.max(high, point[1]);
      }
    }
    if (low < 0 && -low < 0.04 * (high - low)) low = 0;  // not worth a line of its own
    if (high - low < 1e-6) high = low + 1;
    // grow at once, shrink only when half is empty, so that the lines do not breathe
    const span = this.high - this.low;
    if (low < this.low || high > this.high || high - low < 0.45 * span) {
      this.low = low < 0 ? -nice(-low) : low;
      this.high = high > 0 ? nice(high) : high;
      if (this.high <= this.low) this.high = this.low + 1;
    }
  }

  // the values at a time, or the newest that are known: one a line, in its colour
  read(lines, at) {
    const texts = lines.filter(({ named = true }) => named).map(({ points, color, name = "" }) => {
      const value = document.createElement("span");
      value.textContent = `${name ? `${name} ` : ""}${brief(valueAt(points, at))}`;
      value.style.color = color;
      return value;
    });
    if (this.unit) texts.push(this.unit);
    this.values.replaceChildren(...texts);
  }

  // the time under a point of the page, or null
  timeAt(clientX, now) {
    const box = this.canvas.getBoundingClientRect();
    const part = (clientX - box.left) / box.width;
    return part < 0 || part > 1 ? null : now - WINDOW * (1 - part);
  }
}

function valueAt(points, at) {
  if (at === null) return points.findLast(Boolean)?.[1] ?? NaN;
  let best = NaN, nearest = 1;
  for (let i = points.length - 1; i >= 0; i--) {
    if (!points[i]) continue;
    const distance = Math.abs(points[i][0] - at);
    if (distance >= nearest) {
      if (points[i][0] < at) break;
      continue;
    }
    nearest = distance;
    best = points[i][1];
  }
  return best;
}

// the next round number
function nice(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= x - 1e-9);
}

function strip(pen, { points, color, dash = [], width = 1.5 }, x, y) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.lineJoin = "round";
  pen.setLineDash(dash);
  pen.beginPath();
  let gap = true;
  for (const point of points) {
    if (!point) {
      gap = true;
      continue;
    }
    if (gap) pen.moveTo(x(point[0]), y(point[1]));
    else pen.lineTo(x(point[0]), y(point[1]));
    gap = false;
  }
  pen.stroke();
  pen.setLineDash([]);
}

// lines at the ends of the range and at 0; returns their places and texts
function rules(pen, { low, high }, y, width, colors) {
  pen.font = colors.font;
  pen.strokeStyle = colors.line;
  pen.lineWidth = 1;
  const zero = low < 0 && high > 0 && y(low) - y(0) > 12 && y(0) - y(high) > 12;
  return (zero ? [low, 0, high] : [low, high]).map((value) => {
    const at = Math.round(y(value)) + 0.5, small = value && Math.abs(value) < 0.01;
    const text = small ? String(+value.toPrecision(2)) : brief(value).replace(/\.0+$|(\.\d)0$/, "$1");
    pen.beginPath();
    pen.moveTo(pen.measureText(text).width + 6, at);
    pen.lineTo(width, at);
    pen.stroke();
    return [at, text];
  });
}

// above the lines, with a rim that keeps them readable
function label(pen, marks, colors) {
  pen.textBaseline = "middle";
  pen.strokeStyle = colors.card;
  pen.fillStyle = colors.soft;
  pen.lineWidth = 4;
  for (const [at, text] of marks) {
    pen.strokeText(text, 0, at);
    pen.fillText(text, 0, at);
  }
}

function rule(pen, x, height, color) {
  pen.strokeStyle = color;
  pen.globalAlpha = 0.5;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, 0);
  pen.lineTo(x, height);
  pen.stroke();
  pen.globalAlpha = 1;
}

// A cleared canvas with as many pixels as it has on the screen, or null while it is not shown
export function begin(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  // small and often new: drawn by the CPU, which costs less than a GPU's texture, and far less without one
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}
