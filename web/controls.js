// The simulation's controls: pause, step, reset, speed, how to act, noise, robots side by side. They show
// the page's state and change it.

import { check, radio } from "./groups.js";

const PATIENCE = 400;  // milliseconds in which the server may still report a pause as it was

const $ = (selector) => document.querySelector(selector);

export class Controls {
  // say: to the server; restart(): all robots begin anew; open(): the scene must be built anew;
  // changed(): the state has changed
  constructor(state, { say, restart, open, changed }) {
    Object.assign(this, { state, say, restart, open, changed });
    const on = (selector, event, does) => $(selector).addEventListener(event,
      ({ target }) => does(target.value));
    on("#pause", "click", () => this.pause());
    on("#step", "click", () => this.step());
    on("#reset", "click", () => this.reset("start"));
    on("#random", "click", () => this.reset("random"));
    on("#speed", "input", (value) => this.speed(Number(value)));
    on("#es", "change", (value) => this.act({ es: Number(value) }));
    on("#noise", "input", (value) => this.act({ noise: Number(value) }));
    on("#seed", "change", (value) => this.seed(Number(value) || 0));
    radio($("#slots"), (value) => this.slots(Number(value)));
    this.paused = 0;  // when the user paused or continued
  }

  // a new scene has the server's defaults
  again() {
    const { es, noise, speed, paused } = this.state;
    if (es || noise) this.say({ do: "act", es, noise });
    if (speed !== 1) this.say({ do: "speed", factor: speed });
    if (paused) this.say({ do: "pause", on: true });
    this.show();
  }

  show() {
    const { seed, slots, speed, es, noise, paused } = this.state, best = $("#es");
    const set = (selector, value, text) => {
      $(selector).value = value;
      $(selector).nextElementSibling.textContent = text;
    };
    set("#speed", speed, `${speed.toFixed(1)}×`);
    set("#noise", noise, noise.toFixed(2));
    if (![...best.options].some(({ value }) => Number(value) === es)) {
      best.append(new Option(`best of ${es}`, es));
    }
    best.value = String(es);
    $("#seed").value = seed;
    check($("#slots"), slots);
    $("#pause").setAttribute("aria-pressed", String(paused));
    $("#pause use").setAttribute("href", paused ? "#i-play" : "#i-pause");
    $("#pause .name").textContent = paused ? "Continue" : "Pause";
  }

  pause(on = !this.state.paused) {
    this.state.paused = on;
    this.paused = performance.now();
    this.say({ do: "pause", on });
    this.show();
    this.changed();
  }

  // what the server says
  hear({ paused }) {
    if (paused === this.state.paused || performance.now() - this.paused < PATIENCE) return;
    this.state.paused = paused;
    this.show();
    this.changed();
  }

  step() {
    if (!this.state.paused) this.pause(true);
    this.say({ do: "step" });
  }

  reset(how) {
    this.say({ do: "reset", how });
    this.restart();
  }

  speed(factor) {
    this.state.speed = Math.min(4, Math.max(0.1, Math.round(10 * factor) / 10));
    this.say({ do: "speed", factor: this.state.speed });
    this.show();
  }

  act(how) {
    Object.assign(this.state, how);
    this.say({ do: "act", es: this.state.es, noise: this.state.noise });
    this.show();
    this.changed();
  }

  seed(number) {
    this.state.seed = Math.min(999999999, Math.max(0, Math.round(number)));
    this.open();
  }

  slots(count) {
    if (count === this.state.slots) return;
    this.state.slots = count;
    this.state.chosen = Math.min(this.state.chosen, count - 1);
    this.open();
  }
}
