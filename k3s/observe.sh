#!/bin/sh
# Prints all that there is to know about K3s on this machine, in one go, as
# sections that begin with a line "@@ NAME". It changes nothing, and it never
# prints what is in a token file, in registries.yaml or in the bucket's keys.
#
# usage: observe.sh
set -u

etc=/etc/rancher/k3s
manifests=/var/lib/rancher/k3s/server/manifests

section() { printf '\n@@ %s\n' "$1"; }

section arch
uname -m

section version
if [ -x /usr/local/bin/k3s ]; then
	/usr/local/bin/k3s --version 2>/dev/null
fi

for unit in k3s k3s-agent; do
	file=/etc/systemd/system/$unit.service
	if [ -f "$file" ]; then
		section "unit $unit"
		cat "$file"
		section "active $unit"
		active=$(systemctl is-active "$unit" 2>/dev/null)
		printf '%s\n' "$active"
		section "enabled $unit"
		systemctl is-enabled "$unit" 2>/dev/null
		if [ "$active" != active ]; then
			section "journal $unit"
			# Only what was said since we last asked it to start: older
			# lines report troubles that may be over. With --since, -n counts
			# from the oldest line in systemd 252; with --reverse it never does.
			since=@0
			if [ -f "$etc/homelab.started" ]; then
				since=@$(stat -c %.6Y "$etc/homelab.started")
			fi
			journalctl -u "$unit" -r -n 60 -o cat --no-pager "--since=$since" 2>/dev/null | tac
			# How its last run ended: a start says more than the lines above hold.
			section "ended $unit"
			journalctl -u "$unit" -r -n 2000 -o cat --no-pager "--since=$since" 2>/dev/null |
				grep -m 1 -e ' level=fatal msg=' -e ' level=error msg="Shutdown request received: '
		fi
	fi
done

# What others have put beside our files changes K3s too. Only the names of what
# they set are printed: the values may be secrets.
other() {
	if [ -f "$1" ] && [ "$(head -n 1 "$1")" != "# Written by homelab, which writes it again when it differs." ]; then
		printf '%s:' "$1"
		sed -n "$2" "$1" | sort -u | while read -r key; do
			printf ' %s' "$key"
		done
		echo
	fi
}
section others
for file in "$etc"/config.yaml.d/*; do
	case $file in
	*.yaml | *.yml) other "$file" 's/^\([a-z][a-z0-9-]*\)[+]*:.*/\1/p' ;;
	esac
done
for unit in k3s k3s-agent; do
	if [ -f "/etc/systemd/system/$unit.service" ]; then
		for file in "/etc/default/$unit" "/etc/systemd/system/$unit.service.env"; do
			other "$file" 's/^\([A-Z][A-Z0-9_]*\)=.*/\1/p'
		done
		for file in "/etc/systemd/system/$unit.service.d"/*.conf "/run/systemd/system/$unit.service.d"/*.conf; do
			other "$file" 's/^\([A-Z][A-Za-z]*\)=.*/\1/p'
		done
	fi
done

section config
if [ -f "$etc/config.yaml" ]; then
	cat "$etc/config.yaml"
fi

section token
if [ -f "$etc/token" ]; then
	stat -c '%a' "$etc/token"
fi

section registries
if [ -f "$etc/registries.yaml" ]; then
	sha256sum "$etc/registries.yaml"
fi

section s3
if [ -f "$etc/config.yaml.d/homelab-s3.yaml" ]; then
	sha256sum "$etc/config.yaml.d/homelab-s3.yaml"
	stat -c '%a' "$etc/config.yaml.d/homelab-s3.yaml"
fi

section applied
if [ -f "$etc/homelab.applied" ]; then
	cat "$etc/homelab.applied"
fi

section cluster
if [ -f "$etc/homelab.cluster" ]; then
	cat "$etc/homelab.cluster"
fi

section restoring
if [ -f "$etc/homelab.restoring" ]; then
	cat "$etc/homelab.restoring"
fi

# A server has the cluster's authority before its own agent has fetched it.
section authority
for file in /var/lib/rancher/k3s/server/tls/server-ca.crt /var/lib/rancher/k3s/agent/server-ca.crt; do
	if [ -f "$file" ]; then
		sha256sum "$file"
		break
	fi
done

section manifests
for file in "$manifests"/*.yaml; do
	if [ -f "$file" ]; then
		sha256sum "$file"
	fi
done

section end
