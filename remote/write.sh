#!/bin/sh
# Writes standard input to the file $1 with mode $2, wholly or not at all.
# $3 is how many bytes there should be: a connection that breaks looks like the
# end of the input, and half a file must not take the place of a whole one.
set -eu
path=$1
mode=$2
size=$3

if [ -d "$path" ]; then
	echo "$path is a folder" >&2
	exit 1
fi
umask 022
dir=${path%/*}
mkdir -p "${dir:-/}"

tmp=$(mktemp "$path.XXXXXX")
trap 'rm -f "$tmp"' EXIT
# A shell that knows no signals (an interpreter) refuses this, and can do without. PIPE
# comes where there is nobody any more to complain to.
trap 'exit 1' HUP INT TERM PIPE 2>/dev/null || :
cat >"$tmp"
got=$(wc -c <"$tmp")
if [ "$got" -ne "$size" ]; then
	echo "$got of $size bytes arrived" >&2
	exit 1
fi
chmod "$mode" "$tmp"
mv -f "$tmp" "$path"
trap - EXIT
