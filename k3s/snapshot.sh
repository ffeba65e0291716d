#!/bin/sh
# Saves a snapshot of etcd on this server, and prints where it is, its size in bytes and its
# SHA-256, a line each.
#
# usage: snapshot.sh PREFIX FOLDER
#
# exit status: 1 K3s took none; standard error has what it said
set -u

folder=$2
said=$(/usr/local/bin/k3s etcd-snapshot save --name "$1" 2>&1) || {
	printf '%s\n' "$said" >&2
	exit 1
}
# time="…" level=info msg="Snapshot lab-cp1-1764000000 saved."
name=$(printf '%s\n' "$said" | sed -n 's/.*Snapshot \([A-Za-z0-9._-]*\) saved.*/\1/p' | head -n 1)
if [ -z "$name" ] || [ ! -f "$folder/$name" ]; then
	echo "K3s says of no snapshot in $folder that it was saved:" >&2
	printf '%s\n' "$said" >&2
	exit 1
fi
printf '%s\n' "$folder/$name"
stat -c %s "$folder/$name"
sha256sum "$folder/$name"
