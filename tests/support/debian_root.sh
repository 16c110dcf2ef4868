# A minimal Debian 12 to run commands in, with nothing that this machine has installed. For sh; needs root, debootstrap (installed if it is not there), and a
# registry for Debian (MIRROR names another archive).

# make_root FOLDER PACKAGES: makes it anew, with these packages (a,b) and those that none can do without.
make_root() {
  [ "$(id -u)" -eq 0 ] || { echo "$0: a root is made by root alone" >&2; exit 1; }
  command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap >/dev/null
  rm -rf --one-file-system "$1"
  mkdir -p "$1"
  debootstrap --variant=minbase --include="$2" bookworm "$1" "${MIRROR:-http://deb.debian.org/debian}" >"$1.log" 2>&1 || { tail -20 "$1.log" >&2; exit 1; }
  # The settings by which the root reaches its registries: names, certificates, and pip's.
  cp /etc/resolv.conf "$1/etc/resolv.conf"
  cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$1/etc/pip.conf"
}

# enter_root FOLDER COMMAND [SHARED]: runs a command of sh in it as root; /mnt shows the folder SHARED, read-only. Its mounts are in a namespace of their
# own, and gone when it ends.
enter_root() {
  unshare --mount --fork sh -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmp "$1/tmp" || exit 1
    [ -z "$4" ] || mount --bind -o ro "$4" "$1/mnt" || exit 1
    exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root JOBS="$2" sh -c "$3"' enter "$1" "${JOBS:-2}" "$2" "${3:-}"
}
