#!/bin/sh
# The Debian packages. Built twice from nothing, in folders of different names, they have the same bytes and name neither folder. In a Debian 12 root
# without a compiler (build/packages-root) they install, do their work, and leave nothing behind when they are removed. Needs root, debootstrap and a
# registry for Debian. Takes about 40 minutes on two cores, nearly all of them for compiling.
#
#   sh tests/run.sh --slow packages                    everything; MIRROR names another archive of Debian
#   PACKAGES=FOLDER sh tests/run.sh --slow packages    packages that were built before: installs, uses and removes them
set -eu
bin=$(cd "$1/bin" && pwd)
cd "$(dirname "$0")/../.."
. tests/support/debian_root.sh
here=$PWD
torch=${DGX_TORCH:-pypi}
fail() { echo "tests/slow/packages.sh: $*" >&2; exit 1; }

# packages SOURCE: builds them in SOURCE/build/package/packages. ccache must not make paths relative, which are in the debug symbols.
packages() {
  export CCACHE_BASEDIR=
  (cd "$1" && cmake --preset package "-DDGX_TORCH=$torch" >build/package.log 2>&1 && cmake --build --preset package -j "${JOBS:-2}" >>build/package.log 2>&1 &&
    cpack --preset package >>build/package.log 2>&1) || { tail -20 "$1/build/package.log" >&2; exit 1; }
}

# compare FOLDER FOLDER: ends the test unless both hold the same packages, byte for byte, and none names a folder of the build.
compare() {
  for file in "$1"/*deb; do
    cmp "$file" "$2/$(basename "$file")" || fail "$(basename "$file") differs from build to build"
    dpkg-deb -x "$file" "$scratch/files"
    ! grep -rlF -e "$here" -e "$scratch" "$scratch/files" || fail "$(basename "$file"): these name a path of the build"
    rm -rf "$scratch/files"
  done
}

sh cmake/bootstrap.sh --packages
made=${PACKAGES:-$here/build/package/packages}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "${PACKAGES:-}" ]; then
  git diff --quiet HEAD || fail "the second build is of the last commit: commit first"
  rm -rf build/package/packages
  packages .
  git clone -q . "$scratch/another"
  mkdir "$scratch/another/build"
  [ ! -e build/deps ] || ln -s "$(cd build/deps && pwd -P)" "$scratch/another/build/deps"
  (umask 077 && CCACHE_DISABLE=1 packages "$scratch/another")
  compare "$made" "$scratch/another/build/package/packages"
  echo "built twice: the same bytes"
fi
ls -l "$made"

root=$here/build/packages-root
make_root "$root" ca-certificates
mkdir "$root/packages" "$root/task"
cp "$made"/*.deb "$root/packages"
cp -r examples/library "$root/task/library"
# A task, its proof, a dispute about a false one, and a dataset that is large enough to be compressed.
(
  cd "$root/task"
  PATH=$bin:$PATH
  export HOME="$scratch"
  sh "$here/tests/cli/tiny_task.sh" 1000000
  dgx-key new cheat; dgx-key new referee
  dgx-prove task.json run --key solver.pem -o proof.json
  sh "$here/tests/cli/dispute.sh" step=17,op=24,element=5,bit=12
  /usr/bin/python3 -c 'import numpy as np; np.save("x.npy", np.ones((1000, 100), "<f4")); np.save("y.npy", np.zeros(1000, "<i8"))'
  dgx-pack npy --x x.npy --y y.npy -o large.h5
) >"$scratch/made" || { cat "$scratch/made" >&2; exit 1; }

# in_root COMMAND: in the root, in the folder of the task; /mnt is where libtorch is.
in_root() { enter_root "$root" "set -eu; cd /task; $1" "$([ ! -e build/deps ] || (cd build/deps && pwd -P))"; }
get="DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0"
in_root "$get update; $get install /packages/dgx_*.deb >/dev/null
  ! command -v cc c++ gcc g++ clang || exit 1
  for program in /usr/bin/dgx-*; do \$program --version | sed -n 2p; done | sort | uniq -c
  dgx-verify task.json proof.json --from run --data data.h5 --all --key verifier.pem -o accepted.json
  dgx-referee dispute.jsonl --key referee.pem -o ruled.json -q || [ \$? = 1 ]
  cmp ruled.json ruling.json
  /usr/libexec/dgx-h5 --confinement
  test -s /usr/share/man/man7/dgx.7 && test -s /usr/share/bash-completion/completions/dgx-train"
in_root "$get install hdf5-tools >/dev/null; ! h5dump -d x -c 1,2 large.h5 2>&1 | grep -F '(0,0): 1, 1' || exit 1
  $get install /packages/dgx-hdf5-plugin_*.deb >/dev/null; h5dump -d x -c 1,2 large.h5 | grep -F '(0,0): 1, 1'"
if [ -e "$root"/packages/dgx-cuda_*.deb ]; then
  in_root "$get install /packages/dgx-cuda_*.deb >/dev/null
    dgx-train task.json --data data.h5 -o none --device cuda 2>&1 | grep 'NVIDIA driver'"
fi
if [ -e "$root"/packages/dgx-torch_*.deb ]; then
  in_root "$get install /packages/dgx-torch_*.deb >/dev/null
    submit() { dgx-submit --data data.h5 --model mlp:4-8-3 --loss cross-entropy --optimizer sgd:lr=0.1,momentum=0.9 --batch 8 --steps 40 \
      --checkpoint-every 4 --seed 7 --policy policy.json --key submitter.pem -o again.json -q; }
    submit 2>&1 | grep 'looked for in /usr/lib/dgx/torch'
    ln -s /mnt/torch /usr/lib/dgx/torch; submit; rm /usr/lib/dgx/torch
    cmp again.program.jsonl task.program.jsonl"
fi
in_root "$get install g++ cmake make /packages/libdgx-dev_*.deb >/dev/null
  cmake -S library -B check >/dev/null; cmake --build check >/dev/null
  check/check proof task.json proof.json run data.h5 verifier.pem own.json
  check/check dispute dispute.jsonl || [ \$? = 1 ]"
in_root "dpkg-query -W -f '\${Package} \${Installed-Size} kB: \${Depends}\n' 'dgx*' 'libdgx*'
  dpkg-query -W -f '\${Installed-Size}\n' 'dgx*' | awk '{ kibibytes += \$1 } END { exit kibibytes * 1024 > 60000000 }'
  $get purge \$(dpkg-query -W -f '\${Package} ' 'dgx*' 'libdgx*') >/dev/null
  left=\$(find / -xdev \( -path /task -o -path /packages -o -path /root \) -prune -o -name '*dgx*' -print); [ -z \"\$left\" ] || { echo \"left: \$left\"; exit 1; }"
echo "the packages install, work and go"
