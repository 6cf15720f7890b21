// Small things that the page says: a short note at the bottom, the first hint, the body that is held.

const $ = (selector) => document.querySelector(selector);

let timer = 0;
let hinted = false;  // whether the hint is not needed any more

export function toast(text) {
  const box = $("#toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => box.classList.remove("shown"), 4000);
}

// One sentence of what to try with this robot, until somebody has tried something.
// example: a reward; touchable: whether the robot is drawn
export function hint(example, touchable) {
  if (hinted) return;
  const code = document.createElement("code"), wide = document.createElement("span");
  code.textContent = example;
  wide.className = "wide";
  wide.append(", for example ", code);
  $("#hint span").replaceChildren("Type a reward", wide, " and press Enter",
    touchable ? ", or take hold of the robot with the pointer." : ".");
  $("#hint").hidden = false;
}

export function closeHint() {
  $("#hint").hidden = hinted = true;
}

// name: of the body, or null when it is let go
export function held(name) {
  const box = $("#held");
  box.hidden = !name;
  if (!name) return;
  box.textContent = `holding ${name}`;
  closeHint();
}

$("#hint button").addEventListener("click", closeHint);
