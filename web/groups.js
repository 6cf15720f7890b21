// Groups of buttons of which one is chosen, as the keyboard expects them: radio groups and tab lists
// are one stop of Tab, and the arrow keys go from button to button.

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export function arrows(group) {
  group.addEventListener("keydown", (event) => {
    const buttons = [...group.querySelectorAll("button")], at = buttons.indexOf(event.target);
    const to = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1
      : STEPS[event.key] && (at + STEPS[event.key] + buttons.length) % buttons.length;
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[to].focus();
    buttons[to].click();
  });
}

// A radio group of buttons with data-value; chosen(value) after a click
export function radio(group, chosen) {
  arrows(group);
  group.addEventListener("click", ({ target }) => {
    if (target.dataset.value === undefined) return;
    check(group, target.dataset.value);
    chosen(target.dataset.value);
  });
}

export function check(group, value) {
  for (const button of group.querySelectorAll("button")) {
    const checked = button.dataset.value === String(value);
    button.setAttribute("aria-checked", String(checked));
    button.tabIndex = checked ? 0 : -1;
  }
}
