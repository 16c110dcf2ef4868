#!/bin/sh
# Tasks do not depend on the libtorch that captures them: an older release captures the same models, and training gives the same states.
# The older libtorch (about 2 GB) stays in BUILD-torch-VERSION/deps.
set -eu
build=$1
version=2.7.1
here=$(cd "$(dirname "$0")/.." && pwd)
older=$build-torch-$version

[ -e "$older/deps/torch/lib/libtorch_cpu.so" ] || {
  mkdir -p "$older"
  /usr/bin/python3 -m pip install -q --no-deps --no-cache-dir --disable-pip-version-check --root-user-action=ignore --target "$older/deps" \
    "torch==$version" nvidia-cuda-runtime-cu12 nvidia-cuda-cupti-cu12
}
cmake --preset release -S "$here/.." -B "$older" "-DDGX_TORCH=$(cd "$older/deps/torch" && pwd)" -DDGX_TESTS=OFF >"$older.log" 2>&1 ||
  { cat "$older.log" >&2; exit 1; }
cmake --build "$older" -j "${JOBS:-$(nproc)}" --target dgx_torch dgx-submit
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target dgx_torch dgx-key dgx-pack dgx-submit dgx-train make_torchscript

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=$(cd "$build" && pwd)/tests/unit/torch/models
new=$(cd "$build" && pwd)/bin
old=$(cd "$older" && pwd)/bin
cd "$work"
/usr/bin/python3 - <<'DATA'
import numpy as np
i, j = np.arange(64)[:, None], np.arange(784)[None, :]
np.save("x.npy", (((i * 37 + j * 101 + i * j * 13) % 997) / 997).astype("<f4"))
np.save("y.npy", (np.arange(64) * 7 % 10).astype("u1"))
DATA
"$new/dgx-pack" npy --x x.npy --y y.npy -o data.h5 -q
"$new/dgx-key" new key >/dev/null

# The last state of 20 steps on the task that this dgx-submit captures.
state_of() { # BIN NAME MODEL OPTIMIZER
  "$1/dgx-submit" --data data.h5 --model "$3" --loss cross-entropy --optimizer "$4" --batch 16 --steps 20 --seed 9 --checkpoint-every 10 \
    --key key.pem -o "$2.json" -q >"$2.log"
  "$new/dgx-train" "$2.json" --data data.h5 -o "$2.run" --json -q | tr ',' '\n' | sed -n 's/.*"state":"\([0-9a-f]*\)".*/\1/p'
}

failed=0
compare() { # NAME MODEL OPTIMIZER
  a=$(state_of "$new" "$1-new" "$2" "$3")
  b=$(state_of "$old" "$1-old" "$2" "$3")
  cmp -s "$1-new.program.jsonl" "$1-old.program.jsonl" && program="the same program" || program="another program"
  if [ -n "$a" ] && [ "$a" = "$b" ]; then
    echo "$1: $program, the same state $a"
  else
    echo "$1: FAILED: $program, states $a and $b" >&2
    failed=1
  fi
}

compare mlp mlp:784-256-128-10 sgd:lr=0.1,momentum=0.9
compare gelu "$models/gelu.pt" adamw:lr=1e-3
compare tanh "$models/tanh.pt" adam:lr=1e-3
exit "$failed"
