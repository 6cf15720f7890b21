// Keyboard shortcuts: letters anywhere but in a text field, arrows on the view.

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const TURN = Math.PI / 36;

export class Keys {
  constructor(does) {
    const { controls } = this.does = does;
    this.letters = {
      "/": does.write,
      "?": does.help,
      " ": () => controls.pause(),
      ".": () => controls.step(),
      "[": () => controls.speed(controls.state.speed - 0.1),
      "]": () => controls.speed(controls.state.speed + 0.1),
      r: () => controls.reset("start"),
      R: () => controls.reset("random"),
      n: does.choose,
      t: () => does.theme.toggle(),
      1: () => controls.slots(1),
      2: () => controls.slots(2),
      4: () => controls.slots(4),
    };
    addEventListener("keydown", (event) => this.key(event));
    does.view.canvas?.addEventListener("keydown", (event) => this.look(event));
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const { target, key } = event;
    if (target.closest("input[type=text], input[type=number], select, dialog, [role=textbox]")) return;
    // space presses the button that has the focus
    if (key === " " && target.closest("button, a, summary, input")) return;
    const does = this.letters[key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  look(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { view, touch } = this.does, [right, up] = ARROWS[event.key] ?? [];
    if (right !== undefined && event.shiftKey) touch.nudge(right, up);
    else if (right !== undefined) view.eye.turn(right * TURN, -up * TURN);
    else if (event.key === "+" || event.key === "=") view.eye.zoom(0.9);
    else if (event.key === "-") view.eye.zoom(1 / 0.9);
    else if (event.key === "c") view.eye.reset();
    else return;
    event.preventDefault();
    view.request();
    view.moved();
  }
}
