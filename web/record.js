// What one robot did in the last seconds, step by step: rewards, predicted values, spread of F's
// members; speed and height ten times a second. And what was earned: the discounted sum of rewards,
// which is known of a step only when enough time has passed since.

export const WINDOW = 20;   // simulated seconds
const SMOOTH = 0.25;        // seconds
const KNOWN = 0.03;         // earned is shown where what is still to come weighs less than this

export class Record {
  // dt: seconds of a control step
  constructor(dt, gamma) {
    this.dt = dt;
    this.gamma = gamma;
    this.clear();
  }

  clear() {
    this.steps = [];  // {t, reward, value, spread, first: whether a new episode or prompt begins}
    this.slow = [];   // {t, speed, height}
    this.resets = null;
    this.fresh = true;
  }

  // A new prompt: what was earned before has nothing to do with what is predicted now.
  cut() {
    this.fresh = true;
  }

  // time: of the newest step; slot: an element of the message's slots
  add(time, slot) {
    const count = slot.rewards.length;
    if (this.resets !== null && slot.reset !== this.resets) this.fresh = true;
    this.resets = slot.reset;
    if (this.steps.length && time < this.steps.at(-1).t - this.dt) this.clear();
    for (let i = 0; i < count; i++) {
      this.steps.push({ t: time - (count - 1 - i) * this.dt, reward: slot.rewards[i],
        value: slot.values?.[i] ?? null, spread: slot.spread?.[i] ?? null, first: this.fresh });
      this.fresh = false;
    }
    if (count) this.slow.push({ t: time, speed: slot.speed, height: slot.height });
    for (const list of [this.steps, this.slow]) {
      const begin = list.findIndex(({ t }) => t > time - WINDOW - 1);
      if (begin > 0) list.splice(0, begin);
    }
  }

  // [[t, x]…]; null begins a new line
  line(list, name) {
    return list.map((row) => (row[name] === null || row[name] === undefined ? null : [row.t, row[name]]));
  }

  // rewards as means of the last quarter of a second: a reward that is 0 or 1 is then a line, not an area
  smooth() {
    const line = [], most = Math.max(1, Math.round(SMOOTH / this.dt));
    let sum = 0, count = 0;
    this.steps.forEach(({ t, reward, first }, i) => {
      if (first) {
        sum = count = 0;
        line.push(null);
      }
      sum += reward;
      if (++count > most) sum -= this.steps[i - most].reward;
      line.push([t, sum / Math.min(count, most)]);
    });
    return line;
  }

  // Discounted sums of rewards from each step on, as far as they are known
  earned() {
    const line = [];
    let sum = 0, ahead = 0;  // steps of the same episode and prompt that follow
    for (let i = this.steps.length - 1; i >= 0; i--) {
      const step = this.steps[i];
      sum = step.reward + this.gamma * sum;
      ahead++;
      line.push(this.gamma ** ahead < KNOWN ? [step.t, sum] : null);
      if (step.first) {
        sum = ahead = 0;
        line.push(null);
      }
    }
    return line.reverse();
  }

  get last() {
    return this.slow.at(-1)?.t ?? 0;
  }
}
