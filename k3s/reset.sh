#!/bin/sh
# Makes etcd of a snapshot, on a server where K3s is stopped; its token is already there. K3s
# ends by itself when that is done.
#
# usage: reset.sh SNAPSHOT SHA256 SECONDS
#
# exit status: 65 the snapshot is not the one that was sent; 1 K3s refused it; 124 it did not end
set -u

snapshot=$1
sum=$(sha256sum "$snapshot")
if [ "${sum%% *}" != "$2" ]; then
	echo "$snapshot is not the file that was sent" >&2
	exit 65
fi
timeout "$3" /usr/local/bin/k3s server --cluster-reset "--cluster-reset-restore-path=$snapshot"
