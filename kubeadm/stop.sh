#!/bin/sh
# Stops Kubernetes on a server for a restore: it does not start again, with the machine either, until the restore is
# over. What it starts from is moved away, so that no server can come back with the state of before. May be run again
# after it was cut short.
#
# usage: stop.sh WHAT anew|once VERSION
#
# WHAT says in the mark what is being restored. once: a server that was stopped for the same is left as it is, since it
# may have begun to join. Nothing is stopped without etcdutl, of this machine or, with containerd, of the image of
# kubeadm's etcd of VERSION: it could not be restored.
set -eu
umask 077

etc=/etc/kubernetes
ours=$etc/homelab
aside=/var/lib/homelab/before-restore
at=--runtime-endpoint=unix:///run/containerd/containerd.sock
if [ -x /usr/bin/crio ]; then at=--runtime-endpoint=unix:///var/run/crio/crio.sock; fi

if [ "$2" = once ] && [ -f "$ours/stopped" ] && [ "$(cat "$ours/stopped")" = "$1" ]; then
	exit 0
fi
if ! command -v etcdutl >/dev/null; then
	if [ -x /usr/bin/crio ]; then # which runs no single program of an image
		echo "this server has no etcdutl, which a restore needs: put that of its release of etcd into /usr/local/bin. Nothing was stopped here" >&2
		exit 66
	fi
	image=$(kubeadm config images list --kubernetes-version "$3" | grep /etcd:)
	crictl $at inspecti --quiet "$image" >/dev/null 2>&1 || crictl $at pull "$image" >/dev/null
	if ! ctr --namespace k8s.io run --rm "$image" "homelab-look-$$" etcdutl version >/dev/null; then
		echo "$image has no etcdutl, which a restore needs: put that of the same release of etcd into /usr/local/bin. Nothing was stopped here" >&2
		exit 66
	fi
fi
mkdir -p "$ours"
if [ ! -f "$ours/restoring" ]; then
	rm -rf "$aside" # of an earlier restore
fi
printf '%s\n' "$1" >"$ours/restoring.new"
mv -f "$ours/restoring.new" "$ours/restoring"
rm -f "$ours/stopped"
systemctl disable --now kubelet
# Containers outlive kubelet. kube-vip gives its address up when it is told to end.
for name in kube-vip kube-controller-manager kube-scheduler kube-apiserver etcd; do
	for id in $(crictl $at ps --quiet --label "io.kubernetes.container.name=$name"); do
		crictl $at stop --timeout 20 "$id" >/dev/null
	done
done
rm -f "$ours/starting"
mkdir -p "$aside"
for part in "$etc/manifests" "$etc/kubelet.conf" "$etc/bootstrap-kubelet.conf" "$etc/admin.conf" "$etc/super-admin.conf" \
	"$etc/controller-manager.conf" "$etc/scheduler.conf" "$etc/pki" /var/lib/kubelet/pki /var/lib/etcd/member; do
	if [ ! -e "$part" ]; then
		continue
	fi
	if [ -e "$aside$part" ]; then
		rm -rf "$part" # of a restore that was cut short
	else
		mkdir -p "$aside${part%/*}"
		mv "$part" "$aside$part"
	fi
done
printf '%s\n' "$1" >"$ours/stopped.new"
mv -f "$ours/stopped.new" "$ours/stopped"
