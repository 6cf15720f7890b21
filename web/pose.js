// A goal by posing: a slider a joint, and the ghost of that pose beside the robot. The server computes
// where the ghost's bodies are; of fast changes only the last is asked for.

// how far a robot has come along its way is no part of a goal
const isPlace = ({ type, range, name }) => type === "slide" && !range && /x$/.test(name);

const HEIGHT = { type: "slide", range: [0, 2] };  // of a free joint, in metres

const narrow = matchMedia("(max-width: 820px)");

export class Pose {
  // ask(qpos or null): for a ghost; here(): the robot's qpos; beside, below: where the sliders are on
  // a wide and on a narrow screen
  constructor(form, { ask, here, beside, below }) {
    Object.assign(this, { form, ask, here });
    this.waiting = false;
    const place = () => (narrow.matches ? below : beside).append(form);
    narrow.addEventListener("change", place);
    place();
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  // joints: of the scene. Places on the floor (x, y of a free joint) are no part of a goal.
  open({ joints, nq }) {
    this.waiting = false;
    this.rows = [];
    this.qpos = new Array(nq).fill(0);
    this.form.replaceChildren();
    for (const joint of joints) {
      if (isPlace(joint)) continue;
      if (joint.type === "hinge" || joint.type === "slide") this.row(joint, joint.qpos, joint.name);
      else if (joint.type === "free") this.row(HEIGHT, joint.qpos + 2, `${joint.name} height`);
    }
  }

  row(joint, at, name) {
    const [low, high] = joint.range ?? (joint.type === "slide" ? [-2, 2] : [-Math.PI, Math.PI]);
    const label = document.createElement("label"), input = document.createElement("input");
    const title = document.createElement("span"), output = document.createElement("output");
    label.className = "slider";
    title.textContent = title.title = name;
    Object.assign(input, { type: "range", min: low, max: high, step: (high - low) / 200 });
    input.addEventListener("input", () => {
      this.qpos[at] = Number(input.value);
      this.label(row);
      this.send();
    });
    label.append(title, input, output);
    this.form.append(label);
    const row = { at, input, output, unit: joint.type === "hinge" ? "°" : " m",
      turns: joint.type === "hinge" && !joint.range };
    this.rows.push(row);
  }

  label({ at, output, unit }) {
    const value = this.qpos[at];
    output.textContent = unit === "°" ? `${Math.round(value * 180 / Math.PI)}°` : `${value.toFixed(2)}${unit}`;
  }

  set(qpos) {
    if (!qpos) return;
    this.qpos = [...qpos];
    for (const row of this.rows) {
      if (row.turns) this.qpos[row.at] = Math.atan2(Math.sin(qpos[row.at]), Math.cos(qpos[row.at]));
      row.input.value = this.qpos[row.at];
      this.label(row);
    }
    this.send();
  }

  show() {
    this.form.hidden = false;
    if (this.qpos.every((x) => x === 0) && this.here()) this.set(this.here());
    else this.send();
  }

  hide() {
    if (this.form.hidden) return;
    this.form.hidden = true;
    this.waiting = this.again = false;
    this.ask(null);
  }

  send() {
    if (this.form.hidden) return;
    this.again = this.waiting;
    if (this.waiting) return;
    this.waiting = true;
    this.ask(this.qpos);
  }

  // the server answered; whether its ghost is still wanted
  answered() {
    this.waiting = false;
    if (this.again) this.send();
    return !this.form.hidden;
  }
}

