#!/bin/sh
# Prints what is common to all hosts of a Proxmox VE cluster: storages, roles, users,
# who was granted what; and what a user and its token may do on some paths. It changes nothing.
#
# usage: observe-access.sh USER TOKEN PATH...
set -u

user=$1
token=$2
shift 2

section() { printf '\n@@ %s\n' "$1"; }

get() { pvesh get "$@" --output-format json; }

section version
get /version
section storages
get /storage
section roles
get /access/roles
section users
users=$(get /access/users)
printf '%s\n' "$users"
section acl
get /access/acl
if [ -z "$user" ]; then
	section end
	exit
fi
case $users in
*"\"$user\""*)
	for path in "$@"; do
		section "owner $path"
		get /access/permissions --userid "$user" --path "$path"
	done
	section tokens
	tokens=$(get "/access/users/$user/token")
	printf '%s\n' "$tokens"
	case $tokens in
	*"\"$token\""*)
		for path in "$@"; do
			section "may $path"
			get /access/permissions --userid "$user!$token" --path "$path"
		done
		;;
	esac
	;;
esac

section end
