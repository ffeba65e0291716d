#!/bin/sh
# Looks at a machine's data disks, makes them usable, or lets go of them. Run as root.
# A disk is found by its serial, never by its place. Only a blank one is formatted.
#
# usage: disks.sh look|make [SERIAL FILESYSTEM PATH]...
#        disks.sh free SERIAL...
# look prints a line for each disk: SERIAL absent, or
# SERIAL present TYPE SOURCE-OF-PATH kept|lost grown|small, with - for what is not there.
set -eu

verb=$1
shift

device() { echo "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_$1"; }

line() { echo "$1 $2 $3 defaults,nofail,discard 0 2"; }

# kept: will it be mounted there at the next boot? cloud-init of an earlier first boot
# wrote such lines with tabs.
kept() {
	if grep -Eq "^${1}[[:space:]]+${2}[[:space:]]" /etc/fstab; then echo kept; else echo lost; fi
}

# A file system may end some blocks before its disk does; what was added to a disk is
# more than that.
grown() {
	blocks=$(blkid -p -o value -s FSLASTBLOCK "$1" || true)
	size=$(blkid -p -o value -s FSBLOCKSIZE "$1" || true)
	if [ -z "$blocks" ] || [ -z "$size" ]; then
		echo grown # this blkid does not tell
	elif [ $((blocks * size)) -lt $(($(blockdev --getsize64 "$1") - 67108864)) ]; then
		echo small
	else
		echo grown
	fi
}

look() {
	dev=$(device "$1")
	if [ ! -e "$dev" ]; then
		echo "$1 absent"
		return
	fi
	type=$(blkid -p -o value -s TYPE "$dev" || true)
	source=$(findmnt -n -o SOURCE "$3" || true)
	if [ -n "$source" ] && [ "$(readlink -f "$dev")" = "$(readlink -f "$source")" ]; then source=here; fi
	size=grown
	if [ -n "$type" ]; then size=$(grown "$dev"); fi
	echo "$1 present ${type:--} ${source:--} $(kept "$dev" "$3") $size"
}

make() {
	dev=$(device "$1")
	type=$(blkid -p -o value -s TYPE "$dev" || true)
	if [ -z "$type" ]; then
		# blkid is also silent about what it does not know: zeros alone are blank.
		if ! head -c 1048576 "$dev" | tr -d '\0' | head -c 1 | wc -c | grep -q '^ *0$'; then
			echo "disk $1 has something on it that is no file system: it is not formatted; wipe it with wipefs -a $dev if it is to be used" >&2
			exit 1
		fi
		"mkfs.$2" "$dev"
	fi
	mkdir -p "$3"
	if [ "$(kept "$dev" "$3")" = lost ]; then line "$dev" "$3" "$2" >>/etc/fstab; fi
	if [ -z "$(findmnt -n -o SOURCE "$3" || true)" ]; then mount "$dev" "$3"; fi
	if [ "$(grown "$dev")" = small ]; then
		case $type in
		xfs) xfs_growfs "$3" ;;
		*) resize2fs "$dev" ;;
		esac
	fi
}

free() {
	dev=$(device "$1")
	if [ -e "$dev" ]; then
		at=$(findmnt -n -o TARGET "$(readlink -f "$dev")" || true)
		if [ -n "$at" ]; then umount "$at"; fi
	fi
	if grep -Eq "^${dev}[[:space:]]" /etc/fstab; then
		grep -Ev "^${dev}[[:space:]]" /etc/fstab >/etc/fstab.new || true
		mv /etc/fstab.new /etc/fstab
	fi
}

while [ $# -gt 0 ]; do
	"$verb" "$@"
	if [ "$verb" = free ]; then shift; else shift 3; fi
done
