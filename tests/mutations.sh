#!/usr/bin/env bash
# Flip the sign of one loss at a time, in a copy of the source, and see that every algorithm that uses
# the loss no longer learns (tests/unit/test_learning). Takes some minutes; run it after changes to the
# losses or to the test.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Makefile include src tests "$copy"
ln -s "$PWD/.deps" "$copy/.deps"

# loss, algorithms that use it, text in src/ops/cpu_losses.c and what takes its place (both signs of fb)
mutations=(
  'fb|fb fb-aw fb-are fb-aware|float pairs = 1.0f / ((float)I * J * (J - 1)), rows = 1.0f / ((float)I * J);\n  float own = m|float pairs = -1.0f / ((float)I * J * (J - 1)), rows = -1.0f / ((float)I * J);\n  float own = m'
  'ortho|fb fb-aw fb-are fb-aware lap lap-aw|scale = 2 * x->scale|scale = -2 * x->scale'
  'aw|fb-aw fb-aware lap-aw|float scale = 1 / (x->sigma|float scale = -1 / (x->sigma'
  'td3|fb fb-are lap|? -1.0f / x->rows|? 1.0f / x->rows'
  'lap|lap lap-aw|float scale = 2.0f / x->rows|float scale = -2.0f / x->rows'
  'psi|lap lap-aw|dpsi[k] = e / x->rows|dpsi[k] = -e / x->rows'
)

bad=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r loss algorithms from to <<<"$mutation"
  cp src/ops/cpu_losses.c "$copy/src/ops/cpu_losses.c"
  FROM=$(printf '%b' "$from") TO=$(printf '%b' "$to") python3 - "$copy/src/ops/cpu_losses.c" <<'END'
import os, sys
path, text = sys.argv[1], open(sys.argv[1]).read()
assert text.count(os.environ["FROM"]) == 1, f"not found once: {os.environ['FROM']}"
open(path, "w").write(text.replace(os.environ["FROM"], os.environ["TO"]))
END
  make --no-print-directory -s -C "$copy" build/tests/unit/test_learning >/dev/null
  "$copy/build/tests/unit/test_learning" >"$copy/log" 2>&1 || true
  for algorithm in $algorithms; do
    if grep -q "\[       OK \] learns with \"algo\": \"$algorithm\"" "$copy/log"; then
      echo "$loss flipped: $algorithm still learns"
      bad=1
    else
      echo "$loss flipped: $algorithm no longer learns"
    fi
  done
done
exit $bad
