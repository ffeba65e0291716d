#!/bin/sh
# Prints all that host:prep wants to know about a Proxmox VE host, in one go, as
# sections that begin with a line "@@ NAME". It changes nothing; for its answer
# proxmox-boot-tool mounts the ESPs, in a mount namespace of its own.
#
# usage: observe.sh
set -u

section() { printf '\n@@ %s\n' "$1"; }

# The last part of a link's target; nothing where there is no link.
target() {
	at=$(readlink "$1" 2>/dev/null)
	printf '%s' "${at##*/}"
}

# One file with mode, time and place, links followed.
file() {
	real=$(readlink -f "$1")
	if [ -f "$real" ]; then
		section "file $(stat -c '%a %Y' "$real") $real"
		cat "$real"
	fi
}

section version
pveversion 2>/dev/null
section hostname
hostname
section kernel
uname -r
section cpu
grep -m 1 vendor_id /proc/cpuinfo
section cmdline
cat /proc/cmdline
section booted
grep btime /proc/stat
section bootid
cat /proc/sys/kernel/random/boot_id

section firmware
if [ -d /sys/firmware/efi ]; then echo efi; else echo bios; fi
section esps
if [ -s /etc/kernel/proxmox-boot-uuids ]; then
	proxmox-boot-tool status 2>/dev/null
fi

section groups
for group in /sys/kernel/iommu_groups/*; do
	if [ -e "$group" ]; then printf '%s\n' "${group##*/}"; fi
done

section pci
for dev in /sys/bus/pci/devices/*; do
	if [ ! -e "$dev/vendor" ]; then continue; fi
	vga=0
	if [ -r "$dev/boot_vga" ]; then vga=$(cat "$dev/boot_vga"); fi
	numa=-1
	if [ -r "$dev/numa_node" ]; then numa=$(cat "$dev/numa_node"); fi
	printf '%s %s %s %s %s %s %s %s\n' "${dev##*/}" "$(cat "$dev/class")" "$(cat "$dev/vendor")" "$(cat "$dev/device")" \
		"$vga" "$numa" "group=$(target "$dev/iommu_group")" "driver=$(target "$dev/driver")"
done
section names
lspci -D 2>/dev/null

section guests
for pid in /run/qemu-server/*.pid; do
	if [ -e "$pid" ]; then
		id=${pid##*/}
		printf 'VM %s\n' "${id%.pid}"
	fi
done
for box in /sys/fs/cgroup/lxc/*; do
	if [ -d "$box" ]; then printf 'container %s\n' "${box##*/}"; fi
done
section nvidia-containers
grep -l nvidia /etc/pve/lxc/*.conf 2>/dev/null

for path in /etc/default/grub /etc/default/grub.d/*.cfg /etc/kernel/cmdline /etc/modules /etc/modules-load.d/*.conf \
	/etc/modprobe.d/*.conf /var/lib/homelab/host/*; do
	file "$path"
done

section end
