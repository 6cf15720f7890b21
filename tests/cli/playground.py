"""bfm serve as a process, and a client of its protocol that is no browser."""
import json
import os
import signal
import socket
import struct
import subprocess
import time

import websocket
from conftest import BFM, ROOT

WALKER = ROOT / "models" / "walker.safetensors"


class Server:
  """A running bfm serve on a free port."""

  def __init__(self, *arguments, **options):
    self.process = subprocess.Popen([BFM, "serve", "--port", "0", "--device", "cpu", *map(str, arguments)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    line = self.process.stdout.readline()
    assert line.startswith("bfm serve: http://"), line + self.process.stderr.read()
    self.url, self.token = line.split()[2].split("/#")
    self.host, port = self.url.removeprefix("http://").rsplit(":", 1)
    self.port = int(port)

  def stop(self, number=signal.SIGTERM, timeout=20):
    """Stop the server; returns its exit status and what it wrote to standard error."""
    self.process.send_signal(number)
    try:
      _, errors = self.process.communicate(timeout=timeout)
    finally:
      self.process.kill()
    return self.process.returncode, errors

  def connect(self):
    """A bare socket."""
    return socket.create_connection((self.host.strip("[]"), self.port), timeout=20)

  def ask(self, request, *headers, host=None):
    """Send one request on a socket of its own and return the whole response as text."""
    lines = [f"{request} HTTP/1.1", f"Host: {host or f'{self.host}:{self.port}'}", "Connection: close",
             *headers]
    with self.connect() as plug:
      plug.sendall("\r\n".join([*lines, "", ""]).encode())
      return read_all(plug).decode("latin1")

  def upgrade(self, path="/live", method="GET", host=None, protocols=None, upgrade="websocket",
              origin=None):
    """Ask for a WebSocket; returns the status of the answer, or None without one."""
    protocols = f"bfm.v1, {self.token}" if protocols is None else protocols
    headers = ["Upgrade: " + upgrade, "Connection: Upgrade", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    headers += [f"Sec-WebSocket-Protocol: {protocols}"] if protocols else []
    headers += [f"Origin: {origin}"] if origin else []
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'{self.host}:{self.port}'}", *headers]
    with self.connect() as plug:
      plug.sendall("\r\n".join([*lines, "", ""]).encode())
      try:
        first = plug.recv(1024)
      except ConnectionError:
        return None
      return int(first.split()[1]) if first else None

  def tasks(self):
    """The number of the server's threads."""
    return len(os.listdir(f"/proc/{self.process.pid}/task"))


def read_all(plug):
  """Read until the other side closes."""
  parts = []
  try:
    while part := plug.recv(65536):
      parts.append(part)
  except ConnectionResetError:
    pass
  return b"".join(parts)


class Closed(Exception):
  """The server has closed the connection."""


class Client:
  """A client that has been let in, for so many seconds. It acknowledges frames unless told otherwise."""

  def __init__(self, server, acks=True, seconds=60, **options):
    self.acks, self.frames, self.bye, self.end = acks, 0, None, time.monotonic() + seconds
    self.ws = websocket.create_connection(
        server.url.replace("http", "ws") + "/live", subprotocols=["bfm.v1", server.token], timeout=30,
        origin=server.url, **options)
    self.hello = self.read("hello")

  def say(self, do, **fields):
    self.ws.send(json.dumps({"do": do, **fields}))

  def next(self):
    """The next message: an object, or the bytes of a binary one."""
    assert time.monotonic() < self.end, "what was waited for has not come"
    try:
      kind, data = self.ws.recv_data()
    except (websocket.WebSocketConnectionClosedException, ConnectionError) as error:
      raise Closed(self.bye) from error
    if kind == websocket.ABNF.OPCODE_CLOSE:
      raise Closed(self.bye)
    if kind == websocket.ABNF.OPCODE_BINARY:
      if data[0] == 1:
        self.frames += 1
        self.acknowledge(data)
      return data
    message = json.loads(data)
    if message["type"] == "bye":
      self.bye = message["reason"]
    return message

  def acknowledge(self, frame):
    try:
      if self.acks:
        self.say("ack", seq=struct.unpack_from("<I", frame, 4)[0])
    except ConnectionError:
      pass  # its last words are yet to be read

  def read(self, *types, **fields):
    """Read on until a text of one of these types with these fields comes."""
    while True:
      message = self.next()
      if isinstance(message, dict) and message["type"] in types and all(
          message.get(name) == value for name, value in fields.items()):
        return message

  def until_closed(self):
    """Read on until the server closes; returns the reason that it gave."""
    try:
      while True:
        self.next()
    except Closed as end:
      return end.args[0]

  def open(self, **fields):
    """Open a stage with the first model and wait for its first frame."""
    self.say("open", model=self.hello["models"][0]["label"], **fields)
    scene = self.read("scene")
    frames = self.frames
    while self.frames == frames:
      self.next()
    return scene

  def count_frames(self, seconds):
    """The frames that arrive in so many seconds."""
    end, before = time.monotonic() + seconds, self.frames
    while time.monotonic() < end:
      self.next()
    return self.frames - before

  def cut(self):
    """End the connection without a word."""
    self.ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    self.ws.sock.close()
