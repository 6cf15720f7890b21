"""core/rng.h's random numbers in Python: functions of seed, stream, step and index."""
import numpy as np

BATCH, Z_NORMAL, Z_CHOICE, Z_STATE, NOISE_NEXT, NOISE_PI, ES = range(1, 8)  # streams
EXPLORE = 9


def philox(seed, stream, step, index):
  """Philox4x32-10: four words for each index."""
  mask, high = np.uint64(0xffffffff), np.uint64(32)
  c = [index.astype(np.uint64), *(np.full(len(index), x, np.uint64) for x in (stream, step, 0))]
  key = [seed, 0]
  for _ in range(10):
    p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
    c = [q >> high ^ c[1] ^ np.uint64(key[0]), q & mask,
         p >> high ^ c[3] ^ np.uint64(key[1]), p & mask]
    key = [key[0] + 0x9E3779B9 & 0xffffffff, key[1] + 0xBB67AE85 & 0xffffffff]
  return np.stack(c, 1)


def below(seed, stream, step, count, n):
  words = philox(seed, stream, step, np.arange((count + 1) // 2)).reshape(-1, 2)[:count]
  return [(int(high) * n + (int(low) * n >> 32)) >> 32 for high, low in words]


def uniform(seed, stream, step, count):
  words = philox(seed, stream, step, np.arange((count + 3) // 4)).reshape(-1)[:count]
  return (words >> np.uint64(8)).astype(np.float64) * 2**-24 + 2**-25


def normal(seed, stream, step, count):
  a, b = uniform(seed, stream, step, (count + 3) // 4 * 4).reshape(-1, 2).T
  pairs = np.sqrt(-2 * np.log(a)) * [np.cos(2 * np.pi * b), np.sin(2 * np.pi * b)]
  return pairs.T.reshape(-1)[:count]
