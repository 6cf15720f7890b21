# Unpack the archive $1 of `make bundle` (by default the newest in build/) for the scripts in this folder.
# Sets $bundle; $bfm; $work, a folder that the script removes at its end; and $out, which is $OUT or a
# new folder.
archive=${1:-$(ls -t build/*.tar.xz 2>/dev/null | head -1)}
out=${OUT:-$(mktemp -d)}
work=$(mktemp -d)
tar -xJf "$archive" -C "$work" || exit 1
bundle=$work/bundle
bfm=$bundle/bfm

# if the toolkit is not in its usual place, use PyTorch's copy of cuBLASLt
if ldd "$bundle/libbfm_cuda.so" | grep -q 'not found'; then
  lib=$(python3 -c 'import nvidia, os; print(*nvidia.__path__)' 2>/dev/null |
    xargs -I{} find {} -name 'libcublasLt.so.13' 2>/dev/null | head -1)
  export LD_LIBRARY_PATH=$(dirname "$lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
