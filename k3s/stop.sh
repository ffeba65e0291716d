#!/bin/sh
# Stops K3s on a server for a restore: it does not start again, with the machine either, until
# the restore is over. Pods keep running. What it starts from is moved away, so that no server
# can come back with the state of before. May be run again after it was cut short.
#
# usage: stop.sh WHAT
#
# WHAT says in the mark what is being restored.
set -eu

etc=/etc/rancher/k3s
server=/var/lib/rancher/k3s/server
aside=$server/homelab-before-restore

mkdir -p "$etc" "$server"
if [ ! -f "$etc/homelab.restoring" ]; then
	rm -rf "$aside" # of an earlier restore
	printf '%s\n' "$1" >"$etc/homelab.restoring"
fi
if [ -f /etc/systemd/system/k3s.service ]; then
	systemctl disable --now k3s
fi
for part in db/etcd tls cred token agent-token node-token; do
	if [ ! -e "$server/$part" ] && [ ! -L "$server/$part" ]; then
		continue
	fi
	if [ -e "$aside/$part" ] || [ -L "$aside/$part" ]; then
		rm -rf "${server:?}/$part" # of a restore that was cut short
	else
		mkdir -p "$aside/db"
		mv "$server/$part" "$aside/$part"
	fi
done
chmod 700 "$aside" 2>/dev/null || true
