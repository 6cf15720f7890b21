// In place of the 3D view where the browser has no WebGL: a still picture and a sentence. The rest of
// the page works as before.

export class Still {
  constructor(stage) {
    stage.querySelector("canvas").hidden = true;
    stage.querySelector("#still").hidden = false;
    stage.querySelector("#still p").textContent = "This browser has no WebGL, so the robot is not drawn."
      + " Prompts, measurements and downloads work; a downloaded film shows the robot.";
    this.chosen = 0;
    this.camera = null;
  }

  open(scene) {
    this.scene = scene;
  }

  choose(slot) {
    this.chosen = slot;
  }

  blob() {}
  show() {}
  haunt() {}
  paint() {}
  quality() {}
}
