# shellcheck shell=sh
# A lease is a file that one writer at a time changes. Arguments: create, replace or
# remove; the file; the digest of what was read; the new text. Exit status 17: there is
# one already; 18: it is not what was read.
set -eu
case $1 in
create)
	[ ! -e "$2" ] || exit 17
	;;
replace)
	[ -e "$2" ] || exit 18
	is=$(sha256sum <"$2")
	[ "${is%% *}" = "$3" ] || exit 18
	;;
remove)
	[ -e "$2" ] || exit 0
	is=$(sha256sum <"$2")
	[ "${is%% *}" = "$3" ] || exit 18
	rm -f -- "$2"
	exit 0
	;;
esac
umask 022
printf '%s\n' "$4" >"$2.new"
sync -- "$2.new" # a power cut leaves the old one or this one, and none that is empty
mv -f -- "$2.new" "$2"
