#!/bin/sh
# Takes Kubernetes off this machine, with its data, and the packages and files that homelab installed for it. What is not
# its own stays: other packages (conntrack too, which any may need), other rules of the packet filter, and the machine. A
# machine without the mark of a cluster is left as it is. It may be run again after it was cut short: the mark goes last.
#
# kubeadm reset stops kubelet, removes the pods' containers, and empties its folders; it leaves etcd here, since the
# cluster has let the member go, networks, rules, packages and everything else (cmd/phases/reset/cleanupnode.go).
# Cilium's links to its programs are files below /sys/fs/bpf/cilium: one that goes detaches its program.
#
# usage: remove.sh
#
# exit status: 1 something of Kubernetes is still there; standard error says what
set -u

etc=/etc/kubernetes
ours=$etc/homelab
PATH=$PATH:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive

if [ ! -f "$ours/cluster" ]; then
	exit 0
fi
fail() {
	echo "$1" >&2
	exit 1
}

# Whose data is in etcd's folder of an agent nobody here knows.
if [ -f "$etc/manifests/etcd.yaml" ] || [ -f /var/lib/homelab/before-restore/etc/kubernetes/manifests/etcd.yaml ]; then
	echo server >"$ours/removing"
fi

if [ -x /usr/bin/kubelet ]; then
	systemctl disable --now kubelet || fail "systemd cannot stop kubelet, so nothing was removed"
fi
if [ -x /usr/bin/kubeadm ]; then
	kubeadm reset --force --cri-socket=unix:///run/containerd/containerd.sock --skip-phases=remove-etcd-member >/dev/null || exit 1
fi

for file in /run/netns/cni-*; do
	if [ -e "$file" ]; then
		ip netns delete "${file##*/}" 2>/dev/null || rm -f "$file"
	fi
done
for link in cilium_host cilium_net cilium_vxlan; do
	if ip link show "$link" >/dev/null 2>&1; then
		ip link delete "$link"
	fi
done
rm -rf /sys/fs/bpf/cilium

# Turns what iptables-save says into what iptables-restore --noflush needs to take these chains away, and the rules that
# lead to them; all others stay as they are.
ours_away() {
	chains=
	while IFS= read -r line; do
		case $line in
		\**) printf '%s\n' "$line" ;;
		:KUBE-* | :CILIUM_* | :OLD_CILIUM_*)
			line=${line#:}
			chains="$chains ${line%% *}"
			;;
		-A\ KUBE-* | -A\ CILIUM_* | -A\ OLD_CILIUM_*) ;;
		-A*' -j KUBE-'* | -A*' -j CILIUM_'* | -A*' -j OLD_CILIUM_'*) printf '%s\n' "-D${line#-A}" ;;
		COMMIT)
			for chain in $chains; do # naming it empties it
				printf ':%s - [0:0]\n' "$chain"
			done
			for chain in $chains; do
				printf '%s %s\n' -X "$chain"
			done
			chains=
			echo COMMIT
			;;
		esac
	done
}
for family in iptables ip6tables; do
	rules=$("$family-save" 2>/dev/null)
	case $rules in
	*:KUBE-* | *:CILIUM_* | *:OLD_CILIUM_*)
		printf '%s\n' "$rules" | ours_away | "$family-restore" --noflush || fail "$family still has rules of Kubernetes"
		;;
	esac
done

# Docker of the distribution runs in the same containerd: then that stays, with its settings.
docker=
if dpkg-query -s docker.io >/dev/null 2>&1; then
	docker=yes
	echo "containerd and /etc/containerd/config.toml stay: docker.io, which somebody has installed since, needs them" >&2
fi
gone=
for name in kubelet kubeadm kubectl kubernetes-cni cri-tools containerd; do
	if dpkg-query -s "$name" >/dev/null 2>&1; then
		if [ "$name" != containerd ] || [ -z "$docker" ]; then
			gone="$gone $name"
		fi
	fi
done
if [ -n "$gone" ]; then
	apt-mark unhold $gone >/dev/null
	apt-get --quiet -o DPkg::Lock::Timeout=300 purge --yes $gone >/dev/null || exit 1
fi

rm -f /etc/apt/sources.list.d/homelab-kubernetes.list /usr/share/keyrings/homelab-kubernetes.asc \
	/etc/modules-load.d/homelab-kubernetes.conf /etc/sysctl.d/90-homelab-kubernetes.conf \
	/etc/cni/net.d/05-cilium.conflist /opt/cni/bin/cilium-cni
if [ -z "$docker" ]; then
	rm -f /etc/containerd/config.toml
	rm -rf /var/lib/containerd
fi
if [ -f "$ours/removing" ]; then
	rm -rf /var/lib/etcd 2>/dev/null
	if [ -e /var/lib/etcd/member ]; then
		fail "/var/lib/etcd is still there"
	fi
fi
for tree in /var/lib/kubelet /var/lib/cni /var/run/cilium /var/log/pods /var/log/containers /var/lib/homelab/etcd /var/lib/homelab/before-restore; do
	[ -e "$tree" ] || continue
	# A mount point cannot be deleted; what is in it can.
	said=$(rm -rf "$tree" 2>&1) && continue
	if [ -n "$(find "$tree" ! -type d 2>/dev/null)" ]; then
		fail "$said"
	fi
done
systemctl daemon-reload
for part in "$etc"/*; do
	if [ "$part" != "$ours" ]; then
		rm -rf "$part"
	fi
done
rm -rf "$etc"
rmdir /etc/containerd /etc/cni/net.d /etc/cni /opt/cni/bin /opt/cni /var/lib/homelab 2>/dev/null
exit 0
