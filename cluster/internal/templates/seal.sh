#!/bin/sh
# Makes a machine fit to be cloned: what is true of one machine only is forgotten,
# and made anew at the clone's first boot. Run as root, last of all. What the mirror
# told of its packages stays: it harms nobody.
#
# usage: seal.sh MARK [ROOT]
# MARK is made before anything is forgotten. ROOT is the folder of the machine's
# files, where that is not /.
set -eu

: >"$1"
root=${2:-}

# Forget that there was a first boot, and the identity that came with it. An empty
# machine-id, unlike none, is filled at boot without asking anybody.
cloud-init clean --logs --seed --machine-id
rm -f "$root"/var/lib/dbus/machine-id "$root"/var/lib/systemd/random-seed "$root"/var/lib/systemd/credential.secret
truncate -s 0 "$root"/etc/machine-id "$root"/etc/hostname
rm -f "$root"/etc/ssh/ssh_host_*

# The network: addresses, leases, names of interfaces.
rm -f "$root"/etc/netplan/50-cloud-init.yaml "$root"/etc/udev/rules.d/70-persistent-net.rules
rm -rf "$root"/var/lib/dhcp/* "$root"/var/lib/NetworkManager/* "$root"/run/systemd/netif/leases

# A storage server takes two initiators of one name for one. open-iscsi's own startup
# check makes a new name where this is asked for; without the file it does not start.
if [ -e "$root"/etc/iscsi/initiatorname.iscsi ]; then
	echo GenerateName=yes >"$root"/etc/iscsi/initiatorname.iscsi
fi

# Nobody logs in as root with a password that all clones share.
if [ -e "$root"/etc/shadow ]; then
	sed -i 's/^root:[^:]*:/root:*:/' "$root"/etc/shadow
fi

# What was said and done here is of no interest to a clone.
rm -rf "$root"/var/log/journal "$root"/root/.bash_history "$root"/root/.ssh "$root"/var/tmp/cloud-init
for log in "$root"/var/log/*.log "$root"/var/log/syslog "$root"/var/log/wtmp "$root"/var/log/btmp "$root"/var/log/lastlog; do
	if [ -e "$log" ]; then
		truncate -s 0 "$log"
	fi
done
apt-get clean
sync
