#!/usr/bin/env bash
# What bfm is, in a minute on two cores: the walker that ships with it does what it is told, and
# a point mass is trained from nothing and goes where it is told. "make demo" installs and builds
# first.
#   demo.sh [folder]   for its files; those of an earlier demo are replaced
# Tests make it short: EPISODES, STEPS (of control), TRAIN (steps of training).
set -Eeuo pipefail
cd "$(dirname "$0")/.."

bfm=${BFM:-build/bfm}
out=${1:-runs/demo}
walker=models/walker.safetensors

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

# a command as one would type it, then what it does
show() {
  local word line='$'
  for word; do
    case $word in *[!A-Za-z0-9_./:=-]*) line+=" '$word'" ;; *) line+=" $word" ;; esac
  done
  printf '%s\n' "$line"
  "$@"
}

trap 'echo "demo: the last command failed, so it ends here" >&2; exit 1' ERR

[ -x "$bfm" ] || { echo "demo: $bfm is not there; run \"make demo\"" >&2; exit 1; }
mkdir -p "$out"

say "1. A walker, told what to do by rewards in words"
# it was trained without rewards, on the motion of learners that stand, walk, run and spin
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
# B sees the position alone (0:2); a transition is 20 control steps of one action, gamma theirs
show "$bfm" train "$out/point_mass.h5" --goal 0:2 --stride 20 --gamma 0.95 --z-mix 1 --algo fb \
  --d 32 --hidden 64 --feat 64 --b-hidden 64 --batch 256 --lr 5e-4 --ortho 10 --device cpu \
  --threads 1 --steps "${TRAIN:-4000}" -o "$out/point_mass"

say "4. Told where to go"
PYTHONPATH=python show .venv/bin/python examples/goals.py "$out/point_mass/model.safetensors" \
  "${STEPS:-500}"

say "Done in $SECONDS s. Look at $out/walker.png, then try a reward of your own:"
cat <<END
  $bfm names walker
  $bfm play $walker --reward 'upright * (speed > 3)' --es 32 -o film.mp4
  $bfm play $out/point_mass/model.safetensors --goal 'x = 0.2, y = -0.1' -o goal.png
docs/tutorial.md goes from data to a film, docs/rewards.md is the language of rewards.
END
