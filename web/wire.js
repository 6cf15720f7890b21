// Binary messages of the server: frames, meshes and textures, pieces of downloads, ghosts. Everything
// is little endian and aligned, so that poses are views of the bytes received, not copies.

export const FRAME = 1, BLOB = 2, PIECE = 3, GHOST = 4;

export function kindOf(buffer) {
  return new Uint8Array(buffer, 0, 1)[0];
}

// scene: bodies, nq and tendons say how long a slot's part is. null: a frame of the scene before.
export function readFrame(buffer, scene) {
  const view = new DataView(buffer);
  const bodies = scene.bodies.length, least = 8 + 28 * bodies + 4 * scene.nq + 4 * scene.tendons;
  const length = buffer.byteLength - 16 - scene.slots * least;
  if (view.getUint8(1) !== scene.slots || length < 0 || (!scene.tendons && length)) return null;
  const frame = { seq: view.getUint32(4, true), time: view.getFloat64(8, true), slots: [] };
  let at = 16;
  for (let slot = 0; slot < view.getUint8(1); slot++) {
    const robot = { reward: view.getFloat32(at, true), step: view.getUint32(at + 4, true) };
    at += 8;
    robot.poses = new Float32Array(buffer, at, 7 * bodies);
    at += 28 * bodies;
    robot.qpos = new Float32Array(buffer, at, scene.nq);
    at += 4 * scene.nq;
    robot.tendons = [];
    for (let i = 0; i < scene.tendons; i++) {
      const points = view.getUint32(at, true);
      robot.tendons.push(new Float32Array(buffer, at + 4, 3 * points));
      at += 4 + 12 * points;
    }
    frame.slots.push(robot);
  }
  return frame;
}

export function sequence(buffer) {
  return new DataView(buffer).getUint32(4, true);
}

export function readBlob(buffer) {
  const view = new DataView(buffer);
  const blob = { what: view.getUint8(1) === 1 ? "mesh" : "texture", id: view.getUint32(4, true) };
  return blob.what === "mesh" ? readMesh(buffer, view, blob) : readTexture(buffer, view, blob);
}

function readMesh(buffer, view, blob) {
  const vertices = view.getUint32(8, true), faces = view.getUint32(12, true);
  blob.position = new Float32Array(buffer, 16, 3 * vertices);
  blob.normal = new Float32Array(buffer, 16 + 12 * vertices, 3 * vertices);
  blob.uv = new Float32Array(buffer, 16 + 24 * vertices, 2 * vertices);
  blob.index = new Uint32Array(buffer, 16 + 32 * vertices, 3 * faces);
  return blob;
}

// WebGL wants four channels a pixel
function readTexture(buffer, view, blob) {
  blob.width = view.getUint32(8, true);
  blob.height = view.getUint32(12, true);
  const channels = view.getUint32(16, true), from = new Uint8Array(buffer, 20);
  blob.pixels = new Uint8Array(4 * blob.width * blob.height);
  for (let i = 0; i < blob.width * blob.height; i++) {
    for (let c = 0; c < 3; c++) blob.pixels[4 * i + c] = from[channels * i + Math.min(c, channels - 1)];
    blob.pixels[4 * i + 3] = 255;
  }
  return blob;
}

export function readPiece(buffer) {
  const view = new DataView(buffer);
  return { last: view.getUint8(1) === 1, id: view.getUint32(4, true), bytes: buffer.slice(8) };
}

export function readGhost(buffer) {
  return { id: new DataView(buffer).getUint32(4, true), poses: new Float32Array(buffer, 8) };
}
