// Light and dark, as the system says or the user chose, and the colours of the style sheet for what is
// drawn on canvases.

const KEY = "bfm.theme";
const NAMES = ["card", "ink", "soft", "line", "accent", "slot-a", "slot-b", "slot-c", "slot-d"];

const system = matchMedia("(prefers-color-scheme: dark)");

export class Theme {
  constructor(changed) {
    this.changed = changed;
    try {
      this.set(localStorage.getItem(KEY));
    } catch {
      this.set(null);
    }
    system.addEventListener("change", () => this.refresh());
  }

  get dark() {
    return (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  }

  set(name) {
    if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
    this.refresh();
  }

  toggle() {
    const name = this.dark ? "light" : "dark";
    this.set(name);
    try {
      localStorage.setItem(KEY, name);
    } catch {
      // then the choice lasts as long as the page
    }
  }

  // light-dark() is only resolved in a property of an element
  refresh() {
    const probe = document.createElement("i");
    document.body.append(probe);
    const found = {};
    for (const name of NAMES) {
      probe.style.color = `var(--${name})`;
      found[name] = getComputedStyle(probe).color;
    }
    this.colors = { card: found.card, ink: found.ink, soft: found.soft, line: found.line, accent: found.accent,
      font: `10.5px ${getComputedStyle(document.body).fontFamily}`,
      slots: [found["slot-a"], found["slot-b"], found["slot-c"], found["slot-d"]] };
    probe.remove();
    this.changed?.(this);
  }
}
