#!/bin/sh
# Prints the certificates of K3s on this machine, as sections that begin with a line "@@ FILE".
# Certificates are public; their keys are not read.
#
# usage: certs.sh
set -u

for file in /var/lib/rancher/k3s/server/tls/*.crt /var/lib/rancher/k3s/server/tls/*/*.crt /var/lib/rancher/k3s/agent/*.crt; do
	case $file in
	*/temporary-certs/*) continue ;;
	esac
	if [ -f "$file" ]; then
		printf '\n@@ %s\n' "$file"
		cat "$file"
	fi
done
printf '\n@@ end\n'
