// The things that three.js draws: one group a body, made from the scene's geoms, a translucent copy of
// them for the ghost of a goal, tendons, the spring of a drag, and the trail of the torso. All robots
// are drawn with the same things, one after another.

import { THREE } from "./three.js";
import { Ground } from "./ground.js";
import { join, shapeOf } from "./shapes.js";

const TRAIL = 140;        // dots
const TRAIL_EVERY = 0.05;  // simulated seconds between dots

// A floor: a level plane without end, or so large that its end is not worth drawing
function isFloor(geom, reach) {
  const [, x, y] = geom.quat, [across, along] = geom.size;
  const level = 1 - 2 * (x * x + y * y) > 0.999;
  return geom.type === "plane" && level && geom.body === 0
    && (across === 0 || along === 0 || Math.max(across, along) > 3 * reach);
}

export class World {
  constructor() {
    this.space = new THREE.Scene();
    this.ground = new Ground(this.space);
    this.robot = new THREE.Group();
    this.ghost = new THREE.Group();
    this.space.add(this.robot, this.ghost);
    this.ghostSkin = new THREE.MeshLambertMaterial({ transparent: true, opacity: 0.38,
      depthWrite: false });
    this.meshes = new Map();
    this.textures = new Map();
    this.spring = makeSpring();
    this.arrow = makeArrow();
    this.space.add(this.spring, this.arrow);
    this.dots = makeDots();
    this.space.add(this.dots);
    this.strings = [];
    this.accent = new THREE.Color();
  }

  // ---------------------------------- what a scene contains ---------------------------------------

  open(scene) {
    this.scene = scene;
    this.meshes.clear();
    for (const texture of this.textures.values()) texture.dispose();
    this.textures.clear();
    this.reach = reachOf(scene);
    const floors = scene.geoms.filter((geom) => isFloor(geom, this.reach));
    this.ground.fit(this.reach, floors.length ? floors[0].pos[2] : null);
    this.build();
  }

  add(blob) {
    if (blob.what === "mesh") {
      this.meshes.set(blob.id, blob);
    } else {
      const texture = new THREE.DataTexture(blob.pixels, blob.width, blob.height);
      texture.colorSpace = THREE.SRGBColorSpace;
      texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
      texture.magFilter = THREE.LinearFilter;
      texture.minFilter = THREE.LinearMipmapLinearFilter;
      texture.generateMipmaps = true;
      texture.flipY = true;
      texture.needsUpdate = true;
      this.textures.set(blob.id, texture);
    }
    this.stale = true;  // built before the next picture, once for many blobs
  }

  build() {
    this.stale = false;
    for (const group of [this.robot, this.ghost]) {
      group.traverse((part) => part.geometry?.dispose());
      group.clear();
    }
    this.bodies = this.scene.bodies.map(() => new THREE.Group());
    this.shades = this.scene.bodies.map(() => new THREE.Group());
    const geoms = this.scene.geoms.filter((geom) => !isFloor(geom, this.reach) && geom.rgba[3] > 0);
    for (const group of grouped(geoms)) this.place(group);
    this.robot.add(...this.bodies);
    this.ghost.add(...this.shades);
    for (const line of this.strings) this.space.remove(line);
    this.strings = [];
  }

  // geoms of one body and one material
  place(geoms) {
    const shapes = geoms.map((geom) => shapeOf(geom, this.meshes)).filter(Boolean);
    if (!shapes.length) return;
    const shape = join(shapes), { body } = geoms[0];
    const mesh = new THREE.Mesh(shape, this.skin(geoms[0]));
    mesh.castShadow = geoms[0].rgba[3] > 0.5 && geoms[0].type !== "plane";
    mesh.receiveShadow = true;
    mesh.userData.body = body;
    this.bodies[body].add(mesh);
    if (movable(this.scene, body)) this.shades[body].add(new THREE.Mesh(shape, this.ghostSkin));
  }

  skin(geom) {
    const [r, g, b, a] = geom.rgba;
    const map = this.textures.get(geom.texture) ?? null;
    // neither black nor white, so that light and shadow are seen on every colour
    const color = new THREE.Color().setRGB(...[r, g, b].map((x) => (map ? x : 0.06 + 0.86 * x)),
      THREE.SRGBColorSpace);
    return new THREE.MeshStandardMaterial({ color, map, opacity: a, transparent: a < 1,
      roughness: 0.82 - 0.35 * (geom.specular ?? 0.5), metalness: 0,
      emissive: color, emissiveIntensity: 0.6 * (geom.emission ?? 0),
      side: geom.type === "plane" ? THREE.DoubleSide : THREE.FrontSide });
  }

  paint(dark, accent, slot) {
    this.ground.paint(dark);
    this.accent.set(accent);
    this.ghostSkin.color.set(accent);
    this.ghostSkin.emissive.set(accent).multiplyScalar(0.25);
    for (const part of [...this.spring.children, ...this.arrow.children]) {
      part.material.color.set(accent);
    }
    this.slotColors = slot;
  }

  // ---------------------------------- what moves --------------------------------------------------

  pose(robot, slot) {
    if (this.stale) this.build();
    place(this.bodies, robot.poses);
    this.strum(robot.tendons);
    this.dots.material.color.set(this.slotColors?.[slot] ?? this.accent);
  }

  // poses of the ghost, beside its own root's place that of the robot: a goal has no place on the floor
  haunt(poses, robot) {
    this.ghost.visible = Boolean(poses);
    if (!poses) return;
    place(this.shades, poses);
    const { track } = this.scene.camera, at = 7 * track;
    this.ghost.position.set(0, 0, 0);
    if (track > 0) this.ghost.position.set(robot.poses[at] - poses[at],
      robot.poses[at + 1] - poses[at + 1], 0);
  }

