#!/bin/sh
# Asks for the GPUs of this container again and again, for SECONDS, and says in the
# file of Kubernetes' last words whether they stayed.
#
#   keep.sh SECONDS [LOG]
set -u
seconds=$1
log=${2:-/dev/termination-log}

first=$(nvidia-smi -L 2>&1)
status=$?
if [ "$status" -ne 0 ]; then
	printf 'failed|%s\n' "$first" | head -n 1 >"$log"
	exit 1
fi
passed=0
while [ "$passed" -lt "$seconds" ]; do
	sleep 1
	passed=$((passed + 1))
	now=$(nvidia-smi -L 2>&1)
	status=$?
	if [ "$status" -ne 0 ]; then
		printf 'lost|after %s s: %s\n' "$passed" "$now" | head -n 1 >"$log"
		exit 1
	fi
done
printf 'kept|\n' >"$log"
