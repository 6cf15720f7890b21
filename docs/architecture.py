#!/usr/bin/env python3
"""Draw docs/architecture.svg: the way of the data through the folders of src/, and the line
between library and program. `make docs` runs it; the picture is committed."""
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 960, 546, 24
BOX_W, BOX_H, GAP = 112, 74, 21.33
INK, SOFT, LINE = "#1f2937", "#5b6472", "#94a3b8"
FOLDER = ("#e8f0fb", "#3b6fb6")
FILE = ("#fdf3dc", "#b7791f")
BASE = ("#eef1f4", "#7b8794")
PROGRAM = ("#e9f5ee", "#2f855a")
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"

# top row: the stages, with what happens there; second row: what each of them uses
STAGES = [
    ("simulate", "envs", "MuJoCo on|all cores", FOLDER),
    ("collect", "collect", "random, RND,|MOOD, D4RL", FOLDER),
    ("store", "data.h5", "reward-free|transitions", FILE),
    ("train", "train", "loop, evaluation,|resume", FOLDER),
    ("save", "model", "F, B, π and|prompt states", FILE),
    ("prompt", "prompt", "from words|to z", FOLDER),
    ("act", "rollout", "episodes of all|tasks at once", FOLDER),
]
HELPERS = {
    1: ("explore", "TD3 and RND|learners", FOLDER),
    2: ("data", "HDF5, npz,|safetensors", FOLDER),
    3: ("agent", "Algorithm 2|of the paper", FOLDER),
    6: ("render", "pictures of|states", FOLDER),
}
PROMPT = ["“torso.z > 1.2”", "or a goal, or a", "demonstration"]
FOUNDATION = [
    ("nets", "networks, forward and backward by hand"),
    ("ops", "CPU (oneDNN) and GPU (CUDA plugin)"),
    ("core", "status, options, random numbers, threads"),
]
PROGRAMS = [
    ("cli", "one file per subcommand of bfm"),
    ("paper", "the paper's tables as runs"),
    ("view", "films and film strips"),
]
Y_PROGRAM, Y_LINE, Y_STAGE, Y_HELPER, Y_BASE = 48, 162, 212, 322, 438


def text(x, y, words, size=12.5, color=SOFT, family=SANS, weight="400", anchor="middle"):
  return (f'<text x="{x:g}" y="{y:g}" font-family="{family}" font-size="{size:g}" '
          f'font-weight="{weight}" fill="{color}" text-anchor="{anchor}">{escape(words)}</text>')


def box(x, y, w, h, name, note, colors):
  fill, edge = colors
  out = [f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="8" fill="{fill}" '
         f'stroke="{edge}" stroke-width="1.4"/>']
  if colors is FILE:  # with a folded corner
    out = [f'<path d="M{x + 4:g} {y:g} h{w - 20:g} l16 16 v{h - 20:g} a4 4 0 0 1 -4 4 h{8 - w:g} '
           f'a4 4 0 0 1 -4 -4 v{8 - h:g} a4 4 0 0 1 4 -4 z m{w - 20:g} 0 v16 h16" '
           f'fill="{fill}" stroke="{edge}" stroke-width="1.4" stroke-linejoin="round"/>']
  lines = note.split("|")
  top = y + h / 2 - 8 * len(lines) + 3
  out.append(text(x + w / 2, top + 2, name, 16, INK, MONO, "700"))
  out += [text(x + w / 2, top + 20 + 15 * i, line, 11.5) for i, line in enumerate(lines)]
  return out


def arrow(x1, y1, x2, y2):
  return (f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" stroke="{INK}" stroke-width="1.6" '
          'marker-end="url(#tip)"/>')


def column(i):
  return MARGIN + i * (BOX_W + GAP)


def wide_row(rows, y, h, colors):
  """Boxes that share the whole width."""
  w = (WIDTH - 2 * MARGIN - GAP * (len(rows) - 1)) / len(rows)
  out = []
  for i, (name, note) in enumerate(rows):
    out += box(MARGIN + i * (w + GAP), y, w, h, name, note, colors)
  return out


def stages():
  out = []
  for i, (verb, name, note, colors) in enumerate(STAGES):
    out.append(text(column(i) + BOX_W / 2, Y_STAGE - 10, f"{i + 1}. {verb}", 12.5, INK))
    out += box(column(i), Y_STAGE, BOX_W, BOX_H, name, note, colors)
    if i:
      middle = Y_STAGE + BOX_H / 2
      out.append(arrow(column(i) - GAP + 2, middle, column(i) - 3, middle))
  for i, (name, note, colors) in HELPERS.items():
    out += box(column(i), Y_HELPER, BOX_W, BOX_H - 6, name, note, colors)
    middle = column(i) + BOX_W / 2
    out.append(f'<path d="M{middle:g} {Y_STAGE + BOX_H:g} V{Y_HELPER:g}" stroke="{INK}" '
               f'stroke-width="1.6"/>')
  return out


def prompts():
  """What a user gives: it enters at the stage `prompt`."""
  middle = column(5) + BOX_W / 2
  lines = [text(middle, Y_HELPER + 22 + 16 * i, line, 12, INK, MONO if i == 0 else SANS)
           for i, line in enumerate(PROMPT)]
  return [arrow(middle, Y_HELPER + 4, middle, Y_STAGE + BOX_H + 3), *lines]


def picture():
  out = [
      f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
      'aria-label="The way of the data through the folders of src">',
      f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
      f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
      f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#fff"/>',
      text(MARGIN, 34, "the program bfm", 13, INK, weight="600", anchor="start"),
      *wide_row(PROGRAMS, Y_PROGRAM, 58, PROGRAM),
      f'<path d="M{MARGIN} {Y_LINE - 28} H{WIDTH - MARGIN}" stroke="{LINE}" stroke-width="1.5" '
      'stroke-dasharray="7 5"/>',
      f'<rect x="{WIDTH / 2 - 130:g}" y="{Y_LINE - 43}" width="260" height="30" rx="15" '
      f'fill="#fff" stroke="{LINE}" stroke-width="1.5"/>',
      text(WIDTH / 2, Y_LINE - 23.5, "include/bfm.h, python/bfm", 13, INK, MONO, "600"),
      text(MARGIN, Y_LINE + 8, "the library libbfm: the way of the data", 13, INK, weight="600",
           anchor="start"),
      *stages(),
      *prompts(),
      text(MARGIN, Y_BASE - 12, "what everything builds on", 13, INK, weight="600",
           anchor="start"),
      *wide_row(FOUNDATION, Y_BASE, 58, BASE),
      text(MARGIN, HEIGHT - 20, "Boxes are folders of src/, sheets are files.", 12, SOFT,
           anchor="start"),
      "</svg>",
  ]
  return "\n".join(out)


if __name__ == "__main__":
  print(picture())
