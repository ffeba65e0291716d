#!/bin/sh
# Renews the certificates of this server, and restarts the four programs that have them: only kube-apiserver reads its
# own again. kubelet starts a container that has ended again. kubelet's own certificate is renewed by itself.
set -eu

kubeadm certs renew all >/dev/null
at=--runtime-endpoint=unix:///run/containerd/containerd.sock
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
	for id in $(crictl $at ps --quiet --label "io.kubernetes.container.name=$name"); do
		crictl $at stop --timeout 30 "$id" >/dev/null
	done
done
