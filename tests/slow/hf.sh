#!/bin/sh
# Twenty architectures of transformers, tiny, from their configs and without network: exported, compared with torch, trained, proved, verified (hf.py).
# The Python environment (5 GB) stays in build/hf-env. With --accept the table of tests/models/README.md is written:
#
#   sh tests/slow/hf.sh build/release --accept
set -eu
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/../../examples/hf/environment.sh" build/hf-env
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_torch
# The README's own model, exported by a PyTorch that has torch.export.
build/hf-env/bin/python -W ignore "$here/../cli/readme_model.py" --bin "$build/bin" --python build/hf-env/bin
HF_HUB_OFFLINE=1 exec build/hf-env/bin/python -W ignore "$here/hf.py" --bin "$build/bin" --folder "$build/hf" "$@"
