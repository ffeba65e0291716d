# shellcheck shell=sh
# What the guest agent runs as root to let a key in. $1 is the user who logs in, $2 what
# to do: "show" prints the keys that may, "keep" takes the whole list from its input.
set -eu
entry=$(getent passwd "$1") || { echo "there is no user $1" >&2; exit 1; }
home=$(echo "$entry" | cut -d: -f6)
owner=$(echo "$entry" | cut -d: -f3-4)
if [ "$2" = show ]; then
	[ ! -e "$home/.ssh/authorized_keys" ] || cat "$home/.ssh/authorized_keys"
	exit 0
fi
umask 077
mkdir -p "$home/.ssh"
new=$(mktemp "$home/.ssh/authorized_keys.XXXXXX")
cat >"$new"
chown "$owner" "$home/.ssh" "$new"
mv -f "$new" "$home/.ssh/authorized_keys"
