#!/bin/sh
# Prints what is known about NVIDIA's driver on this machine, in sections. Reads
# only; a missing program leaves its section empty.

section() { printf '\n=== %s\n' "$1"; }

section kernel
uname -r

section loaded
cat /proc/driver/nvidia/version 2>/dev/null

section packages
# shellcheck disable=SC2016 # the names in braces are dpkg-query's own
dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' \
	'linux-generic' 'linux-image-*' 'linux-modules-nvidia-*' 'linux-headers-generic' \
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

section log
dmesg 2>/dev/null | grep -E 'NVRM|nvidia: |Key was rejected' | tail -n 8

section smi
nvidia-smi -q -x 2>&1
status=$?

section end
echo "$status"
