#!/bin/sh
# Takes K3s off this machine: units, processes of its pods, mounts, interfaces,
# and every file, the datastore among them. It may be run again after it was cut
# short.
#
# usage: remove.sh
set -u

for unit in k3s k3s-agent; do
	if [ -f "/etc/systemd/system/$unit.service" ]; then
		systemctl disable --now "$unit"
	fi
done

# Containers outlive K3s. Each hangs below a shim of K3s' own containerd.
for shim in /proc/[0-9]*; do
	exe=$(readlink "$shim/exe" 2>/dev/null) || continue
	case $exe in
	/var/lib/rancher/k3s/data/*/bin/containerd-shim*)
		pid=${shim#/proc/}
		children=
		read -r children 2>/dev/null <"$shim/task/$pid/children"
		for child in $children; do
			kill -9 "$child" 2>/dev/null
		done
		kill -9 "$pid" 2>/dev/null
		;;
	esac
done

# Deepest mounts first.
while read -r _ mount _; do
	case $mount in
	/run/k3s/* | /var/lib/rancher/k3s/* | /var/lib/kubelet/* | /run/netns/cni-*)
		printf '%s\n' "$mount"
		;;
	esac
done </proc/self/mounts | sort -r | while read -r mount; do
	umount "$mount" 2>/dev/null || umount -l "$mount"
done

for link in cni0 flannel.1 flannel-v6.1 flannel-wg flannel-wg-v6 kube-ipvs0; do
	if [ -e "/sys/class/net/$link" ]; then
		ip link delete "$link"
	fi
done

rm -f /etc/systemd/system/k3s.service /etc/systemd/system/k3s-agent.service \
	/etc/systemd/system/k3s.service.env /etc/systemd/system/k3s-agent.service.env \
	/usr/local/bin/k3s
systemctl daemon-reload
rm -rf /etc/rancher /run/k3s /run/flannel /var/lib/rancher/k3s /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers
