#!/bin/sh
# Eight models exported by torch 2.9, 2.10 and 2.11 give one program (export.py); archives of torch 2.8 and 2.5 are refused with what mends them.
# Each release (5 GB) is installed into build/export-env, exports, and makes room for the next; the archives stay in BUILD/export.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_torch
mkdir -p "$build/export"
for version in 2.11.0 2.10.0 2.9.1 2.8.0 2.5.1; do
  [ ! -e "$build/export/$version/made" ] || continue
  rm -rf build/export-env
  /usr/bin/python3 -m venv build/export-env
  build/export-env/bin/pip install -q --no-cache-dir --disable-pip-version-check "torch==$version" numpy ||
    { echo "skipped: PyPI did not give torch $version"; exit 77; }
  build/export-env/bin/python -W ignore "$here/export_models.py" "$build/export/$version"
done
rm -rf build/export-env
exec /usr/bin/python3 "$here/export.py" --bin "$build/bin" --folder "$build/export"
