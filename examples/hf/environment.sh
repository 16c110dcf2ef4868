#!/bin/sh
# Makes the Python environment of requirements.txt in a folder (5 GB, since PyPI's PyTorch wants CUDA's libraries): environment.sh FOLDER.
# Exits 77 with the reason where PyPI cannot be reached.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
! cmp -s "$here/requirements.txt" "$1/made" || exit 0
rm -rf "$1"
/usr/bin/python3 -m venv --without-pip "$1"
/usr/bin/python3 -m pip --python "$1/bin/python" install -q --no-cache-dir --disable-pip-version-check -r "$here/requirements.txt" 2>"$1/pip.log" || {
  echo "skipped: PyPI did not give the packages of $here/requirements.txt: $(tail -n 1 "$1/pip.log")"
  exit 77
}
cp "$here/requirements.txt" "$1/made"
