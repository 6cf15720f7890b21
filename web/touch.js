// Touching the robot: a body that the pointer takes hold of is pulled by a spring until it is let go;
// a click in push mode, or with Alt, gives it a kick. Beside the robot, the pointer turns the camera.

const RENEW = 33;      // milliseconds between messages of a drag
const ARROW = 260;     // milliseconds that the arrow of a push is seen
const PUSH = 1.4;      // newton seconds per metre of reach: enough to make any of the robots stumble

export class Touch {
  // held: told the name of a body, and null when it is let go
  constructor(view, stage, say, held) {
    Object.assign(this, { view, stage, say, held });
    this.mode = "drag";
    this.drag = null;
    // before OrbitControls, whose listeners are on the canvas inside the stage
    stage.addEventListener("pointerdown", (event) => this.down(event), { capture: true });
    addEventListener("pointermove", (event) => this.move(event));
    addEventListener("pointerup", (event) => this.up(event));
    addEventListener("pointercancel", (event) => this.up(event));
    addEventListener("blur", () => this.end());
    view.canvas.addEventListener("pointermove", (event) => this.hover(event));
  }

  down(event) {
    if (event.target !== this.view.canvas || event.button !== 0 || this.drag) return;
    const hit = this.view.pick(event.clientX, event.clientY);
    if (!hit || hit.body === 0) return;
    event.stopPropagation();
    this.view.canvas.focus({ preventScroll: true });
    if (this.mode === "push" || event.altKey) return this.push(hit, hit.ray.direction);
    event.preventDefault();
    this.drag = { ...hit, pointer: event.pointerId, x: event.clientX, y: event.clientY };
    this.view.canvas.setPointerCapture?.(event.pointerId);
    this.view.canvas.classList.add("grabbing");
    this.held(this.view.scene.bodies[hit.body].name);
    this.pull();
    this.timer = setInterval(() => this.pull(), RENEW);
  }

  move(event) {
    if (event.pointerId !== this.drag?.pointer) return;
    this.drag.x = event.clientX;
    this.drag.y = event.clientY;
  }

  up(event) {
    if (event.pointerId === this.drag?.pointer) this.end();
  }

  end() {
    if (!this.drag) return;
    clearInterval(this.timer);
    this.drag = null;
    this.view.held = null;
    this.view.canvas.classList.remove("grabbing");
    this.view.request();
    this.held(null);
    this.say({ do: "release" });
  }

  // the camera may move while the pointer rests, so where it points to is computed anew
  pull() {
    const { x, y, point, slot, body, at } = this.drag;
    const to = this.view.onPlane(x, y, point, slot);
    if (!to) return;
    this.view.held = { slot, body, at, to };
    this.view.request();
    this.say({ do: "drag", slot, body, at, to: to.toArray() });
  }

  push({ slot, body, at, point }, direction) {
    const { reach } = this.view.world, { mass = 20 } = this.view.scene;
    const strength = PUSH * mass * Math.sqrt(reach);
    const impulse = direction.clone().setLength(strength);
    this.say({ do: "push", slot, body, at, impulse: impulse.toArray() });
    const from = point.clone().addScaledVector(direction.clone().normalize(), -0.55 * reach);
    this.view.shoved = { slot, from, to: point.clone() };
    this.view.request();
    clearTimeout(this.arrow);
    this.arrow = setTimeout(() => {
      this.view.shoved = null;
      this.view.request();
    }, ARROW);
  }

  // Push the middle of the chosen robot along the picture: right and up are -1, 0 or 1
  nudge(right, up) {
    const { view } = this, { camera } = view.eye, { track } = view.scene.camera;
    if (!view.frame) return;
    const body = Math.max(track, 1), slot = view.chosen;
    const point = view.onBody(view.frame.slots[slot], body, [0, 0, 0]);
    const direction = point.clone().set(right, up, 0).applyQuaternion(camera.quaternion);
    this.push({ slot, body, at: [0, 0, 0], point }, direction);
  }

  // the pointer's shape says what a click would do
  hover(event) {
    if (this.drag || event.buttons || event.pointerType === "touch") return;
    if (event.timeStamp - (this.hovered ?? 0) < 60) return;
    this.hovered = event.timeStamp;
    const hit = this.view.pick(event.clientX, event.clientY);
    const shape = hit && hit.body > 0 ? (this.mode === "push" || event.altKey ? "push" : "grab") : "";
    this.view.canvas.dataset.over = shape;
  }
}
