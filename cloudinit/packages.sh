#!/bin/sh
# Installs those of the packages that this machine lacks, as NAME or NAME=VERSION.
# Where none is missing no mirror is asked.
#
# usage: install-missing-packages PACKAGE...
set -eu

missing=
for package in "$@"; do
    # shellcheck disable=SC2016 # the name in braces is dpkg-query's own
    status=$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}" 2>/dev/null || true)
    if [ "$status" != installed ]; then
        missing="$missing $package"
    fi
done
if [ -n "$missing" ]; then
    # For the lock of the lists, which Ubuntu's own timer takes after a boot, apt-get does not wait.
    tries=24
    until apt-get --quiet update; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ]; then exit 1; fi
        sleep 5
    done
    # shellcheck disable=SC2086 # one word for each package
    env DEBIAN_FRONTEND=noninteractive apt-get --quiet --assume-yes -o DPkg::Lock::Timeout=300 install $missing
fi
# Its unit waits for a device that may have been there before it.
for package in "$@"; do
    if [ "$package" = qemu-guest-agent ]; then
        systemctl start qemu-guest-agent
    fi
done
