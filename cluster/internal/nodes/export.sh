#!/bin/sh
# Looks at what an NFS server exports, or sees that it exports what it should. Run as root.
#
# usage: export.sh look
#        export.sh make FOLDER... <EXPORTS
# look prints the state of the server, @@ file, our file of exports, @@ table, and what
# the server really exports. make puts its input into our file.
set -eu

file=/etc/exports.d/homelab.exports
verb=$1
shift

case $verb in
look)
	systemctl is-active nfs-server || true
	echo "@@ file"
	if [ -f "$file" ]; then cat "$file"; fi
	echo "@@ table"
	if command -v exportfs >/dev/null; then exportfs -v; fi
	;;
make)
	if ! command -v exportfs >/dev/null; then
		echo "the package nfs-kernel-server is not installed: apt-get install nfs-kernel-server, then run it again" >&2
		exit 1
	fi
	mkdir -p /etc/exports.d "$@"
	cat >"$file.new"
	mv "$file.new" "$file"
	systemctl enable --now nfs-server
	exportfs -ra
	;;
esac
