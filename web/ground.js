// What surrounds the robot: a sky that fades towards the horizon, a checkered floor that goes with the
// robot and dissolves into the same colour, a sun with a soft shadow.

import { THREE } from "./three.js";

// colours of day (light) and night (dark)
const DAY = { zenith: "#a5c8da", horizon: "#eff2f0", even: "#e6e9e6", odd: "#d3d9d8", line: "#c3cbca",
  sun: "#fff8ee", sunlight: 3.0, above: "#ffffff", below: "#d4d0c8", ambient: 1.5, patch: 0.3 };
const NIGHT = { zenith: "#0c1317", horizon: "#2b383d", even: "#39464b", odd: "#445358", line: "#55666c",
  sun: "#f4f8ff", sunlight: 2.7, above: "#c9d8de", below: "#3a4448", ambient: 1.0, patch: 0.6 };

const SKY = {
  vertexShader: `
    varying vec3 toward;
    void main() {
      toward = position;
      gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
    }`,
  fragmentShader: `
    uniform vec3 zenith, horizon;
    varying vec3 toward;
    void main() {
      float up = clamp(normalize(toward).z, 0.0, 1.0);
      gl_FragColor = vec4(mix(horizon, zenith, pow(up, 0.55)), 1.0);
      #include <colorspace_fragment>
    }`,
};

export class Ground {
  // reach: how far from the robot things matter, in metres
  constructor(space) {
    this.space = space;
    this.sky = new THREE.Mesh(new THREE.SphereGeometry(1, 24, 16), new THREE.ShaderMaterial({
      ...SKY, side: THREE.BackSide, depthWrite: false, fog: false,
      uniforms: { zenith: { value: new THREE.Color() }, horizon: { value: new THREE.Color() } } }));
    this.sky.renderOrder = 1;  // after all that hides parts of it
    this.floor = new THREE.Mesh(new THREE.PlaneGeometry(1, 1),
      new THREE.MeshLambertMaterial({ map: new THREE.CanvasTexture(document.createElement("canvas")) }));
    this.floor.receiveShadow = true;
    this.sun = new THREE.DirectionalLight();
    this.sun.castShadow = true;
    this.light = new THREE.HemisphereLight();
    this.blob = softShadow();
    space.fog = new THREE.Fog(0, 1, 2);
    space.add(this.sky, this.floor, this.sun, this.sun.target, this.light, this.blob);
  }

  // height: of the floor, null where the scene has none that is endless
  fit(reach, height) {
    this.reach = reach;
    this.tile = reach > 1.5 ? 1 : reach > 0.6 ? 0.5 : 0.1;
    this.height = height;
    const far = 30 * reach;
    this.floor.visible = height !== null;
    this.floor.scale.set(2.4 * far, 2.4 * far, 1);
    const { map } = this.floor.material;
    map.wrapS = map.wrapT = THREE.RepeatWrapping;
    map.repeat.setScalar(2.4 * far / (2 * this.tile));
    this.space.fog.near = 0.25 * far;
    this.space.fog.far = far;
    this.sky.scale.setScalar(3 * far);
    this.far = far;
    const { camera } = this.sun.shadow;
    camera.left = camera.bottom = -1.6 * reach;
    camera.right = camera.top = 1.6 * reach;
    camera.near = 0.1 * reach;
    camera.far = 12 * reach;
    camera.updateProjectionMatrix();
    this.sun.shadow.normalBias = 0.012 * reach;
    this.sun.shadow.bias = -0.0006;
    this.sun.shadow.radius = 4;
    this.blob.scale.setScalar(0.9 * reach);
  }

  paint(dark) {
    const tone = dark ? NIGHT : DAY;
    const { uniforms } = this.sky.material;
    uniforms.zenith.value.set(tone.zenith);
    uniforms.horizon.value.set(tone.horizon);
    this.space.fog.color.set(tone.horizon);
    this.sun.color.set(tone.sun);
    this.sun.intensity = tone.sunlight;
    this.light.color.set(tone.above);
    this.light.groundColor.set(tone.below);
    this.light.intensity = tone.ambient;
    this.blob.material.opacity = tone.patch;
    checker(this.floor.material.map, tone);
  }

  // size 0: no shadows, only a dark patch below the robot
  shadows(size) {
    this.sun.castShadow = size > 0;
    this.blob.visible = size === 0 && this.height !== null;
    if (size > 0 && this.sun.shadow.mapSize.width !== size) {
      this.sun.shadow.mapSize.set(size, size);
      this.sun.shadow.map?.dispose();
      this.sun.shadow.map = null;
    }
  }

  // Bring everything to a place: the floor by whole tiles, so that it seems to stand still
  move({ x, y, z }, camera) {
    const step = 2 * this.tile, { reach } = this;
    this.floor.position.set(step * Math.round(x / step), step * Math.round(y / step),
      this.height ?? 0);
    this.sun.position.set(x - 1.8 * reach, y - 3 * reach, z + 3.8 * reach);
    this.sun.target.position.set(x, y, z);
    this.blob.position.set(x, y, (this.height ?? 0) + 0.002 * reach);
    this.sky.position.copy(camera.position);
  }

  anisotropy(samples) {
    this.floor.material.map.anisotropy = samples;
  }
}

// four tiles with a thin joint
function checker(texture, tone) {
  const canvas = texture.image, size = 512, half = size / 2;
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d");
  for (const [i, j] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
    pen.fillStyle = i === j ? tone.even : tone.odd;
    pen.fillRect(half * i, half * j, half, half);
  }
  pen.strokeStyle = tone.line;
  pen.lineWidth = 2;
  for (const at of [1, half]) {
    pen.beginPath();
    pen.moveTo(at, 0);
    pen.lineTo(at, size);
    pen.moveTo(0, at);
    pen.lineTo(size, at);
    pen.stroke();
  }
  texture.colorSpace = THREE.SRGBColorSpace;
  texture.needsUpdate = true;
}

function softShadow() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 64;
  const pen = canvas.getContext("2d"), fade = pen.createRadialGradient(32, 32, 2, 32, 32, 32);
  fade.addColorStop(0, "#000f");
  fade.addColorStop(1, "#0000");
  pen.fillStyle = fade;
  pen.fillRect(0, 0, 64, 64);
  return new THREE.Mesh(new THREE.PlaneGeometry(1, 1), new THREE.MeshBasicMaterial({
    map: new THREE.CanvasTexture(canvas), transparent: true, depthWrite: false, fog: false }));
}
