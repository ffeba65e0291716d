#!/bin/sh
# Makes etcd of a snapshot, on a server that was stopped: one member, as kubeadm init will start it
# (phases/etcd/local.go). etcdutl is the machine's own, or that of the image of kubeadm's etcd. What watches Kubernetes
# must not see revisions twice: those of the snapshot are over.
#
# usage: restore.sh SHA256 NODE PEER VERSION
#
# exit status: 65 the snapshot is not the one that was sent
set -eu
umask 077

at=/var/lib/homelab/restore
cri=--runtime-endpoint=unix:///run/containerd/containerd.sock
sum=$(sha256sum "$at/snapshot.db")
if [ "${sum%% *}" != "$1" ]; then
	echo "$at/snapshot.db is not the file that was sent" >&2
	exit 65
fi
rm -rf "$at/etcd"
set -- "$2" "$3" "$4" etcdutl snapshot restore "$at/snapshot.db" --data-dir "$at/etcd" --name "$2" --initial-cluster "$2=$3" \
	--initial-advertise-peer-urls "$3" --bump-revision 1000000000 --mark-compacted
version=$3
shift 3
if command -v etcdutl >/dev/null; then
	"$@" >/dev/null
else
	image=$(kubeadm config images list --kubernetes-version "$version" | grep /etcd:)
	crictl $cri inspecti --quiet "$image" >/dev/null 2>&1 || crictl $cri pull "$image" >/dev/null
	ctr --namespace k8s.io run --rm --mount "type=bind,src=$at,dst=$at,options=rbind:rw" "$image" "homelab-restore-$$" "$@" >/dev/null
fi
mkdir -p -m 0700 /var/lib/etcd
rm -rf /var/lib/etcd/member
mv "$at/etcd/member" /var/lib/etcd/member
# From here on the start of this server goes on: see start.sh.
printf 'server\n' >/etc/kubernetes/homelab/starting
