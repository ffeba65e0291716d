#!/bin/sh
# Makes a machine fit to be cloned: what is true of one machine only is forgotten,
# and made anew at the clone's first boot. Run as root, last of all.
#
# usage: seal.sh MARK
set -eu

: >"$1"
cloud-init clean --logs --seed --machine-id
rm -f /etc/ssh/ssh_host_*
rm -f /etc/netplan/50-cloud-init.yaml
rm -f /var/lib/systemd/random-seed /var/lib/dbus/machine-id
truncate -s 0 /etc/machine-id
truncate -s 0 /etc/hostname
apt-get clean
sync
