#!/bin/sh
# Starts machines in a network of their own, and prints "NAME PID ADDRESS" of each. All end with it.
#
# usage: site.sh FOLDER PROGRAMS IMAGES UNITS GROUP NAME...      in namespaces of its own
set -eu

here=$(dirname "$0")
folder=$1 programs=$2 images=$3 units=$4 group=$5
shift 5

# enter NAME puts this shell into control groups of a machine.
enter() {
	if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
		set -- "$1" /sys/fs/cgroup
	else
		set -- "$1" /sys/fs/cgroup/*
	fi
	own=$group-$1
	shift
	for tree in "$@"; do
		mkdir -p "$tree/$own"
		if [ -f "$tree/cpuset.cpus" ]; then
			cat "$tree/cpuset.cpus" >"$tree/$own/cpuset.cpus"
			cat "$tree/cpuset.mems" >"$tree/$own/cpuset.mems"
		fi
		echo 0 >"$tree/$own/cgroup.procs"
	done
}

ip link set lo up
ip link add lan type bridge
ip address add 10.99.0.1/24 dev lan
ip link set lan up
last=10
for name in "$@"; do
	last=$((last + 1))
	(
		enter "$name"
		exec unshare --cgroup --mount --pid --net --uts --ipc --fork --kill-child sh "$here/machine.sh" "$name" "$programs" "$images" "$units" "$folder"
	) >"$folder/$name.log" 2>&1 &
	until [ "$(cat "/proc/$!/comm")" = unshare ] && pid=$(cat "/proc/$!/task/$!/children") && [ -n "$pid" ]; do
		sleep 0.05
	done
	pid=${pid% }
	ip link add "lan-$name" type veth peer name eth0 netns "$pid"
	ip link set "lan-$name" master lan up
	nsenter --target "$pid" --net sh -c "ip link set lo up
		ip address add 10.99.0.$last/24 dev eth0
		ip link set eth0 up
		ip route add default via 10.99.0.1"
	echo "$name $pid 10.99.0.$last"
done
wait
