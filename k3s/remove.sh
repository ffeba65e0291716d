#!/bin/sh
# Takes K3s off this machine: units, processes of its pods, mounts, interfaces,
# network namespaces, packet filter rules, and every file, the datastore among
# them. What is not K3s' own stays: other rules, and disks that /etc/fstab mounts
# under its folders, which are emptied and stay mounted. It may be run again after
# it was cut short.
#
# usage: remove.sh
#
# exit status: 1 something of K3s is still there; standard error says what
set -u

data=/var/lib/rancher/k3s
PATH=$PATH:/usr/sbin:/sbin
# Where the machine has no iptables of its own, K3s used the one that it brought.
for aux in "$data"/data/*/bin/aux; do
	PATH=$PATH:$aux
done

for unit in k3s k3s-agent; do
	if [ -f "/etc/systemd/system/$unit.service" ]; then
		systemctl disable --now "$unit" || {
			echo "systemd cannot stop $unit, so nothing was removed" >&2
			exit 1
		}
		systemctl reset-failed "$unit" 2>/dev/null
	fi
done

# Containers outlive K3s. Each hangs below a shim of K3s' own containerd; any of a
# process' threads may have started its children.
kill_tree() {
	cat "/proc/$1/task"/*/children 2>/dev/null | tr ' ' '\n' | while read -r child; do
		kill_tree "$child"
	done
	kill -9 "$1" 2>/dev/null
}
for shim in /proc/[0-9]*; do
	case $(readlink "$shim/exe" 2>/dev/null) in
	"$data"/data/*/bin/containerd-shim*) kill_tree "${shim#/proc/}" ;;
	esac
done

# A disk that the machine mounts for K3s is the machine's: it is emptied, and stays.
disk() {
	[ "${1#/dev/}" != "$1" ] && grep -qs "^[^#[:space:]][^[:space:]]*[[:space:]][[:space:]]*$2/*[[:space:]]" /etc/fstab
}

mounts() {
	while read -r source mount _; do
		case $mount in
		/run/k3s/* | "$data" | "$data"/* | /var/lib/kubelet | /var/lib/kubelet/* | /run/netns/cni-*)
			disk "$source" "$mount" || printf '%s\n' "$mount"
			;;
		esac
	done </proc/self/mounts | sort -r
}

# Deepest first.
mounts | while read -r mount; do
	umount "$mount" 2>/dev/null || umount -l "$mount"
done
# What is deleted through a mount is deleted where it really lies, which may be
# another machine.
left=$(mounts)
if [ -n "$left" ]; then
	printf 'still mounted, so no file was deleted:\n%s\n' "$left" >&2
	exit 1
fi

for file in /run/netns/cni-*; do
	if [ -e "$file" ]; then
		ip netns delete "${file##*/}" 2>/dev/null || rm -f "$file"
	fi
done
ip -o link show master cni0 2>/dev/null | while read -r _ link _; do # 7: veth1234@if2: …
	link=${link%:}
	ip link delete "${link%%@*}"
done
for link in cni0 flannel.1 flannel-v6.1 flannel-wg flannel-wg-v6 kube-ipvs0; do
	if ip link show "$link" >/dev/null 2>&1; then
		ip link delete "$link"
	fi
done

# Turns what iptables-save says into what iptables-restore --noflush needs to take
# K3s' chains away, and the rules that lead to them; all others stay as they are.
ours_away() {
	chains=
	while IFS= read -r line; do
		case $line in
		\**) printf '%s\n' "$line" ;;
		:KUBE-* | :CNI-* | :FLANNEL-*)
			line=${line#:}
			chains="$chains ${line%% *}"
			;;
		-A\ KUBE-* | -A\ CNI-* | -A\ FLANNEL-*) ;;
		# The last is of network policies: the only rule of K3s' in a chain of the
		# kernel's that leads to none of its own.
		-A*' -j KUBE-'* | -A*' -j CNI-'* | -A*' -j FLANNEL-'* | -A*' --comment "KUBE-ROUTER rule to '*) printf '%s\n' "-D${line#-A}" ;;
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
	*:KUBE-* | *:CNI-* | *:FLANNEL-*)
		printf '%s\n' "$rules" | ours_away | "$family-restore" --noflush || {
			echo "$family still has rules of K3s" >&2
			exit 1
		}
		;;
	esac
done
for set in $(ipset -n list 2>/dev/null); do # of network policies
	case $set in
	KUBE-* | inet6:KUBE-*) ipset destroy "$set" ;;
	esac
done

rm -f /etc/systemd/system/k3s.service /etc/systemd/system/k3s-agent.service \
	/etc/systemd/system/k3s.service.env /etc/systemd/system/k3s-agent.service.env \
	/usr/local/bin/k3s
systemctl daemon-reload

# What says whose this K3s was goes last: a removal that was cut short can be gone on with.
for tree in /etc/rancher/node /run/k3s /run/flannel "$data" /var/lib/kubelet \
	/var/lib/cni /var/log/pods /var/log/containers /etc/rancher/k3s; do
	[ -e "$tree" ] || continue
	# A mount point cannot be deleted; what is in it can.
	said=$(rm -rf "$tree" 2>&1) && continue
	if [ -n "$(find "$tree" ! -type d 2>/dev/null)" ]; then
		printf '%s\n' "$said" >&2
		exit 1
	fi
done
rmdir /etc/rancher /var/lib/rancher 2>/dev/null
exit 0
