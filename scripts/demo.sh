#!/usr/bin/env bash
# A demo of bfm in a minute on two cores: the shipped walker follows prompts, and a point mass is
# trained from scratch and moves to goals. "make demo" installs and builds bfm first.
#   demo.sh [folder]   the folder for its files; replaces those of an earlier demo
# Tests shorten it by the variables EPISODES, STEPS (control steps) and TRAIN (training steps).
set -Eeuo pipefail
cd "$(dirname "$0")/.."

bfm=${BFM:-build/bfm}
out=${1:-runs/demo}
walker=models/walker.safetensors

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

# prints a command as a user would type it, then runs it
show() {
  local word line='$'
  for word; do
    case $word in *[!A-Za-z0-9_./:=-]*) line+=" '$word'" ;; *) line+=" $word" ;; esac
  done
  printf '%s\n' "$line"
  "$@"
}

trap 'echo "demo: the last command failed, so the demo stops" >&2; exit 1' ERR

[ -x "$bfm" ] || { echo "demo: there is no $bfm: run \"make demo\"" >&2; exit 1; }
mkdir -p "$out"

say "1. A walker, prompted by rewards as text"
# it was trained without rewards, on motion of agents that learned to stand, walk, run and spin
head='tolerance(torso.zz, -inf, -0.9, 1)'
kneel='upright * tolerance(height, 0.4, 0.5, 0.2)'
strides='standing * (abs(left_hip - right_hip) > 1)'
show "$bfm" eval "$walker" --tasks "$head, $kneel, $strides, march" --es 32 --random \
  --episodes "${EPISODES:-2}" --steps "${STEPS:-1000}"

say "2. The first three as pictures: on its head, kneeling, in long strides"
strips=()
for name in head kneel strides; do
  show "$bfm" play "$walker" --reward "${!name}" --es 32 --steps "${STEPS:-400}" --width 200 \
    --quiet -o "$out/$name.png"
  strips+=(-i "$out/$name.png")
done
show ffmpeg -loglevel error -y "${strips[@]}" -filter_complex vstack=3 "$out/walker.png"

say "3. A point mass: random motion, then training"
rm -rf "$out/point_mass" "$out/point_mass.h5"
show "$bfm" collect point_mass --hold 20 --steps 400k -o "$out/point_mass.h5"
# B sees only the position (0:2); one transition, and so gamma, is over 20 control steps of one action
show "$bfm" train "$out/point_mass.h5" --goal 0:2 --stride 20 --gamma 0.95 --z-mix 1 --algo fb \
  --d 32 --hidden 64 --feat 64 --b-hidden 64 --batch 256 --lr 5e-4 --ortho 10 --device cpu \
  --threads 1 --steps "${TRAIN:-4000}" -o "$out/point_mass"

say "4. The point mass moves to goals"
PYTHONPATH=python show .venv/bin/python examples/goals.py "$out/point_mass/model.safetensors" \
  "${STEPS:-500}"

say "Done in $SECONDS s. Look at $out/walker.png, then try a reward of your own:"
cat <<END
  $bfm names walker
  $bfm play $walker --reward 'upright * (speed > 3)' --es 32 -o film.mp4
  $bfm play $out/point_mass/model.safetensors --goal 'x = 0.2, y = -0.1' -o goal.png
docs/tutorial.md goes from data to a film, docs/rewards.md is the language of rewards.

Or type rewards in a browser, and change them while the robot moves:
  $bfm serve --open
END
