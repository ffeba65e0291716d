#!/bin/sh
# Saves a snapshot of etcd on this server, which runs as a container of kubeadm's: its own etcdctl writes it where the
# container has a folder of the machine, and it is moved from there. Prints its name.
#
# usage: snapshot.sh PREFIX FOLDER NODE
set -eu
umask 077

folder=$2
name=$1-$3-$(date +%s)
pki=/etc/kubernetes/pki/etcd
at=--runtime-endpoint=unix:///run/containerd/containerd.sock
if [ -x /usr/bin/crio ]; then at=--runtime-endpoint=unix:///var/run/crio/crio.sock; fi

etcd=$(crictl $at ps --quiet --label io.kubernetes.container.name=etcd | head -n 1)
if [ -z "$etcd" ]; then
	echo "etcd does not run on this server" >&2
	exit 1
fi
rm -f /var/lib/etcd/homelab-snapshot.db
crictl $at exec "$etcd" etcdctl --endpoints=https://127.0.0.1:2379 --cacert=$pki/ca.crt --cert=$pki/healthcheck-client.crt \
	--key=$pki/healthcheck-client.key snapshot save /var/lib/etcd/homelab-snapshot.db >/dev/null
mkdir -p "$folder"
mv /var/lib/etcd/homelab-snapshot.db "$folder/$name"
printf '%s\n' "$name"
