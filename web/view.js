// The 3D view: one canvas, one renderer, a rectangle of it for each robot. It draws only when there is
// something new, and draws more simply on a machine that is too slow for shadows.

import { THREE } from "./three.js";
import { Eye } from "./camera.js";
import { Trail, World } from "./world.js";

// from the plainest: shadow map, most pixels a CSS pixel
const LEVELS = [{ shadow: 0, ratio: 0.6 }, { shadow: 0, ratio: 1 }, { shadow: 1024, ratio: 1 },
  { shadow: 2048, ratio: 2 }];
const SLOW = 40;    // milliseconds a picture
const SPARE = 30;   // milliseconds between pictures without a GPU: the simulation needs the CPU as well
const PATIENCE = 1000;  // milliseconds of slow pictures before the view gets simpler

// columns and rows of the robots' rectangles
export function grid(slots, width, height) {
  if (slots === 1) return [1, 1];
  if (slots === 2) return width > 0.9 * height ? [2, 1] : [1, 2];
  return [2, 2];
}

export class View {
  // Throws if the browser has no WebGL.
  constructor(canvas, { moved }) {
    const software = drawsOnCpu();
    const gl = canvas.getContext("webgl2", { antialias: !software, powerPreference: "high-performance" });
    if (!gl) throw new Error("no WebGL");
    this.renderer = new THREE.WebGLRenderer({ canvas, context: gl });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFSoftShadowMap;
    this.canvas = canvas;
    this.world = new World();
    this.world.ground.anisotropy(software ? 1 : this.renderer.capabilities.getMaxAnisotropy());
    this.eye = new Eye(canvas, () => this.request());
    this.gap = software ? SPARE : 0;
    this.level = this.best = software ? 1 : 3;
    this.slow = 0;
    this.chosen = 0;
    this.moved = moved;
    this.trails = [];
    this.eye.controls.addEventListener("end", () => moved());
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.request());
    this.resize();
  }

  // ---------------------------------- scenes and frames -------------------------------------------

  open(scene) {
    this.scene = scene;
    this.frame = this.shown = null;  // shown: the frame of the picture, which the camera follows
    this.haunting = null;
    this.world.open(scene);
    this.trails = Array.from({ length: scene.slots }, () => new Trail());
    this.opened = false;
    this.chosen = Math.min(this.chosen, scene.slots - 1);
    this.resize();
  }

  blob(blob) {
    this.world.add(blob);
    this.request();
  }

  show(frame) {
    this.frame = frame;
    if (!this.opened) this.start(frame);
    const { track } = this.scene.camera;
    if (track >= 0) frame.slots.forEach(({ poses }, i) => this.trails[i].add(frame.time,
      poses[7 * track], poses[7 * track + 1], poses[7 * track + 2], this.world.reach));
    this.request();
  }

  // the camera's home is known when the first poses are
  start({ slots: [{ poses }] }) {
    this.opened = true;
    const { track } = this.scene.camera, middle = new THREE.Vector3();
    if (track >= 0) {
      middle.fromArray(poses, 7 * track);
    } else {
      const count = poses.length / 7 - 1;
      for (let i = 1; i <= count; i++) {
        middle.add(new THREE.Vector3().fromArray(poses, 7 * i).divideScalar(count));
      }
    }
    this.eye.open(this.scene, this.world.reach, middle, this.world.ground.height);
    if (this.wanted) this.eye.state = this.wanted;
    this.wanted = null;
  }

  haunt(poses) {
    this.haunting = poses;
    this.request();
  }

  paint(dark, accent, slots) {
    this.world.paint(dark, accent, slots);
    this.request();
  }

  // numbers of Eye.state; before the first frame they are kept for it
  set camera(numbers) {
    if (this.opened) this.eye.state = numbers;
    else this.wanted = numbers;
    this.request();
  }

  get camera() {
    return this.eye.state ?? this.wanted ?? null;
  }

  // ---------------------------------- drawing -----------------------------------------------------

  request() {
    this.pending ??= requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.pending = null;
    if (!this.frame || !this.scene) return;
    if (this.running) this.judge(now - this.ticked);
    this.ticked = now;
    this.running = true;
    if (now - this.last < this.gap) return this.request();
    const dt = Math.min((now - (this.last ?? now)) / 1000, 0.5);
    this.last = now;
    this.shown = this.frame;
    const moving = this.step(dt);
    this.draw();
    if (moving) this.request();
    else this.running = Boolean(this.pending);
  }

  step(dt) {
    const { track } = this.scene.camera;
    if (track < 0) return false;
    const { eye } = this;
    eye.read();
    const moving = this.shown.slots.map(({ poses }, i) =>
      eye.follow(i, poses[7 * track], poses[7 * track + 1], poses[7 * track + 2], dt));
    eye.apply(this.chosen);
    return moving.some(Boolean);
  }

  draw() {
    const { renderer, eye, world, shown } = this, count = this.scene.slots;
    const [columns, rows] = grid(count, this.width, this.height);
    const aspect = this.width / columns / (this.height / rows);
    eye.fit(aspect);
    renderer.setScissorTest(count > 1);
    shown.slots.forEach((robot, i) => {
      const [left, right] = edges(i % columns, columns, this.width);
      const [top, bottom] = edges(Math.floor(i / columns), rows, this.height);
      renderer.setViewport(left, this.height - bottom, right - left, bottom - top);
      renderer.setScissor(left, this.height - bottom, right - left - (right < this.width ? 1 : 0),
        bottom - top);
      this.dress(robot, i);
      const camera = eye.of(i, this.chosen, aspect);
      world.ground.move(eye.places[i].last ?? eye.places[i].at, camera);
      renderer.render(world.space, camera);
    });
  }

  // what is drawn beside one robot and not beside the others
  dress(robot, i) {
    const { world, held, shoved } = this;
    world.pose(robot, i);
    world.haunt(i === this.chosen ? this.haunting : null, robot);
    world.trail(this.trails[i].points);
    if (held?.slot === i) world.pull(this.onBody(robot, held.body, held.at), held.to);
    else world.pull(null);
    if (shoved?.slot === i) world.shove(shoved.from, shoved.to);
    else world.shove(null);
  }

  onBody({ poses }, body, at) {
    const p = 7 * body, [w, x, y, z] = poses.subarray(p + 3, p + 7);
    return new THREE.Vector3(...at).applyQuaternion(new THREE.Quaternion(x, y, z, w))
      .add(new THREE.Vector3().fromArray(poses, p));
  }

  // ---------------------------------- speed -------------------------------------------------------

  // Pictures that take too long, one after another, make the drawing simpler
  judge(milliseconds) {
    if (this.fixed || document.hidden) return;
    this.slow = milliseconds > SLOW ? this.slow + Math.min(milliseconds, PATIENCE / 2)
      : Math.max(0, this.slow - 2 * SLOW);
    if (this.slow < PATIENCE || this.level === 0) return;
    this.slow = 0;
    this.level--;
    this.resize();
  }

  // "auto", "full" or "light"
  quality(name) {
    this.fixed = name !== "auto";
    this.level = name === "light" ? 1 : name === "full" ? 3 : this.best;
    this.slow = 0;
    this.resize();
  }

  resize() {
    const { width, height } = this.canvas.parentElement.getBoundingClientRect();
    if (!width || !height) return;
    this.width = width;
    this.height = height;
    const { shadow, ratio } = LEVELS[this.level];
    this.renderer.setPixelRatio(Math.min(devicePixelRatio * Math.min(ratio, 1), ratio));
    this.renderer.setSize(width, height, false);
    this.world.ground.shadows(shadow);
    if (this.shown) this.draw();  // at once: a resized canvas is empty
    this.request();
  }

  // ---------------------------------- what the pointer meets --------------------------------------

  choose(slot) {
    if (this.opened) {
      this.eye.read();
      this.eye.apply(slot);
    }
    this.chosen = slot;
    this.request();
  }

  // slot and ray of a point of the page; `among`: the slot is known, the point may lie outside of it
  ray(x, y, among) {
    const box = this.canvas.getBoundingClientRect(), count = this.scene.slots;
    const [columns, rows] = grid(count, this.width, this.height);
    const across = (x - box.left) / box.width * columns, down = (y - box.top) / box.height * rows;
    const inside = (at, size) => Math.min(Math.max(Math.floor(at), 0), size - 1);
    const slot = among ?? Math.min(inside(down, rows) * columns + inside(across, columns), count - 1);
    const column = slot % columns, row = Math.floor(slot / columns);
    const aspect = this.width / columns / (this.height / rows);
    const caster = new THREE.Raycaster();
    caster.setFromCamera(new THREE.Vector2(2 * (across - column) - 1, 1 - 2 * (down - row)),
      this.eye.of(slot, this.chosen, aspect));
    return { slot, caster };
  }

  // The body at a point of the page: {slot, body, at (in the body's frame), point, ray}, or null
  pick(x, y) {
    if (!this.shown) return null;
    const { slot, caster } = this.ray(x, y);
    this.world.pose(this.shown.slots[slot], slot);
    this.world.robot.updateMatrixWorld(true);
    const [hit] = caster.intersectObject(this.world.robot, true);
    if (!hit) return null;
    const { body } = hit.object.userData;
    const at = this.world.bodies[body].worldToLocal(hit.point.clone());
    return { slot, body, at: at.toArray(), point: hit.point, ray: caster.ray };
  }

  // Where the ray of a point of the page meets the plane through `point` that faces the camera
  onPlane(x, y, point, slot) {
    const { caster } = this.ray(x, y, slot), facing = new THREE.Vector3();
    this.eye.camera.getWorldDirection(facing);
    const plane = new THREE.Plane().setFromNormalAndCoplanarPoint(facing, point);
    return caster.ray.intersectPlane(plane, new THREE.Vector3());
  }
}

// where part i of `count` begins and ends, in whole pixels
function edges(i, count, size) {
  return [Math.round(i * size / count), Math.round((i + 1) * size / count)];
}

// Whether WebGL has no GPU here
function drawsOnCpu() {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) throw new Error("no WebGL");
  const named = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}