  strum(tendons) {
    tendons.forEach((points, i) => {
      const line = this.strings[i] ??= this.string();
      line.visible = points.length >= 6;
      line.geometry.setAttribute("position", new THREE.BufferAttribute(points, 3));
    });
  }

  string() {
    const line = new THREE.Line(new THREE.BufferGeometry(),
      new THREE.LineBasicMaterial({ color: "#b4552f" }));
    line.frustumCulled = false;
    this.space.add(line);
    return line;
  }

  pull(from, to) {
    this.spring.visible = Boolean(from);
    if (from) stretch(this.spring.children, from, to, 0.011 * this.reach);
  }

  shove(from, to) {
    this.arrow.visible = Boolean(from);
    if (from) stretch(this.arrow.children, from, to, 0.02 * this.reach);
  }

  trail(points) {
    const { position, fade } = this.dots.geometry.attributes;
    points.forEach((point, i) => {
      position.setXYZ(i, ...point);
      fade.setX(i, (i + 1) / points.length);
    });
    position.needsUpdate = fade.needsUpdate = true;
    this.dots.geometry.setDrawRange(0, points.length);
    this.dots.material.size = 0.045 * this.reach;
    this.dots.visible = points.length > 1;
  }
}

// ---------------------------------- trails ----------------------------------------------------------

// Where a robot's torso was, a dot every so many simulated seconds: the distance of dots shows speed
export class Trail {
  constructor() {
    this.points = [];
    this.time = -1;
  }

  add(time, x, y, z, reach) {
    const last = this.points.at(-1);
    if (last && Math.hypot(x - last[0], y - last[1], z - last[2]) > 1.5 * reach) this.points = [];
    if (time < this.time) this.points = [];
    if (time - this.time < TRAIL_EVERY && this.points.length) return;
    this.time = time;
    this.points.push([x, y, z]);
    if (this.points.length > TRAIL) this.points.shift();
  }
}

// ---------------------------------- parts -----------------------------------------------------------

function place(groups, poses) {
  for (let i = 0; i < groups.length; i++) {
    const at = 7 * i;
    groups[i].position.set(poses[at], poses[at + 1], poses[at + 2]);
    groups[i].quaternion.set(poses[at + 4], poses[at + 5], poses[at + 6], poses[at + 3]);
  }
}

// How far the robot reaches from its middle, from the sizes of its geoms and the camera's distance
function reachOf({ geoms, camera }) {
  const moving = geoms.filter((geom) => geom.body > 0 && geom.type !== "plane");
  const sizes = moving.map((geom) => geom.size[0] + (geom.type === "capsule" ? geom.size[1] : 0));
  const largest = Math.max(0.02, ...sizes);
  const distance = Math.hypot(...camera.pos);
  return Math.min(Math.max(4.5 * largest, 0.25), Math.max(0.4 * distance, 0.3), 4);
}

// whether a body moves at all: the world and what is fixed to it need no ghost
function movable(scene, body) {
  for (let i = body; i > 0; i = scene.bodies[i].parent) if (scene.bodies[i].moves !== false) return true;
  return false;
}

function grouped(geoms) {
  const groups = new Map();
  for (const geom of geoms) {
    const key = [geom.body, geom.rgba, geom.texture, geom.specular, geom.emission,
      geom.type === "plane"].join();
    groups.set(key, [...(groups.get(key) ?? []), geom]);
  }
  return groups.values();
}

function makeSpring() {
  return rod(new THREE.CylinderGeometry(0.6, 0.6, 1, 10), new THREE.SphereGeometry(2.6, 20, 14));
}

function makeArrow() {
  return rod(new THREE.CylinderGeometry(0.7, 0.7, 1, 10), new THREE.ConeGeometry(2, 5, 20));
}

// a thin body along y and a head at its end
function rod(body, head) {
  const group = new THREE.Group();
  for (const shape of [body, head]) group.add(new THREE.Mesh(shape, new THREE.MeshBasicMaterial()));
  group.visible = false;
  return group;
}

function stretch([body, head], from, to, width) {
  const along = new THREE.Vector3().subVectors(to, from), length = along.length() || 1e-6;
  const turn = new THREE.Quaternion().setFromUnitVectors(new THREE.Vector3(0, 1, 0),
    along.divideScalar(length));
  body.position.addVectors(from, to).multiplyScalar(0.5);
  body.scale.set(width, length, width);
  head.position.copy(to);
  head.scale.setScalar(width);
  for (const part of [body, head]) part.quaternion.copy(turn);
}

// round dots whose alpha fades with age
function makeDots() {
  const shape = new THREE.BufferGeometry();
  shape.setAttribute("position", new THREE.BufferAttribute(new Float32Array(3 * TRAIL), 3));
  shape.setAttribute("fade", new THREE.BufferAttribute(new Float32Array(TRAIL), 1));
  const skin = new THREE.PointsMaterial({ transparent: true, depthWrite: false, sizeAttenuation: true });
  skin.onBeforeCompile = (shader) => {
    shader.vertexShader = `attribute float fade; varying float age;\n${shader.vertexShader}`
      .replace("#include <fog_vertex>", "#include <fog_vertex>\nage = fade;");
    shader.fragmentShader = `varying float age;\n${shader.fragmentShader}`.replace(
      "#include <opaque_fragment>", `#include <opaque_fragment>
      float edge = length(gl_PointCoord - 0.5);
      gl_FragColor.a *= 0.85 * age * age * (1.0 - smoothstep(0.34, 0.5, edge));`);
  };
  const dots = new THREE.Points(shape, skin);
  dots.frustumCulled = false;
  dots.visible = false;
  return dots;
}
