// Taking home: texts that reproduce the prompt, and downloads that the server makes, with their
// progress. Only one download is made at a time.

import { cCode, commandLine, pythonCode } from "./code.js";

const HOW = {
  cli: ["As a command", "Run this in the checkout of bfm. It films an episode.", commandLine],
  python: ["In Python", "Save this as a file and run it in the checkout of bfm.", pythonCode],
  c: ["In C", "Save this as a file, compile it and run it in the checkout of bfm.", cCode],
};

const NAMES = { film: "film", trajectory: "trajectory", z: "z" };

export class Take {
  // what(): as code.js wants it, or null; slot(): of the chosen robot; say: to the server
  constructor(box, dialog, { what, slot, say, toast, nextId }) {
    Object.assign(this, { box, dialog, what, slot, say, toast, nextId });
    for (const how of Object.keys(HOW)) {
      box.querySelector(`#copy-${how}`).addEventListener("click", () => this.copy(how));
    }
    for (const name of Object.keys(NAMES)) {
      box.querySelector(`#take-${name}`).addEventListener("click", () => this.begin(name));
    }
    this.strip = box.querySelector("#taking");
    [this.bar, this.text, this.stop] = this.strip.children;
    this.stop.addEventListener("click", () => this.cancel());
    this.taking = null;
  }

  // ---------------------------------- texts -------------------------------------------------------

  async copy(how) {
    const what = this.what();
    if (!what) return this.toast("There is no prompt to copy yet.");
    const [title, text, write] = HOW[how], code = write(what);
    this.last = code;
    this.dialog.querySelector("h2").textContent = title;
    this.dialog.querySelector("pre").textContent = code;
    const copied = await toClipboard(code);
    this.dialog.querySelector("p").textContent = (copied ? "Copied. " : "Press Ctrl+C to copy. ") + text
      + (what.noise ? " It acts without the noise that is set here." : "");
    this.dialog.showModal();
    if (!copied) getSelection().selectAllChildren(this.dialog.querySelector("pre"));
  }

  // ---------------------------------- downloads ---------------------------------------------------

  begin(name) {
    if (this.taking) return;
    const seconds = Number(this.box.querySelector("#take-seconds").value);
    const id = this.nextId();
    if (!this.say({ do: "take", id, what: name, slot: this.slot(), seconds })) return;
    this.taking = { id, name, pieces: [] };
    this.bar.removeAttribute("value");
    this.text.textContent = `Making the ${NAMES[name]}`;
    this.strip.hidden = false;
    this.lock(true);
  }

  progress({ id, done, total }) {
    if (id !== this.taking?.id) return;
    this.bar.max = total;
    this.bar.value = done;
    this.text.textContent = `Making the ${NAMES[this.taking.name]}: ${Math.round(100 * done / total)}%`;
  }

  piece({ id, bytes }) {
    if (id === this.taking?.id) this.taking.pieces.push(bytes);
  }

  taken({ id, name, mime }) {
    if (id !== this.taking?.id) return;
    const url = URL.createObjectURL(new Blob(this.taking.pieces, { type: mime }));
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = name;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    this.toast(`Saved ${name}.`);
    this.end();
  }

  refused({ id, error }) {
    if (id !== this.taking?.id) return false;
    this.toast(error);
    this.end();
    return true;
  }

  cancel() {
    this.say({ do: "cancel", id: this.taking?.id ?? 0 });
    this.end();
  }

  // also when the connection is lost
  end() {
    this.taking = null;
    this.strip.hidden = true;
    this.lock(false);
  }

  lock(on) {
    for (const name of Object.keys(NAMES)) this.box.querySelector(`#take-${name}`).disabled = on;
  }
}

// Whether the text is in the clipboard. Pages of other machines without TLS have no clipboard.
export async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
