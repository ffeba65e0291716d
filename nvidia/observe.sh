#!/bin/sh
# Prints what is known about NVIDIA's driver on this machine, in sections. Reads
# only; a missing program leaves its section empty.

section() { printf '\n=== %s\n' "$1"; }

section kernel
uname -r

section system
cat /etc/os-release 2>/dev/null

section loaded
cat /proc/driver/nvidia/version 2>/dev/null

section packages
# shellcheck disable=SC2016 # the names in braces are dpkg-query's own
dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' \
	'linux-generic*' 'linux-virtual*' 'linux-image-*' 'linux-headers-*' 'linux-modules-nvidia-*' \
	'linux-objects-nvidia-*' 'linux-signatures-nvidia-*' 'build-essential' 'dkms' \
	'nvidia-*' 'libnvidia-*' 2>/dev/null

section held
apt-mark showhold 2>/dev/null

section runtime
command -v nvidia-container-runtime

section containerd
k3s=/var/lib/rancher/k3s/agent/etc/containerd
for template in "$k3s/config.toml.tmpl" "$k3s/config-v3.toml.tmpl"; do
	if [ -e "$template" ]; then printf 'template %s\n' "$template"; fi
done
if [ -r "$k3s/config.toml" ]; then
	if grep -q nvidia-container-runtime "$k3s/config.toml"; then echo nvidia; else echo plain; fi
fi
# CRI-O says what it runs with, which is not what its files say (internal/criocli/status.go).
if systemctl is-active --quiet crio 2>/dev/null; then
	echo crio
	if crio status config 2>/dev/null | grep -q 'crio\.runtime\.runtimes\.nvidia\]'; then echo nvidia; fi
fi

section log
dmesg 2>/dev/null |
	grep -E 'NVRM|nvidia: |nvidia [0-9a-f]{4}:.*(power state|not ready|BAR)|Key was rejected|Loading of .* is rejected|unsigned module loading is restricted' | tail -n 40

section dkms
if command -v dkms >/dev/null; then dkms status 2>/dev/null; fi

# There is such a log while a build goes on, and after one that failed.
section make.log
tail -q -n 15 /var/lib/dkms/nvidia*/*/build/make.log 2>/dev/null | grep -vE '^(#|----|$)'

section make.errors
grep -h -E 'error:|No space left|Killed' /var/lib/dkms/nvidia*/*/build/make.log 2>/dev/null | head -n 5

# Switches between GPUs: of NVIDIA's and bridges (other) by their PCI class, and those of NVLink 5 by
# the network card that manages them (as NVIDIA's nvidia-fabricmanager-start.sh finds them).
section fabric
for device in /sys/bus/pci/devices/*; do
	if [ -r "$device/class" ] && grep -qs '^0x10de' "$device/vendor" && grep -qs '^0x0680' "$device/class"; then
		printf 'nvswitch %s\n' "${device##*/}"
	fi
done
for vpd in /sys/class/infiniband/*/device/vpd; do
	if [ -r "$vpd" ] && grep -qs SW_MNG "$vpd"; then printf 'nvlink5 %s\n' "$vpd"; fi
done
if systemctl cat nvidia-fabricmanager >/dev/null 2>&1; then
	printf 'enabled %s\n' "$(systemctl is-enabled nvidia-fabricmanager 2>/dev/null)"
	printf 'active %s\n' "$(systemctl is-active nvidia-fabricmanager 2>/dev/null)"
fi

section smi
nvidia-smi -q -x 2>&1
status=$?

section end
echo "$status"
