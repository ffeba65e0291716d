#!/bin/sh
# Stands in for Proxmox's program, which Debian has not: what it says of one ESP, and
# what its hook zz-proxmox-boot makes of /etc/kernel/cmdline.
set -e
esp=/var/tmp/esp
case $1 in
status)
	echo "System currently booted with uefi"
	echo "936E-9A3F is configured with: uefi (versions: $(uname -r))"
	;;
refresh)
	IFS= read -r line </etc/kernel/cmdline || [ -n "$line" ]
	case $line in
	*root=*) ;;
	*)
		echo "No root= parameter in /etc/kernel/cmdline found!" >&2
		exit 1
		;;
	esac
	mkdir -p "$esp/loader/entries"
	printf 'title    Proxmox Virtual Environment\noptions  %s\n' "$line" >"$esp/loader/entries/proxmox.conf"
	;;
*)
	exit 1
	;;
esac
