#!/bin/sh
# Looks at a machine's data disks, makes them usable, or lets go of them. Run as root.
# A disk is found by its serial, never by its place and never by a link below
# /dev/disk/by-id: Proxmox VE 8 puts the serial into that name, Proxmox VE 9 the slot,
# for machine types from 10.0 on. Only a blank disk is formatted.
#
# usage: disks.sh look|make [SERIAL FILESYSTEM PATH]...
#        disks.sh free SERIAL...
# FILESYSTEM - is an existing disk: it is mounted as it is, and never formatted or grown.
# look prints a line for each disk: SERIAL absent, or
# SERIAL present TYPE SOURCE-OF-PATH kept|lost grown|small, with - for what is not there.
set -eu

verb=$1
shift
fstab=/etc/fstab

# The machine boots without a data disk, so that one can see what is wrong (nofail).
# K3s does not start without it, or pods would write to the system's disk: nofail alone
# orders nothing, so the mount says itself who waits for it and needs it. A mount that
# does is mounted with the others only if it says that too. Source: systemd.mount(5), fstab.
options=defaults,nofail,discard,x-systemd.device-timeout=5min,x-systemd.wanted-by=local-fs.target
for unit in k3s.service k3s-agent.service; do
	options=$options,x-systemd.before=$unit,x-systemd.required-by=$unit
done

# device prints where the disk with a serial is, or nothing.
device() {
	found=$(lsblk --nodeps --noheadings --paths --output NAME,SERIAL | awk "\$2 == \"$1\" {print \$1}")
	case $found in
	*[[:space:]]*)
		echo "more than one disk has the serial $1: $(echo "$found" | xargs); give each a serial of its own" >&2
		exit 1
		;;
	esac
	echo "$found"
}

# mine matches the lines of fstab that are about a disk, which has this serial and UUID,
# or - for none: ours say so, and those before them named a link.
mine() {
	echo "^(UUID=$2|/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_$1)[[:space:]]|[[:space:],]x-homelab.disk=$1([[:space:],]|\$)"
}

uuid() {
	id=$(blkid -p -o value -s UUID "$1" || true)
	echo "${id:--}"
}

# kept: will it be mounted there at the next boot, and before K3s?
kept() {
	if grep -E "^UUID=$2[[:space:]]+$3[[:space:]]" $fstab | grep "x-homelab.disk=$1[[:space:],]" | grep -q "x-systemd.required-by=k3s.service"; then
		echo kept
	else
		echo lost
	fi
}

# grown: does the file system reach the disk's end? It may stop some blocks before; what
# was added to a disk is more than that. XFS is asked while it is mounted: what it has
# written, others read from the disk only when the kernel forgets what it had read before.
grown() {
	case $2 in
	xfs) sizes=$(xfs_info "$3" | sed -n 's/^data .*bsize=\([0-9]*\) *blocks=\([0-9]*\),.*/\1 \2/p') ;;
	*) sizes="$(blkid -p -o value -s FSBLOCKSIZE "$1" || true) $(blkid -p -o value -s FSLASTBLOCK "$1" || true)" ;;
	esac
	size=${sizes% *}
	blocks=${sizes#* }
	if [ -z "$size" ] || [ -z "$blocks" ]; then
		echo grown # this blkid does not tell
	elif [ $((blocks * size)) -lt $(($(blockdev --getsize64 "$1") - 67108864)) ]; then
		echo small
	else
		echo grown
	fi
}

look() {
	dev=$(device "$1")
	if [ -z "$dev" ]; then
		echo "$1 absent"
		return
	fi
	type=$(blkid -p -o value -s TYPE "$dev" || true)
	source=$(findmnt -n -o SOURCE "$3" || true)
	size=grown
	if [ -n "$source" ] && [ "$dev" = "$(readlink -f "$source")" ]; then
		source=here
		if [ "$2" != - ]; then size=$(grown "$dev" "$type" "$3"); fi
	fi
	echo "$1 present ${type:--} ${source:--} $(kept "$1" "$(uuid "$dev")" "$3") $size"
}

make() {
	dev=$(device "$1")
	type=$(blkid -p -o value -s TYPE "$dev" || true)
	if [ -z "$type" ] && [ "$2" = - ]; then
		echo "disk $1 is an existing volume and has no file system of its own (lsblk -f $dev shows what it has): it is not formatted; remove mount from it in the file, and mount in the guest what is on it" >&2
		exit 1
	fi
	if [ -z "$type" ]; then
		# blkid is also silent about what it does not know: zeros alone are blank.
		if ! head -c 1048576 "$dev" | tr -d '\0' | head -c 1 | wc -c | grep -q '^ *0$'; then
			echo "disk $1 has something on it that is no file system: it is not formatted; wipe it with wipefs -a $dev if it is to be used" >&2
			exit 1
		fi
		"mkfs.$2" "$dev"
		type=$2
		udevadm trigger --settle "$dev" # systemd unmounts what udev has not yet named
	fi
	mkdir -p "$3"
	id=$(uuid "$dev")
	if [ "$(kept "$1" "$id" "$3")" = lost ]; then keep "$1" "$id" "$3" "$type"; fi
	if [ -z "$(findmnt -n -o SOURCE "$3" || true)" ]; then mount "$3"; fi
	if [ "$2" != - ] && [ "$(grown "$dev" "$type" "$3")" = small ]; then
		case $type in
		xfs) xfs_growfs "$3" ;;
		*) resize2fs "$dev" ;;
		esac
	fi
}

# keep writes the disk's line, in the place of any that it had.
keep() {
	if [ "$2" = - ]; then
		echo "disk $1 has a file system without a UUID: it cannot be mounted for good; give it one, e.g. with tune2fs -U random" >&2
		exit 1
	fi
	grep -Ev "$(mine "$1" "$2")" $fstab >$fstab.new || true
	if grep -E "^[^#[:space:]]+[[:space:]]+$3[[:space:]]" $fstab.new >&2; then
		rm $fstab.new
		echo "$fstab mounts something else on $3, where disk $1 should be: take that line out, or write another mount" >&2
		exit 1
	fi
	echo "UUID=$2 $3 $4 $options,x-homelab.disk=$1 0 2" >>$fstab.new
	replace
}

replace() {
	chmod 644 $fstab.new
	mv $fstab.new $fstab
	systemctl daemon-reload # which makes units of the lines
}

free() {
	dev=$(device "$1")
	id=-
	if [ -n "$dev" ]; then
		at=$(findmnt -n -o TARGET "$dev" || true)
		if [ -n "$at" ]; then umount "$at"; fi
		id=$(uuid "$dev")
	fi
	if grep -Eq "$(mine "$1" "$id")" $fstab; then
		grep -Ev "$(mine "$1" "$id")" $fstab >$fstab.new || true
		replace
	fi
}

while [ $# -gt 0 ]; do
	"$verb" "$@"
	if [ "$verb" = free ]; then shift; else shift 3; fi
done
