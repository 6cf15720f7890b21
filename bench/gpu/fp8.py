"""Measure whether products in float8 would pay.

Times the products of a step's wide layers in bfloat16 and in float8 (e4m3, one scale per matrix), and what
float8 needs in addition: the largest absolute value, the cast, and for the gradients by the weights a
transposed copy, because the H200 multiplies float8 in one layout only (rows by rows).

  python3 bench/gpu/fp8.py    needs PyTorch and a GPU of compute capability 8.9 or later
"""
import torch

REPEAT = 20


def microseconds(work):
  """The time of one call, measured in a CUDA graph of REPEAT calls."""
  side = torch.cuda.Stream()
  with torch.cuda.stream(side):
    for _ in range(3):
      work()
  torch.cuda.synchronize()
  graph = torch.cuda.CUDAGraph()
  with torch.cuda.graph(graph):
    for _ in range(REPEAT):
      work()
  graph.replay()
  begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
  best = float("inf")
  for _ in range(10):
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    best = min(best, begin.elapsed_time(end) * 1e3 / REPEAT)
  return best


def main():
  F8, largest = torch.float8_e4m3fn, 448.0
  one = torch.ones((), device="cuda")
  print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, microseconds")
  print("rows  in   out  | bf16  float8 | largest+cast, two operands   the same transposed")
  for rows, k, n in ((1024, 1024, 1024), (2048, 1024, 1024), (4096, 1024, 1024), (10240, 1024, 1024),
                     (2048, 512, 1024), (2048, 1024, 512)):
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    x8, w8 = x.to(F8), w.to(F8)

    @torch.compile
    def quantize(a):
      return (a * (largest / a.abs().amax().float()).to(a.dtype)).to(F8)

    @torch.compile
    def transposed(a):
      return (a.t() * (largest / a.abs().amax().float()).to(a.dtype)).to(F8).contiguous()

    bf16 = microseconds(lambda: x @ w.t())
    fp8 = microseconds(lambda: torch._scaled_mm(x8, w8.t(), scale_a=one, scale_b=one,
                                                out_dtype=torch.bfloat16, use_fast_accum=True))
    cast = microseconds(lambda: (quantize(x), quantize(w)))
    turn = microseconds(lambda: (transposed(x), transposed(w)))
    print(f"{rows:5d} {k:4d} {n:4d}  | {bf16:5.1f} {fp8:6.1f} | {cast:8.1f} {turn:28.1f}", flush=True)


if __name__ == "__main__":
  main()
