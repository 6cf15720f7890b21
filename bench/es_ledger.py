"""What evaluation-based sampling with 32 actions changed in the runs of the ledger.

    .venv/bin/python bench/es_ledger.py [results/ledger.jsonl]

For every domain, kind of data and actor: runs, return of the policy's mean and with ES (means over all
tasks), their difference ± its standard deviation over the runs, and the smallest difference.
"""
import collections
import json
import sys

import numpy as np

runs = collections.defaultdict(dict)
with open(sys.argv[1] if len(sys.argv) > 1 else "results/ledger.jsonl") as file:
  for line in map(json.loads, file):
    key = (*line["run"].split()[:3], line["run"], line["more"], line["steps"], line["seed"],
           json.dumps(line.get("data")), line["commit"])
    if line["returns"]:
      runs[key][line["es"]] = np.mean(list(line["returns"].values()))
found = collections.defaultdict(list)
for (domain, data, algo, *_), by_es in runs.items():
  if {0, 32} <= set(by_es):
    found[domain, data, "weighted" if "aw" in algo else "TD3"].append((by_es[0], by_es[32]))
for key, pairs in sorted(found.items()):
  mean, es = np.array(pairs).T
  gain = es - mean
  spread = gain.std(ddof=1) if len(gain) > 1 else float("nan")
  print(f"{' '.join(key):40} {len(pairs):3d} {mean.mean():5.0f} {es.mean():5.0f} "
        f"{gain.mean():5.0f} ± {spread:3.0f} {gain.min():5.0f}")
