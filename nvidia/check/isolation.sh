#!/bin/sh
# Says in the file of Kubernetes' last words how many GPUs, or instances of divided ones, this
# container sees. A container without nvidia-smi sees none.
#
#   isolation.sh [LOG]
set -u
log=${1:-/dev/termination-log}

count=$(nvidia-smi -L 2>/dev/null | (
	gpus=0
	parts=0
	while read -r kind _; do
		case $kind in
		GPU) gpus=$((gpus + 1)) ;;
		MIG) parts=$((parts + 1)) ;;
		esac
	done
	if [ "$parts" -gt 0 ]; then gpus=$parts; fi
	printf '%s' "$gpus"
))
printf 'sees|%s\n' "$count" >"$log"
