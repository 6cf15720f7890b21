"""Sum the times of kernels by name, from Nsight Compute's CSV on standard input.

ncu --graph-profiling node --clock-control none --metrics gpu__time_duration.sum --csv … | kernels.py
Each kernel was timed alone; side by side they take less.
"""
import csv
import re
import sys


def main():
  lines = [line for line in sys.stdin if line.startswith('"')]
  total = {}
  for row in csv.DictReader(lines):
    try:
      value = float(row["Metric Value"].replace(",", ""))
    except ValueError:  # the row of units
      continue
    unit = {"ns": 1e-3, "us": 1, "ms": 1e3}[row["Metric Unit"].replace("nsecond", "ns")
                                            .replace("usecond", "us").replace("msecond", "ms")]
    name = re.sub(r"[<(].*", "", row["Kernel Name"]).replace("void ", "")
    count, time = total.get(name, (0, 0))
    total[name] = count + 1, time + value * unit
  for name, (count, time) in sorted(total.items(), key=lambda x: -x[1][1]):
    print(f"{time:9.1f} us {count:5d} x  {name[:80]}")
  print(f"{sum(t for _, t in total.values()):9.1f} us {sum(c for c, _ in total.values()):5d} x  all")


if __name__ == "__main__":
  main()
