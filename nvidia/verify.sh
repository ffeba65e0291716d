#!/bin/sh
# Computes on every GPU of this container and says how it went: one line a GPU, to
# stdout and to the file from which Kubernetes takes a container's last words. Fails
# unless there are as many GPUs as expected, not none, and all of them compute.
#
#   verify.sh EXPECTED [LOG [SAMPLE]]
#
# EXPECTED is the number of GPUs. SAMPLE is NVIDIA's vectorAdd, which adds two
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

found=0
failed=0
while IFS=, read -r index uuid name driver memory; do
	if [ -z "$uuid" ]; then continue; fi
	found=$((found + 1))
	uuid=${uuid# } name=${name# } driver=${driver# } memory=${memory# }
	out=$(CUDA_VISIBLE_DEVICES=$uuid "$sample" </dev/null 2>&1)
	status=$?
	verdict=FAILED
	# shellcheck disable=SC2086
	detail=$(brief $out)
	case $status:$out in
	0:*'Test PASSED'*) verdict=PASSED detail= ;;
	*) failed=$((failed + 1)) ;;
	esac
	say "gpu|$uuid|$index|$verdict|$name|$driver|$memory|$detail"
done <<LIST
$list
LIST

if [ "$found" -eq 0 ] || [ "$found" -ne "$expected" ]; then
	say "error|$found GPUs, expected $expected"
	exit 1
fi
[ "$failed" -eq 0 ]
