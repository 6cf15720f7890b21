// One camera for all robots: it turns about a point that goes with the robot. A robot beside the
// chosen one is seen by a copy of the camera, moved by the difference of their places.

import { OrbitControls, THREE } from "./three.js";

const UP = new THREE.Vector3(0, 0, 1);
const LOW = 0.16, HIGH = 0.32;  // of a camera that follows, above the horizon, in radians
const ROOM = 1.2;               // a model's camera is made for pictures that are less wide
const LIFT = 0.45, REST = 0.27;  // of a robot's height and of its first height, where the camera looks

export class Eye {
  // changed: called when the user moved the camera
  constructor(canvas, changed) {
    this.camera = new THREE.PerspectiveCamera(45, 1, 0.01, 100);
    this.camera.up.copy(UP);
    this.copy = this.camera.clone();
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.enableDamping = false;
    this.controls.maxPolarAngle = 0.53 * Math.PI;
    this.controls.zoomSpeed = 0.8;
    this.controls.addEventListener("change", () => changed());
    this.pan = new THREE.Vector3();
    this.places = [];  // of the robots, smoothed
  }

  // still: where the robot is, or the middle of a scene without a robot to follow; floor: its height
  open({ camera, slots }, reach, still, floor) {
    this.home = homeOf(camera, still);
    this.track = camera.track;
    this.floor = floor;
    this.height = still.z;
    this.camera.fov = this.copy.fov = camera.fovy || 45;
    this.camera.near = this.copy.near = 0.02 * reach;
    this.camera.far = this.copy.far = 120 * reach;
    this.controls.minDistance = 0.5 * reach;
    this.controls.maxDistance = 24 * reach;
    this.reach = reach;
    this.places = Array.from({ length: slots }, () => ({ at: new THREE.Vector3().copy(still),
      velocity: new THREE.Vector3(), last: null }));
    this.reset();
  }

  reset() {
    if (!this.home) return;
    this.pan.set(0, 0, 0);
    this.offset = this.home.offset.clone();
    this.fitted = false;
    this.apply(0);
  }

  // numbers for a link: from the target to the camera, and from the robot to the target
  get state() {
    if (!this.home) return null;
    this.read();
    return [...this.offset.toArray(), ...this.pan.toArray()];
  }

  set state(numbers) {
    this.offset = new THREE.Vector3(...numbers.slice(0, 3));
    this.pan.set(...numbers.slice(3, 6));
    this.fitted = true;
    this.apply(0);
  }

  // A narrow picture needs more distance
  fit(aspect) {
    if (this.fitted || !this.home) return;
    this.fitted = true;
    this.offset.copy(this.home.offset).multiplyScalar(Math.min(2, Math.max(1, 1.25 / aspect)));
    this.apply(0);
  }

  // The camera looks at a point below a robot's torso, so that the feet are in the picture, and rises and
  // falls less than the torso does.
  lower(z) {
    const { floor, height } = this;
    return floor === null ? z : floor + LIFT * (z - floor) + REST * (height - floor);
  }

  // Follow a robot: with its mean velocity, so that a fast robot does not run ahead of the camera
  follow(slot, x, y, z, dt) {
    const place = this.places[slot];
    if (this.track < 0 || !place) return false;
    const now = new THREE.Vector3(x, y, this.lower(z));
    const jumped = !place.last || now.distanceTo(place.last) > 1.5 * this.reach;
    if (jumped) {
      place.at.copy(now);
      place.velocity.set(0, 0, 0);
    } else if (dt > 0) {
      const speed = now.clone().sub(place.last).divideScalar(dt);
      place.velocity.lerp(speed, 1 - Math.exp(-3 * dt));
      place.at.addScaledVector(place.velocity, dt);
      place.at.lerp(now, 1 - Math.exp(-4 * dt));
    }
    place.last = now;
    return place.velocity.lengthSq() > 1e-6 || place.at.distanceToSquared(now) > 1e-6;
  }

  // The user's camera is the truth; where the robot went since, it goes too
  read() {
    this.offset.subVectors(this.camera.position, this.controls.target);
    this.pan.subVectors(this.controls.target, this.center ?? this.controls.target);
  }

  apply(slot) {
    this.center = this.places[slot]?.at.clone() ?? new THREE.Vector3();
    this.aim();
  }

  aim() {
    this.controls.target.addVectors(this.center, this.pan);
    this.camera.position.addVectors(this.controls.target, this.offset);
    this.camera.lookAt(this.controls.target);
    this.camera.updateMatrixWorld();
  }

  // the camera of a slot while another is chosen
  of(slot, chosen, aspect) {
    const { copy, camera } = this;
    copy.position.copy(camera.position).sub(this.places[chosen].at).add(this.places[slot].at);
    copy.quaternion.copy(camera.quaternion);
    copy.aspect = aspect;
    copy.updateProjectionMatrix();
    copy.updateMatrixWorld();
    return copy;
  }

  turn(across, up) {
    if (!this.home) return;
    this.read();
    const sphere = new THREE.Spherical().setFromVector3(
      new THREE.Vector3(this.offset.x, this.offset.z, -this.offset.y));
    sphere.theta += across;
    sphere.phi = Math.min(Math.max(sphere.phi + up, 0.05), this.controls.maxPolarAngle);
    const { x, y, z } = new THREE.Vector3().setFromSpherical(sphere);
    this.offset.set(x, -z, y);
    this.aim();
  }

  zoom(factor) {
    if (!this.home) return;
    this.read();
    const { minDistance, maxDistance } = this.controls;
    this.offset.setLength(Math.min(Math.max(this.offset.length() * factor, minDistance), maxDistance));
    this.aim();
  }
}

// The model's camera, as an offset from what it looks at. If it follows a body, it is put a little above
// the horizon. Otherwise it looks at the point of its ray that is nearest to the middle of the scene.
function homeOf({ pos, forward, track }, still) {
  const from = new THREE.Vector3(...pos), along = new THREE.Vector3(...forward).normalize();
  if (track >= 0) {
    const offset = from.sub(still), distance = offset.length();
    const height = Math.min(Math.max(Math.asin(offset.z / distance), LOW), HIGH);
    offset.z = 0;
    return { offset: offset.setLength(ROOM * distance * Math.cos(height))
      .setZ(ROOM * distance * Math.sin(height)) };
  }
  const distance = Math.max(along.dot(still.clone().sub(from)), 0.2);
  still.copy(from).addScaledVector(along, distance);
  return { offset: from.sub(still).multiplyScalar(ROOM) };
}
