#!/bin/sh
# Runs etcdctl in the container of kubeadm's etcd on this server, at its member.
#
# usage: etcdctl.sh ARGUMENT...
set -eu

pki=/etc/kubernetes/pki/etcd
at=--runtime-endpoint=unix:///run/containerd/containerd.sock
if [ -x /usr/bin/crio ]; then at=--runtime-endpoint=unix:///var/run/crio/crio.sock; fi

etcd=$(crictl $at ps --quiet --label io.kubernetes.container.name=etcd | head -n 1)
if [ -z "$etcd" ]; then
	echo "etcd does not run on this server" >&2
	exit 1
fi
crictl $at exec "$etcd" etcdctl --endpoints=https://127.0.0.1:2379 --cacert=$pki/ca.crt --cert=$pki/healthcheck-client.crt \
	--key=$pki/healthcheck-client.key "$@"
