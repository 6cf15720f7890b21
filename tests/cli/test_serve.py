"""bfm serve: its requests and its protocol, with clients that mean well, badly, or nothing at all."""
import os
import shutil
import signal
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

websocket = pytest.importorskip("websocket")

from conftest import ROOT, refused, run  # noqa: E402
from playground import WALKER, Client, Server, read_all  # noqa: E402

SLOW = 10  # seconds after which a client that stands still is dropped


@pytest.fixture(scope="module")
def server():
  server = Server("--clients", 24, "--threads", 1, WALKER)
  yield server
  status, errors = server.stop()
  assert status == 0 and not errors, errors


# ---------------------------------- the command line ----------------------------------------------


def test_a_port_in_use_is_an_error(server):
  error = refused("serve", "--port", server.port, WALKER)
  assert f"port {server.port} of 127.0.0.1 is in use by another program; choose one with --port" in error


@pytest.mark.parametrize("arguments, part", [
    (["--host", "no-such-host.invalid"], "--host no-such-host.invalid is no address of this machine"),
    (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1, port 8080: Cannot assign"),
    (["--port", "70000"], "port is 70000"),
    (["--clients", "0"], "clients is 0"),
    (["no.safetensors"], "no.safetensors"),
    (["--prot", "1"], "did you mean --port?"),
])
def test_bad_arguments_are_refused(arguments, part):
  assert part in refused("serve", *arguments, cwd=ROOT)


def test_help_teaches():
  text = run("help", "serve").stdout
  for word in ("--port", "--host", "--clients", "--open", "127.0.0.1", "token", "bfm serve runs/walker",
               "Ctrl-C"):
    assert word in text


def test_a_public_address_is_warned_of():
  server = Server("--host", "0.0.0.0", WALKER)
  assert server.url == f"http://127.0.0.1:{server.port}"
  assert server.ask("GET /", host=f"localhost:{server.port}").startswith("HTTP/1.1 200")
  assert server.ask("GET /", host=f"evil.com:{server.port}").startswith("HTTP/1.1 421")
  status, errors = server.stop()
  assert status == 0 and "warning: other machines can reach 0.0.0.0" in errors


@pytest.mark.parametrize("host, name", [("localhost", "localhost"), ("127.0.0.2", "127.0.0.2"),
                                        ("::1", "[::1]")])
def test_other_addresses_of_this_machine(host, name):
  if host == "::1" and not Path("/proc/net/if_inet6").exists():
    pytest.skip("this machine has no IPv6")
  server = Server("--host", host, WALKER)
  assert server.url == f"http://{name}:{server.port}"
  assert server.ask("GET /").startswith("HTTP/1.1 200")
  assert server.ask("GET /", host=f"127.0.0.3:{server.port}").startswith("HTTP/1.1 421")
  assert Client(server).hello
  assert server.stop() == (0, "")


def test_open_calls_the_browser(tmp_path):
  browser = tmp_path / "xdg-open"
  browser.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/new && mv {tmp_path}/new {tmp_path}/called\n')
  browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
  server = Server("--open", WALKER, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
  end = time.monotonic() + 10
  while not (tmp_path / "called").exists() and time.monotonic() < end:
    time.sleep(0.02)
  assert (tmp_path / "called").read_text() == f"{server.url}/#{server.token}\n"
  assert server.stop() == (0, "")


def test_without_arguments_the_folder_models_is_offered(tmp_path):
  (tmp_path / "models").mkdir()
  shutil.copy(WALKER, tmp_path / "models" / "mine.safetensors")
  server = Server(cwd=tmp_path)
  assert [m["label"] for m in Client(server).hello["models"]] == ["mine"]
  assert server.stop() == (0, "")


def test_the_page_begins_with_the_walker_and_names_no_model_twice():
  for arguments in ([], ["models/walker.safetensors", "models"]):
    server = Server(*arguments, cwd=ROOT)
    labels = [m["label"] for m in Client(server).hello["models"]]
    assert labels == ["walker", "cheetah", "quadruped"]
    assert server.stop() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(number):
  server = Server(WALKER)
  clients = [Client(server) for _ in range(3)]
  clients[0].open()
  half = server.connect()
  half.sendall(b"GET / HT")
  begin = time.monotonic()
  assert server.stop(number) == (0, "")
  assert time.monotonic() - begin < 5
  assert [client.until_closed() for client in clients] == ["the server was stopped"] * 3
  with pytest.raises(ConnectionRefusedError):
    server.connect()


# ---------------------------------- pages ---------------------------------------------------------

HEADERS = [
    "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options: nosniff", "referrer-policy: no-referrer", "cache-control: no-cache",
    "cross-origin-resource-policy: same-origin",
]
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def test_every_file_of_the_page_is_served(server):
  files = [*sorted((ROOT / "web").iterdir()), ROOT / ".deps" / "web" / "three.js"]
  with server.connect() as plug:  # one connection for all
    for file in files:
      path = "/" if file.name == "index.html" else "/" + file.name
      plug.sendall(f"GET {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n\r\n".encode())
      head = b""
      while b"\r\n\r\n" not in head:
        head += plug.recv(65536)
      head, body = head.split(b"\r\n\r\n", 1)
      while len(body) < file.stat().st_size:
        body += plug.recv(65536)
      lines = head.decode().split("\r\n")
      assert lines[0] == "HTTP/1.1 200 OK" and set(HEADERS) <= set(lines), path
      assert f"content-type: {TYPES[file.suffix]}" in head.decode()
      assert body == file.read_bytes(), path


def test_head_has_no_body(server):
  head, body = server.ask("HEAD /three.js").split("\r\n\r\n")
  size = (ROOT / ".deps" / "web" / "three.js").stat().st_size
  assert f"content-length: {size}" in head and not body


@pytest.mark.parametrize("path, status", [
    ("/nothing", 404), ("/index.html", 404), ("/?x=1", 404), ("/style.css?", 404), ("/live", 426),
    ("/../../etc/passwd", 404), ("/%2e%2e/%2e%2e/etc/passwd", 404), ("/web/index.html", 404),
    ("/" + "x" * 2000, 404), ("/models/walker.safetensors", 404), ("/" + "x" * 20000, None),
])
def test_no_other_path_is_served(server, path, status):
  answer = server.ask(f"GET {path}")
  assert answer.startswith(f"HTTP/1.1 {status} ") if status else not answer
  if answer:
    assert set(HEADERS) <= set(answer.split("\r\n"))
    assert "access-control" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_and_head_are_answered(server, method):
  assert server.ask(f"{method} /").startswith("HTTP/1.1 405 Method Not Allowed")


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PRI", "nonsense"])
def test_strange_methods_end_the_connection(server, method):
  assert "200 OK" not in server.ask(f"{method} /")


@pytest.mark.parametrize("host", ["evil.com", "evil.com:{port}", "127.0.0.1", "127.0.0.1:1",
                                  "localhost.evil.com:{port}", "127.0.0.2:{port}", "0.0.0.0:{port}"])
def test_another_name_of_the_server_is_refused(server, host):
  host = host.format(port=server.port)
  assert server.ask("GET /", host=host).startswith("HTTP/1.1 421 ")
  assert server.upgrade(host=host) == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_names_of_this_machine_are_accepted(server, host):
  assert server.ask("GET /", host=f"{host}:{server.port}").startswith("HTTP/1.1 200 OK")


def test_a_request_without_host_is_refused(server):
  with server.connect() as plug:
    plug.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert b" 421 " in read_all(plug)


# ---------------------------------- who may connect ------------------------------------------------


@pytest.mark.parametrize("what, status", [
    (dict(path="/"), 404), (dict(path="/live?x=1"), 404), (dict(path="/live/"), 404),
    (dict(method="POST"), 404), (dict(origin="http://evil.com"), 403), (dict(origin="null"), 403),
    (dict(origin="https://127.0.0.1:{port}"), 403), (dict(origin="http://127.0.0.1"), 403),
    (dict(origin="http://localhost:{port}.evil.com"), 403), (dict(protocols=""), 403),
    (dict(protocols="bfm.v1"), 403), (dict(protocols="{token}"), 403),
    (dict(protocols="bfm.v1, " + "0" * 32), 403), (dict(protocols="bfm.v1, {token}0"), 403),
    (dict(protocols="bfm.v1, {token}, bfm.v1"), 403), (dict(protocols="bfm.v2, {token}"), 403),
    (dict(protocols="bfm.v1, " + "x" * 5000), 403), (dict(upgrade="h2c"), None),
    (dict(upgrade="nonsense"), 403), (dict(), 101), (dict(origin="http://localhost:{port}"), 101),
    (dict(protocols="bfm.v1,{token}"), 101),
])
def test_only_our_page_with_the_token_may_connect(server, what, status):
  what = {name: text.format(port=server.port, token=server.token) for name, text in what.items()}
  assert server.upgrade(**what) == status


def test_a_hundred_clients_get_eight_places():
  server = Server("--clients", 8, WALKER)
  clients, full = [], 0
  for _ in range(100):
    try:
      clients.append(Client(server))
    except websocket.WebSocketBadStatusException as error:
      full += error.status_code == 503
  assert len(clients) == 8 and full == 92
  assert server.ask("GET /live").startswith("HTTP/1.1 503 ")
  clients[0].ws.close()
  end = time.monotonic() + 10
  while server.upgrade() != 101 and time.monotonic() < end:
    time.sleep(0.05)
  assert time.monotonic() < end
  assert server.stop() == (0, "")


# ---------------------------------- messages -------------------------------------------------------


def test_hello_names_what_there_is(server):
  hello = Client(server).hello
  assert hello["models"][0]["label"] == "walker" and hello["window"] == 6
  assert hello["limits"]["message"] == 16384 and hello["version"] in run("--version").stdout


# one for each field of each message; tests/unit/test_message.c has every rule
BAD = [
    "", "x", "[]", "7", '"step"', "{}", '{"do":"fly"}', '{"do":["open"]}', '{"do":"open"}', "{" * 9000,
    '{"do":"open","model":"../../etc/passwd","path":"/etc"}', '{"do":"open","model":"walker","slots":8}',
    '{"do":"check","text":"1","kind":"x"}', '{"do":"prompt","kind":"z","z":[1e999]}',
    '{"do":"prompt","kind":"reward","text":"%s"}' % ("1" * 5000), '{"do":"ghost","qpos":{}}',
    '{"do":"pause"}', '{"do":"speed","factor":null}', '{"do":"ack","seq":-1}',
]


def test_bad_messages_are_refused_and_twenty_end_it(server):
  client = Client(server)
  assert len(BAD) == 19
  for bad in BAD:
    client.ws.send(bad)
    assert client.next()["type"] == "refused", bad
  client.say("check", id=5, text=7)
  answer = client.next()
  assert answer == {"type": "refused", "id": 5, "error": '"text" must be a text'}
  assert client.until_closed() == "too many messages could not be read"


def test_binary_messages_are_refused(server):
  client = Client(server)
  client.ws.send_binary(b"\1\2\3")
  assert client.next() == {"type": "refused", "error": "a message must be text"}
  client.ws.close()


@pytest.mark.parametrize("parts", [[16385], [10000, 10000], [1000000]])
def test_a_message_that_is_too_long_ends_it(server, parts):
  client = Client(server)
  for i, size in enumerate(parts):
    frame = websocket.ABNF(fin=i + 1 == len(parts), opcode=0 if i else 1, mask_value=1, data=b"1" * size)
    client.ws.send_frame(frame)
  assert client.until_closed() == "a message has more than 16384 bytes"


def test_a_message_in_parts_is_whole(server):
  client = Client(server)
  text = b'{"do":"check","id":3,"text":7}'
  for i in range(len(text)):
    client.ws.send_frame(websocket.ABNF(fin=i + 1 == len(text), opcode=0 if i else 1, mask_value=1,
                                        data=text[i:i + 1]))
  assert client.next()["id"] == 3
  client.ws.close()


@pytest.mark.parametrize("frame", [
    b"\x81\x85\0\0\0\0\xff\xfe\xfd\xfc\xfb",        # not UTF-8
    b"\xf1\x81\0\0\0\0x",                           # reserved bits
    b"\x83\x81\0\0\0\0x",                           # a reserved kind
    b"\x80\x81\0\0\0\0x",                           # goes on with nothing
    b"\x89\xfe\0\xff\0\0\0\0" + b"x" * 255,         # a ping that is too long
    b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0x",  # a length of 2^64 - 1
])
def test_broken_frames_end_it(server, frame):
  client = Client(server)
  client.ws.sock.sendall(frame)
  client.ws.sock.settimeout(15)
  assert client.until_closed() is None


@pytest.mark.parametrize("kind", ["messages", "parts"])
def test_a_flood_ends_it(server, kind):
  client = Client(server)
  part = websocket.ABNF(fin=0, opcode=0, mask_value=1, data=b"").format()
  first = websocket.ABNF(fin=0, opcode=1, mask_value=1, data=b"{").format()
  whole = websocket.ABNF(fin=1, opcode=1, mask_value=1, data=b'{"do":"release"}').format()
  try:
    client.ws.sock.sendall(whole * 3000 if kind == "messages" else first + part * 3000)
  except ConnectionError:
    pass
  assert client.until_closed() in ("more than 200 messages a second have arrived", None)
  assert Client(server).hello


# ---------------------------------- bad company ----------------------------------------------------


def test_whoever_stands_still_is_dropped_and_slows_nobody():
  server = Server("--clients", 4, "--threads", 1, WALKER)
  good = Client(server)
  good.open()
  begin = time.monotonic()
  still = {name: server.connect() for name in ("silent", "half", "slow", "idle", "body")}
  still["half"].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
  still["slow"].sendall(b"GET / HT")
  still["idle"].sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
  still["body"].sendall(f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 9\r\n\r\n"
                        .encode())
  deaf = Client(server, acks=False)  # reads, but never acknowledges
  deaf.say("open", model="walker")
  stuck = Client(server, sockopt=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])  # never reads
  stuck.say("open", model="walker")

  gone, frames, counted = {}, good.frames, time.monotonic()

  def watch(name, plug):
    try:
      read_all(plug)
    except OSError:
      pass
    gone[name] = time.monotonic() - begin

  def drip():
    try:
      while "slow" not in gone:
        still["slow"].sendall(b"x")
        time.sleep(0.5)
    except OSError:
      pass

  def listen():
    deaf.until_closed()
    gone["deaf"] = time.monotonic() - begin

  threads = [threading.Thread(target=watch, args=item, daemon=True) for item in still.items()]
  threads += [threading.Thread(target=f, daemon=True) for f in (drip, listen)]
  for thread in threads:
    thread.start()
  tasks = server.tasks()
  while len(gone) < len(still) + 1 and time.monotonic() < begin + 3 * SLOW:
    good.next()
  assert set(gone) == {*still, "deaf"}, gone
  assert max(gone.values()) < SLOW + 5, gone
  assert good.frames - frames > 10 * (time.monotonic() - counted)  # 60 on an idle machine
  while server.tasks() > tasks - 4 and time.monotonic() < begin + 4 * SLOW:
    good.next()
  assert server.tasks() == tasks - 4, "the threads of the two clients have not ended"
  assert server.stop() == (0, "")


def test_many_half_open_sockets_lock_nobody_out(server):
  plugs = [server.connect() for _ in range(200)]
  for plug in plugs[::2]:
    plug.sendall(b"GET /")
  assert server.ask("GET /").startswith("HTTP/1.1 200")
  assert Client(server).hello
  for plug in plugs:
    plug.close()


def test_sudden_ends_leave_nothing_behind():
  server = Server("--clients", 24, "--threads", 1, WALKER)
  patient = Client(server)
  patient.open()
  tasks, files = server.tasks(), len(os.listdir(f"/proc/{server.process.pid}/fd"))
  for i in range(20):
    try:
      client = Client(server)
    except websocket.WebSocketBadStatusException:
      time.sleep(0.2)  # the ones before are still leaving
      continue
    client.say("open", model="walker", slots=(1, 2, 4)[i % 3])
    if i % 2:
      client.say("prompt", id=1, slot=-1, kind="reward", text="torso.z > 1.2")
      time.sleep(0.02 * i)
    client.cut()
  end = time.monotonic() + 20
  while server.tasks() > tasks and time.monotonic() < end:
    patient.next()
  assert server.tasks() == tasks
  assert len(os.listdir(f"/proc/{server.process.pid}/fd")) == files
  assert patient.count_frames(0.5) > 0
  assert server.stop() == (0, "")


def test_an_unknown_model_is_refused(server):
  client = Client(server)
  for label in ("nobody", "../models/walker.safetensors", "/etc/passwd", "", str(WALKER)):
    client.say("open", id=1, model=label)
    assert client.read("refused", id=1)["error"]
  client.ws.close()
