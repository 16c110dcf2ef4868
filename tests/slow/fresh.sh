#!/bin/sh
# README's two commands on a fresh Debian 12: debootstrap makes a minimal root in build/fresh, the committed files are cloned into it, and the commands run
# there as root, with nothing that this machine has installed. Needs root, debootstrap (installed if it is not there), and registries for Debian and PyPI.
#
#   sh tests/run.sh --slow fresh         both commands; COMMANDS="quickstart" or "tests" runs one of them, MIRROR names another archive
#
# The root stays when it is done, for a look; the next call begins anew.
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || { echo "tests/slow/fresh.sh: a root is made by root alone" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap >/dev/null
root=$PWD/build/fresh
rm -rf --one-file-system "$root"
mkdir -p "$root"
debootstrap --variant=minbase --include=git,ca-certificates bookworm "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
  { tail -20 "$root.log" >&2; exit 1; }
# What a root needs to reach its registries: names, certificates, and what pip and apt were told of them.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
git clone -q . "$root/dgx"

# In namespaces of its own for mounts, so that /proc and /dev are gone with it.
enter() {
  unshare --mount --fork sh -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmp "$1/tmp"
    exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root JOBS="$2" sh -c "cd /dgx && $3"' enter "$root" "${JOBS:-2}" "$1"
}
for command in ${COMMANDS:-quickstart tests}; do
  case "$command" in
    quickstart) enter "sh examples/quickstart.sh" ;;
    tests) enter "sh tests/run.sh" ;;
    *) echo "tests/slow/fresh.sh: COMMANDS are quickstart and tests" >&2; exit 2 ;;
  esac
done
