// Geometries of MuJoCo's geoms. The geoms of a body that share a material become one geometry, placed
// in the body's frame: a kitchen of hundreds of geoms is then drawn with few calls.

import { THREE } from "./three.js";

const turned = (geometry) => geometry.rotateX(Math.PI / 2);  // three's axis is y, MuJoCo's is z

const SHAPES = {
  sphere: ([r]) => new THREE.SphereGeometry(r, 32, 20),
  ellipsoid: ([x, y, z]) => new THREE.SphereGeometry(1, 32, 20).scale(x, y, z),
  capsule: ([r, half]) => turned(new THREE.CapsuleGeometry(r, 2 * half, 10, 28)),
  cylinder: ([r, half]) => turned(new THREE.CylinderGeometry(r, r, 2 * half, 36)),
  box: ([x, y, z]) => new THREE.BoxGeometry(2 * x, 2 * y, 2 * z),
  plane: ([x, y]) => new THREE.PlaneGeometry(2 * (x || 10), 2 * (y || 10)),
};

// A geometry in the frame of the geom's body, or null as long as its mesh has not arrived
export function shapeOf(geom, meshes) {
  let shape;
  if (SHAPES[geom.type]) {
    shape = SHAPES[geom.type](geom.size);
    repeat(shape, geom);
  } else {
    const mesh = meshes.get(geom.mesh);
    if (!mesh) return null;
    shape = new THREE.BufferGeometry();
    shape.setAttribute("position", new THREE.BufferAttribute(mesh.position.slice(), 3));
    shape.setAttribute("normal", new THREE.BufferAttribute(mesh.normal.slice(), 3));
    shape.setAttribute("uv", new THREE.BufferAttribute(mesh.uv.slice(), 2));
    shape.setIndex(new THREE.BufferAttribute(mesh.index, 1));
  }
  const [w, x, y, z] = geom.quat;
  const turn = new THREE.Quaternion(x, y, z, w);
  return shape.applyMatrix4(new THREE.Matrix4().compose(new THREE.Vector3(...geom.pos), turn,
    new THREE.Vector3(1, 1, 1)));
}

// a texture begins at the plane's corner of least x and greatest y, as in MuJoCo
function repeat(shape, { texture, repeat: [u, v] = [1, 1] }) {
  if (texture < 0 || (u === 1 && v === 1)) return;
  const { uv } = shape.attributes;
  for (let i = 0; i < uv.count; i++) {
    uv.setXY(i, uv.getX(i) * u, 1 - (1 - uv.getY(i)) * v);
  }
}

// One geometry of several, whose vertices follow one another
export function join(shapes) {
  if (shapes.length === 1) return shapes[0];
  const whole = new THREE.BufferGeometry();
  for (const [name, size] of [["position", 3], ["normal", 3], ["uv", 2]]) {
    const arrays = shapes.map((shape) => shape.attributes[name].array);
    const all = new Float32Array(arrays.reduce((sum, array) => sum + array.length, 0));
    arrays.reduce((at, array) => (all.set(array, at), at + array.length), 0);
    whole.setAttribute(name, new THREE.BufferAttribute(all, size));
  }
  const index = [];
  let first = 0;
  for (const shape of shapes) {
    for (const i of shape.index.array) index.push(first + i);
    first += shape.attributes.position.count;
    shape.dispose();
  }
  return whole.setIndex(index);
}
