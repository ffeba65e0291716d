#!/bin/sh
# Computes on every GPU of this container, and on every instance of a divided one, and
# says how it went: one line each, to stdout and to the file from which Kubernetes takes
# a container's last words. Fails unless there are as many as expected, not none, and
# all of them compute.
#
#   verify.sh EXPECTED [LOG [SAMPLE]]
#
# EXPECTED is the number of GPUs and instances. SAMPLE is NVIDIA's vectorAdd, which adds two
# vectors on the GPU and compares with the CPU.
set -uf
expected=$1
log=${2:-/dev/termination-log}
sample=${3:-/cuda-samples/vectorAdd}

say() {
	printf '%s\n' "$1"
	printf '%s\n' "$1" >>"$log"
}

# As many of the words as fit into a line of 200 characters.
brief() {
	line=
	for word; do
		if [ $((${#line} + ${#word})) -ge 200 ]; then break; fi
		line="$line${line:+ }$word"
	done
	printf '%s' "$line"
}

list=$(nvidia-smi --query-gpu=index,uuid,name,driver_version,memory.total --format=csv,noheader,nounits 2>&1)
status=$?
if [ "$status" -ne 0 ]; then
	# shellcheck disable=SC2086 # split into words, to be joined by single blanks
	say "error|nvidia-smi failed with status $status: $(brief $list)"
	exit 1
fi

# The instances that this container has, as INDEX-OF-THE-GPU UUID PROFILE. A divided GPU
# itself computes nothing.
instances=$(nvidia-smi -L 2>/dev/null | while read -r kind name rest; do
	case $kind in
	GPU) at=${name%:} ;;
	MIG)
		uuid=${rest##*UUID: }
		printf '%s %s %s\n' "$at" "${uuid%)}" "$name"
		;;
	esac
done)

found=0
failed=0

# compute UUID INDEX NAME DRIVER MEMORY
compute() {
	found=$((found + 1))
	out=$(CUDA_VISIBLE_DEVICES=$1 "$sample" </dev/null 2>&1)
	status=$?
	verdict=FAILED
	# shellcheck disable=SC2086
	detail=$(brief $out)
	case $status:$out in
	0:*'Test PASSED'*) verdict=PASSED detail= ;;
	*) failed=$((failed + 1)) ;;
	esac
	say "gpu|$1|$2|$verdict|$3|$4|$5|$detail"
}

while IFS=, read -r index uuid name driver memory; do
	if [ -z "$uuid" ]; then continue; fi
	uuid=${uuid# } name=${name# } driver=${driver# } memory=${memory# }
	whole=1
	while read -r at part profile; do
		if [ -z "$at" ] || [ "$at" != "$index" ]; then continue; fi
		whole=0
		compute "$part" "$index" "$name MIG $profile" "$driver" ""
	done <<PARTS
$instances
PARTS
	if [ "$whole" = 1 ]; then compute "$uuid" "$index" "$name" "$driver" "$memory"; fi
done <<LIST
$list
LIST

if [ "$found" -eq 0 ] || [ "$found" -ne "$expected" ]; then
	say "error|$found GPUs, expected $expected"
	exit 1
fi
[ "$failed" -eq 0 ]
