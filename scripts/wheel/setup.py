"""What pyproject.toml cannot say: the version, which is that of bfm.h, and the tag of the wheel."""
import re

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

HEADER = open("bfm/include/bfm.h").read()


class WithLibrary(Distribution):
  """The wheel belongs to one kind of machine, although nothing is compiled here."""

  def has_ext_modules(self):
    return True


class AnyPython(bdist_wheel):
  """The library is loaded by ctypes: one wheel serves every Python 3."""

  def get_tag(self):
    return "py3", "none", super().get_tag()[2]


def part(name):
  return re.search(rf"#define BFM_VERSION_{name} (\d+)", HEADER)[1]


setup(version=".".join(map(part, ("MAJOR", "MINOR", "PATCH"))), distclass=WithLibrary,
      cmdclass={"bdist_wheel": AnyPython})
