#!/bin/sh
# Runs a command, which follows $1, with what comes after the line $1 of standard input. Before that line
# there is the password, unless sudo took it: it takes none where a rule lets the user run this without one.
end=$1
shift
while IFS= read -r line; do
	if [ "$line" = "$end" ]; then
		exec "$@"
	fi
done
echo "sudo takes more of its input than the password: let this user run sudo without one, or use another sudo" >&2
exit 1
