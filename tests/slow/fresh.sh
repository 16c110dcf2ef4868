#!/bin/sh
# README's commands on a fresh Debian 12: debootstrap makes a minimal root in build/fresh, the committed files are cloned into it, and the commands run
# there as root, with nothing that this machine has installed. Needs root, debootstrap (installed if it is not there), and registries for Debian and PyPI.
#
#   sh tests/run.sh --slow fresh         both commands, and after the first the five minutes; COMMANDS="quickstart walk" or "tests" runs some of
#                                        them, MIRROR names another archive
#
# The root stays when it is done, for a look; the next call begins anew.
set -eu
cd "$(dirname "$0")/../.."
. tests/support/debian_root.sh
root=$PWD/build/fresh
make_root "$root" git,ca-certificates
git clone -q . "$root/dgx"
for command in ${COMMANDS:-quickstart walk tests}; do
  case "$command" in
    quickstart) enter_root "$root" "cd /dgx && sh examples/quickstart.sh" ;;
    walk) enter_root "$root" "cd /dgx && /usr/bin/python3 tests/cli/readme.py --bin build/release/bin" ;;
    tests) enter_root "$root" "cd /dgx && sh tests/run.sh" ;;
    *) echo "tests/slow/fresh.sh: COMMANDS are quickstart, walk and tests" >&2; exit 2 ;;
  esac
done
