#!/bin/sh
# Makes etcd of a snapshot, on a server where K3s is stopped. The secret of the token comes on
# standard input: with its certificates moved away, K3s makes up another one for its own file,
# and does not read token-file of config.yaml for this (seen with v1.34.3). K3s ends by itself
# when it is done, and has written the token then.
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
IFS= read -r K3S_TOKEN || true
export K3S_TOKEN
timeout "$3" /usr/local/bin/k3s server --cluster-reset "--cluster-reset-restore-path=$snapshot"
