#!/usr/bin/env python3
"""Put MuJoCo's library and headers, the models of the domains and the page's three.js under .deps/.

All files are extracted from wheels; nothing is installed, and the wheels are not kept. A wheel that
is not in the folder --wheels is downloaded. A second run only checks that all files exist.
"""

import argparse
import fnmatch
import pathlib
import platform
import subprocess
import sys
import tempfile
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

# requirement -> (pattern of files in its wheel, target folder, part of their path to replace, and by
# what, if not by nothing)
WHEELS = {
    "mujoco==3.17.0": [
        ("mujoco/include/mujoco/*.h", "include", "mujoco/include/"),
        ("mujoco/libmujoco.so.*", "lib", "mujoco/"),
        ("*/licenses/LICENSE", "licenses/mujoco", "mujoco-3.17.0.dist-info/licenses/"),
    ],
    "dm_control==1.0.50": [
        *((f"dm_control/suite/{name}.xml", "models/suite", "dm_control/suite/")
          for name in ("acrobot", "cheetah", "finger", "fish", "hopper", "humanoid", "point_mass",
                       "quadruped", "walker")),
        ("dm_control/suite/common/*.xml", "models/suite", "dm_control/suite/"),
        ("dm_control/composer/arena.xml", "models/jaco", "dm_control/composer/"),
        ("dm_control/third_party/kinova/*", "models/jaco", "dm_control/third_party/kinova/"),
        ("*/licenses/LICENSE", "licenses/dm_control", "dm_control-1.0.50.dist-info/licenses/"),
    ],
    "gymnasium==1.4.0": [
        *((f"gymnasium/envs/mujoco/assets/{name}.xml", "models/gymnasium",
           "gymnasium/envs/mujoco/assets/") for name in ("ant", "half_cheetah", "hopper", "walker2d")),
        ("*/licenses/LICENSE", "licenses/gymnasium", "gymnasium-1.4.0.dist-info/licenses/"),
    ],
    "gymnasium_robotics==1.4.2": [
        ("gymnasium_robotics/envs/assets/kitchen_franka/**", "models/kitchen",
         "gymnasium_robotics/envs/assets/kitchen_franka/"),
        *((f"gymnasium_robotics/envs/assets/{file}", "models/robotics",
           "gymnasium_robotics/envs/assets/")
          for file in ("hand/reach.xml", "hand/robot.xml", "hand/shared.xml",
                       "hand/shared_asset.xml", "stls/hand/*.stl")),
        ("gymnasium_robotics/envs/assets/LICENSE.md", "licenses/gymnasium_robotics",
         "gymnasium_robotics/envs/assets/"),
        ("*/licenses/LICENSE", "licenses/gymnasium_robotics",
         "gymnasium_robotics-1.4.2.dist-info/licenses/"),
    ],
    # three.js r180 as one module; three's own notice is its first lines
    "nicegui==3.18.0": [
        ("nicegui/elements/scene/dist/index.js", "web", "nicegui/elements/scene/dist/index.js",
         "three.js"),
        ("*/licenses/LICENSE", "licenses/nicegui", "nicegui-3.18.0.dist-info/licenses/"),
    ],
}
# a MuJoCo of another version, in a folder of its own, which only a test loads
OTHER = {
    "mujoco_core==4.0.0": [
        ("mujoco/libmujoco.so.*", "other", "mujoco/"),
        ("*/licenses/LICENSE", "licenses/mujoco_core", "mujoco_core-4.0.0.dist-info/licenses/"),
    ],
}
OPTIONAL = {"gymnasium_robotics==1.4.2": "kitchen and hand"}  # domains that no other needs


def find_wheel(requirement, folder):
  """The wheel of this requirement in a folder, or None."""
  name, version = requirement.split("==")
  return next(iter(sorted(folder.glob(f"{name}-{version}-*.whl"))), None)


def platforms(machine):
  """pip's options for the wheels of another processor: of any glibc up to the newest that is here."""
  newest = int(platform.libc_ver()[1].split(".")[1])
  return [word for minor in range(17, newest + 1)
          for word in ("--platform", f"manylinux_2_{minor}_{machine}")]


def download(requirement, folder, machine):
  print(f"downloading {requirement}", flush=True)
  subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                  "--only-binary=:all:", *(platforms(machine) if machine else []),
                  "--dest", str(folder), requirement],
                 check=requirement not in OPTIONAL)
  wheel = find_wheel(requirement, folder)
  if wheel is None and requirement not in OPTIONAL:
    sys.exit(f"models.py: pip downloaded no wheel for {requirement}")
  return wheel


def unpack(wheel, rows, target):
  """Extracts the wheel's files that match the rows; returns their paths below target."""
  written = []
  with zipfile.ZipFile(wheel) as archive:
    names = [n for n in archive.namelist() if not n.endswith("/")]
    for pattern, folder, drop, *into in rows:
      # * matches only within its folder, except for kinova's meshes; ** matches across folders
      found = [n for n in names if fnmatch.fnmatch(n, pattern)
               and (n.count("/") == pattern.count("/") or n.endswith(".stl") or pattern[0] == "*"
                    or "**" in pattern)]
      if not found and "licenses" not in pattern:
        sys.exit(f"models.py: {wheel.name} has no {pattern}")
      for name in found:
        path = target / folder / "".join([*into, name.removeprefix(drop)])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(name))
        written.append(str(path.relative_to(target)))
  return written


def wanted(requirement, rows):
  """The first line of a stamp: what an earlier run had to extract."""
  return f"{requirement} {zlib.crc32(repr(rows).encode()):08x}"


def is_done(stamp, first, target):
  """Whether an earlier run extracted the same and its files still exist."""
  if not stamp.exists():
    return False
  found, *files = stamp.read_text().splitlines()
  return found == first and all((target / f).exists() for f in files)


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--wheels", type=pathlib.Path, help="folder to search for wheels first")
  parser.add_argument("--other", action="store_true", help="only the MuJoCo of another version")
  parser.add_argument("--target", type=pathlib.Path, default=ROOT / ".deps")
  parser.add_argument("--machine", help="get only MuJoCo, for this processor, such as aarch64")
  args = parser.parse_args()

  for requirement, rows in (OTHER if args.other else WHEELS).items():
    if args.machine and not requirement.startswith("mujoco=="):
      continue
    stamp = args.target / "stamps" / requirement
    if is_done(stamp, wanted(requirement, rows), args.target):
      continue
    with tempfile.TemporaryDirectory() as scratch:
      wheel = find_wheel(requirement, args.wheels) if args.wheels else None
      wheel = wheel or download(requirement, pathlib.Path(scratch), args.machine)
      if wheel is None:
        print(f"models.py: cannot get {requirement}: continuing without {OPTIONAL[requirement]}")
        continue
      files = unpack(wheel, rows, args.target)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text("\n".join([wanted(requirement, rows), *files]) + "\n")

  library = next((args.target / "lib").glob("libmujoco.so.*"))
  link = args.target / "lib" / "libmujoco.so"
  if not link.is_symlink() or not link.exists():
    link.unlink(missing_ok=True)
    link.symlink_to(library.name)


if __name__ == "__main__":
  main()
