#!/bin/sh
# record.sh FOLDER COLUMNS LINES COMMAND [ARGUMENT...]
#
# Runs a command on a terminal of that size and keeps what it shows, once a second,
# with its colours, as FOLDER/0001.txt and so on: a file for each second in which
# something changed. Needs tmux.
set -eu
folder=$1 columns=$2 lines=$3
shift 3
mkdir -p "$folder"
# The end stays on the screen for a while, so that it is recorded too.
tmux -u -L homelab-picture -f /dev/null new-session -d -x "$columns" -y "$lines" \
	sh -c '"$@"; sleep 3' sh "$@"
n=1
while sleep 1 && tmux -L homelab-picture has-session 2>/dev/null; do
	frame=$(printf '%s/%04d.txt' "$folder" "$n")
	tmux -L homelab-picture capture-pane -e -p >"$frame.new" || break
	if [ "$n" -gt 1 ] && cmp -s "$frame.new" "$last"; then
		rm "$frame.new"
		continue
	fi
	mv "$frame.new" "$frame"
	last=$frame
	n=$((n + 1))
done
rm -f "$folder"/*.new
