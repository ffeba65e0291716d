#!/bin/sh
# Prints what of a Kubernetes is on this machine, whoever set it up, a line "TOOL KIND NAME" each: units that run, files
# and folders that are there until the tool's own removal, and where there is none of these, processes. It changes nothing.
#
# Sources: K3s' install.sh (units and data); bundle/bin/rke2-uninstall.sh of rancher/rke2; pkg/constant of k0sproject/k0s;
# snap/snapcraft.yaml of canonical/microk8s and canonical/k8s-snap (a snap's data is below /var/snap); of kubeadm
# cmd/phases/reset/cleanupnode.go, which leaves the packages and empty folders.
#
# usage: observe.sh
set -u

units() {
	tool=$1
	shift
	for unit in "$@"; do
		if [ "$(systemctl is-active "$unit" 2>/dev/null)" = active ]; then
			echo "$tool unit $unit"
		fi
	done
}

# K3s' binary alone says nothing: templates have it.
places() {
	tool=$1
	shift
	for place in "$@"; do
		if [ -d "$place" ]; then
			echo "$tool folder $place"
		elif [ -e "$place" ]; then
			echo "$tool file $place"
		fi
	done
}

# Only those of the machine itself: kind's and minikube's are in a container's namespace.
processes() {
	for comm in /proc/[0-9]*/comm; do
		name=
		{ read -r name <"$comm"; } 2>/dev/null
		case $name in
		k3s | k3s-server | k3s-agent) tool=k3s ;;
		rke2 | k0s) tool=$name ;;
		kubelite) tool=microk8s ;;
		kubelet | kube-apiserver) tool=kubernetes ;;
		*) continue ;;
		esac
		if [ "$(readlink "${comm%/comm}/ns/pid")" = "$(readlink /proc/self/ns/pid)" ]; then
			echo "$tool process $name"
		fi
	done
}

found=$(
	units k3s k3s.service k3s-agent.service
	places k3s /etc/systemd/system/k3s*.service /etc/rancher/k3s/config.yaml /var/lib/rancher/k3s/server /var/lib/rancher/k3s/agent/kubelet.kubeconfig
	units rke2 rke2-server.service rke2-agent.service
	places rke2 /etc/rancher/rke2 /var/lib/rancher/rke2
	units k0s k0scontroller.service k0sworker.service
	places k0s /etc/k0s /var/lib/k0s
	units microk8s snap.microk8s.daemon-kubelite.service
	places microk8s /var/snap/microk8s
	units k8s snap.k8s.kubelet.service snap.k8s.k8sd.service
	places k8s /var/snap/k8s
	places kubeadm /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/admin.conf /etc/kubernetes/kubelet.conf
)
if [ -z "$found" ]; then
	found=$(processes)
fi
echo "$found"
