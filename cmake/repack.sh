#!/bin/sh
# Makes CPack's Debian packages anew, so that the umask and the build's folder leave no trace: CPack takes the modes of folders from the one, and names files
# of debug symbols by the other. Installed-Size becomes that of the files; CPack counts every link as the file that it leads to.
#
#   sh repack.sh PACKAGE …
set -eu
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for package in "$@"; do
  dpkg-deb --raw-extract "$package" "$scratch/package"
  (
    cd "$scratch/package"
    chmod -R u=rwX,go=rX .
    find usr -type f | LC_ALL=C sort | xargs -d '\n' md5sum >DEBIAN/md5sums
    size=$(find usr -type f -printf '%s\n' | awk '{ bytes += $1 } END { print int((bytes + 1023) / 1024) }')
    sed -i "s/^Installed-Size: .*/Installed-Size: $size/" DEBIAN/control
  )
  dpkg-deb --root-owner-group -Zxz --build "$scratch/package" "$package" >/dev/null
  rm -rf "$scratch/package"
done
