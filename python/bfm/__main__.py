"""python -m bfm demo. Everything else is the command bfm."""
import sys

from .demo import main

if sys.argv[1:] != ["demo"]:
  sys.exit('usage: python -m bfm demo\nFor everything else, there is the command "bfm": try bfm --help')
main()
