// The WebSocket to bfm serve: it keeps the token, reconnects after a loss with growing pauses, and
// tells a server that is gone from one that refuses this page.

const KEY = "bfm.token";
const PAUSES = [300, 600, 1200, 2500, 5000];  // milliseconds before an attempt

let kept = "";  // where the browser stores nothing

// The token arrives in the fragment. The browser keeps it, and the address bar loses it, so that it
// gets into no link that somebody copies.
export function takeToken() {
  const found = /(^#|[#&]token=|[#&])([0-9a-f]{32})(?=&|$)/.exec(location.hash);
  if (!found) return;
  kept = found[2];
  try {
    localStorage.setItem(KEY, kept);
  } catch {
    // a browser that stores nothing needs the token again after a reload
  }
  const rest = location.hash.slice(1).replace(/(token=)?[0-9a-f]{32}&?/, "");
  history.replaceState(null, "", location.pathname + (rest ? `#${rest}` : ""));
}

function token() {
  try {
    return localStorage.getItem(KEY) || kept;
  } catch {
    return kept;
  }
}

// `text` gets messages, `bytes` gets ArrayBuffers, `state` gets "open", "lost" (no server),
// "refused" (a server that does not want this page) or "token" (there is none)
export class Link {
  constructor({ text, bytes, state }) {
    Object.assign(this, { text, bytes, state });
    this.attempt = 0;
    this.socket = null;
    this.reason = "";  // why the server ended the connection
    // another page of this browser may have received a new token
    addEventListener("storage", (event) => event.key === KEY && this.retry());
    addEventListener("online", () => this.retry());
  }

  connect() {
    if (!token()) return queueMicrotask(() => this.state("token"));
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/live`,
      ["bfm.v1", token()]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.attempt = 0;
      this.reason = "";
      this.state("open");
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") this.text(JSON.parse(data));
      else this.bytes(data);
    };
    let opened = false;
    socket.addEventListener("open", () => { opened = true; });
    socket.onclose = () => this.socket === socket && this.closed(opened);
    this.socket = socket;
  }

  async closed(opened) {
    this.socket = null;
    this.state(opened || !(await answers()) ? "lost" : "refused");
    const pause = PAUSES[Math.min(this.attempt++, PAUSES.length - 1)];
    this.timer = setTimeout(() => this.connect(), pause);
  }

  retry() {
    if (this.socket) return;
    clearTimeout(this.timer);
    this.connect();
  }

  // Send an object; whether there is a connection
  say(message) {
    if (!this.socket || this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }
}

// Whether the server answers at all: a handshake that it refuses looks to a page like a loss
async function answers() {
  try {
    return (await fetch("/", { method: "HEAD", cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
