// A line for a formula: completion of the domain's names (an ARIA combobox), the place of an error
// underlined, and a check of what was typed a moment after typing stops.

const WAIT = 140;   // milliseconds without a key before the server is asked
const MOST = 60;    // names shown at once

// kinds of names, for people
const KINDS = { alias: "alias", robot: "robot", arrays: "vector", body: "body", geom: "geom",
  site: "site", joint: "joint", sensor: "sensor", actuator: "actuator", function: "function",
  operator: "operator", task: "task" };

export class Line {
  // input: the text field; list: the listbox that all lines share; check(text): asks the server;
  // apply(): Enter was pressed; closed(): the list has just been closed
  constructor(input, list, { check, apply, closed }) {
    Object.assign(this, { input, list, check, apply, closed });
    this.under = input.parentElement.querySelector(".under");
    this.names = [];
    this.active = -1;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.close());
    input.addEventListener("scroll", () => { this.under.scrollLeft = input.scrollLeft; });
    list.addEventListener("pointerdown", (event) => this.click(event));
  }

  get text() {
    return this.input.value.trim();
  }

  set text(text) {
    this.input.value = text;
    this.close();
    this.mark(null);
  }

  // names: [{name, kind, help}], functions: [{name, help}]; a reward takes the first of equal names
  offer(names, functions) {
    const first = new Map();
    for (const entry of [...names, ...functions.map((f) => ({ kind: "function", ...f }))]) {
      if (!first.has(entry.name)) first.set(entry.name, { ...entry, lower: entry.name.toLowerCase() });
    }
    this.names = [...first.values()];
  }

  typed() {
    this.mark(null);
    this.suggest();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(this.text), WAIT);
  }

  // ---------------------------------- errors ------------------------------------------------------

  // Underline `length` characters from `at` of the text that was checked; null: nothing
  mark(at, length = 1) {
    this.under.replaceChildren();
    this.input.toggleAttribute("aria-invalid", false);
    if (at === null || at === undefined) return;
    this.input.setAttribute("aria-invalid", "true");
    const { value } = this.input, first = at + value.length - value.trimStart().length;
    const wave = document.createElement("span");
    wave.textContent = value.slice(first, first + Math.max(1, length)).padEnd(1, " ");
    this.under.append(value.slice(0, first), wave);
    this.under.scrollLeft = this.input.scrollLeft;
  }

  // put a word in place of `length` characters at `at`
  replace(at, length, word) {
    const { value } = this.input, first = at + value.length - value.trimStart().length;
    this.input.value = value.slice(0, first) + word + value.slice(first + length);
    this.input.focus();
    this.input.setSelectionRange(first + word.length, first + word.length);
    this.typed();
    this.close();
  }

  // ---------------------------------- completion --------------------------------------------------

  // the name that ends at the caret
  get word() {
    const caret = this.input.selectionStart ?? 0;
    return /[A-Za-z_][\w.:]*$/.exec(this.input.value.slice(0, caret))?.[0] ?? "";
  }

  suggest() {
    const word = this.word.toLowerCase();
    if (!word) return this.close();
    const ranked = [];
    for (const entry of this.names) {
      const at = entry.lower.indexOf(word);
      if (at < 0 || entry.lower === word) continue;
      // names before their parts, beginnings before middles, short before long
      const parts = entry.lower.slice(at + word.length).split(".").length - 1;
      ranked.push([(at > 0 ? 1000 : 0) + 100 * parts + entry.name.length
        - (entry.kind === "alias" ? 50 : 0), entry]);
    }
    ranked.sort((a, b) => a[0] - b[0]);
    this.show(ranked.slice(0, MOST).map(([, entry]) => entry));
  }

  show(entries) {
    if (!entries.length) return this.close();
    this.entries = entries;
    this.list.owner = this;
    this.list.replaceChildren(...entries.map((entry, i) => option(entry, i)));
    this.list.hidden = false;
    this.list.scrollTop = 0;
    this.input.setAttribute("aria-expanded", "true");
    this.place();
    this.move(-1);
  }

  // below the word, inside of the line's box
  place() {
    const line = this.input.parentElement, pen = document.createElement("canvas").getContext("2d");
    pen.font = getComputedStyle(this.input).font;
    const before = this.input.value.slice(0, this.input.selectionStart - this.word.length);
    const at = pen.measureText(before).width - this.input.scrollLeft;
    const room = line.clientWidth - this.list.offsetWidth;
    this.list.style.left = `${line.offsetLeft + Math.max(0, Math.min(at, room))}px`;
    this.list.style.top = `${line.offsetTop + line.offsetHeight + 4}px`;
  }

  get open() {
    return !this.list.hidden && this.list.owner === this;
  }

  close() {
    if (!this.open) return;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.active = -1;
    this.closed();
  }

  // whether a place is in a word that is still being written, with names to choose from
  unfinished(at, length) {
    const caret = this.input.selectionStart;
    return this.open && at <= caret && caret <= at + length;
  }

  move(to) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = to;
    const chosen = this.list.children[to];
    if (!chosen) return this.input.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", chosen.id);
  }

  take(entry) {
    const caret = this.input.selectionStart, first = caret - this.word.length;
    const call = entry.kind === "function" ? "(" : "";
    this.input.setRangeText(entry.name + call, first, caret, "end");
    this.close();
    this.mark(null);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(this.text), WAIT);
  }

  key(event) {
    const { key } = event, count = this.open ? this.entries.length : 0;
    if (key === "ArrowDown" && !this.open) this.suggest();
    else if (key === "ArrowDown") this.move((this.active + 1) % count);
    else if (key === "ArrowUp" && count) this.move(this.active <= 0 ? count - 1 : this.active - 1);
    else if (key === "Escape" && this.open) this.close();
    else if ((key === "Enter" || key === "Tab") && this.open && this.active >= 0) {
      this.take(this.entries[this.active]);
    } else if (key === "Enter") {
      this.close();
      this.apply();
    } else return;
    event.preventDefault();
  }

  click(event) {
    if (!this.open) return;
    event.preventDefault();  // the text field keeps the focus
    const chosen = event.target.closest("[role=option]");
    if (chosen) this.take(this.entries[Number(chosen.dataset.index)]);
  }
}

function option({ name, kind, help }, index) {
  const item = document.createElement("li");
  item.id = `name-${index}`;
  item.dataset.index = index;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", "false");
  const parts = [["b", name], ["i", KINDS[kind] ?? kind ?? ""], ["span", help ?? ""]];
  item.append(...parts.map(([tag, text]) => {
    const part = document.createElement(tag);
    part.textContent = text;
    return part;
  }));
  return item;
}
