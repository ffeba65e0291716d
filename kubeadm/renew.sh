#!/bin/sh
# Renews the certificates of this server, and restarts the programs that have them: only kube-apiserver reads its own
# again. kubelet starts a container that has ended again. kubelet's own certificate is renewed by itself.
#
# usage: renew.sh all|kube-vip    kube-vip: kubeadm has renewed the others with the version, and knows nothing of this one
set -eu

names=kube-vip
if [ "$1" = all ]; then
	kubeadm certs renew all >/dev/null
	names="etcd kube-apiserver kube-controller-manager kube-scheduler kube-vip"
fi
at=--runtime-endpoint=unix:///run/containerd/containerd.sock
if [ -x /usr/bin/crio ]; then at=--runtime-endpoint=unix:///var/run/crio/crio.sock; fi
for name in $names; do
	for id in $(crictl $at ps --quiet --label "io.kubernetes.container.name=$name"); do
		crictl $at stop --timeout 30 "$id" >/dev/null
	done
done
