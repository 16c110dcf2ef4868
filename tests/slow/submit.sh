#!/bin/sh
# GPT-2 (124 million parameters) submitted in at most 60 s, with at most 4 times its weights in memory, on two cores; an archive of 1 GiB read within 1.2
# times what reading its bytes takes (submit.py). The Python environment (5 GB) stays in build/hf-env; without it, GPT-2 is written without torch.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_torch dump_capture
python=
! sh "$here/../../examples/hf/environment.sh" build/hf-env || python=build/hf-env/bin/python
exec taskset -c "${CPUS:-0,1}" /usr/bin/python3 "$here/submit.py" --bin "$build/bin" --build "$build" --folder "$build" ${python:+--python "$python"}
