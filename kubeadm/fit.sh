#!/bin/sh
# Prints what keeps Kubernetes by kubeadm from being set up on this machine, a line "KIND WHAT" each, and changes nothing.
#
# usage: fit.sh server|agent claimed|found
#
# On a machine that was claimed, packages and files are homelab's own.
set -u

role=$1
state=$2

id=unknown
if [ -r /etc/os-release ]; then
	id=$(. /etc/os-release && echo "${ID:-unknown}")
	like=$(. /etc/os-release && echo "${ID_LIKE:-}")
fi
case " $id ${like:-} " in
*" debian "* | *" ubuntu "*) ;;
*) echo "system $id" ;;
esac
case $(uname -m) in
x86_64 | aarch64) ;;
*) echo "arch $(uname -m)" ;;
esac

# kubelet ends at once with swap; kubeadm only warns of it (pkg/kubelet/cm/container_manager_linux.go, failSwapOn).
swaps=
while read -r name _; do
	if [ "$name" != Filename ]; then
		swaps="$swaps $name"
	fi
done </proc/swaps
if [ -n "$swaps" ]; then
	echo "swap$swaps"
fi
if [ -f /sys/fs/cgroup/cgroup.controllers ] && ! grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
	echo "cgroup memory"
fi
if [ "$role" = server ]; then
	cores=$(nproc 2>/dev/null || echo 2)
	if [ "$cores" -lt 2 ]; then
		echo "cores $cores"
	fi
fi
if [ "$state" = claimed ]; then
	exit 0
fi

found=
for name in containerd containerd.io docker-ce docker.io podman-docker cri-o kubelet kubeadm kubectl; do
	version=$(dpkg-query -W -f '${Version}' "$name" 2>/dev/null) || continue
	found="$found, $name $version"
done
if [ -n "$found" ]; then
	echo "packages ${found#, }"
fi
for file in /etc/containerd/config.toml /usr/local/bin/containerd /usr/local/bin/kubelet /usr/local/bin/kubeadm; do
	if [ -e "$file" ]; then
		echo "file $file"
	fi
done
# kubeadm itself leaves empty folders.
full() {
	[ -d "$1" ] && [ -n "$(find "$1" ! -type d 2>/dev/null)" ]
}
for folder in /etc/kubernetes /var/lib/kubelet /var/lib/etcd; do
	if full "$folder"; then
		echo "folder $folder"
	fi
done
