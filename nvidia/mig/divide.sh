#!/bin/sh
# Divides the GPUs of this machine as a file says: at every boot, since instances do not
# outlive a restart, and when the file changes. What is as it should be stays.
#
# usage: homelab-mig [mode]
# mode sets only the mode. On Ampere it needs a reset of the card, so it may stay pending
# until the machine has been off.
set -u

layout=/etc/homelab/mig.layout
verb=${1:-divide}

mode_of() { nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader; }

# The profiles of a GPU's instances, sorted, in one line.
instances() {
	nvidia-smi -L | while read -r kind name _; do
		case $kind in
		GPU) at=${name%:} ;;
		MIG) if [ "$at" = "$1" ]; then printf '%s\n' "$name"; fi ;;
		esac
	done | sort | tr '\n' ' '
}

# The profiles of a line of the file, in the same form: it has them as PROFILE:PLACE,…
profiles() {
	printf '%s\n' "$1" | tr ',' '\n' | while IFS=: read -r name _; do printf '%s\n' "$name"; done | sort | tr '\n' ' '
}

# Removes what a GPU is divided into.
clear_gpu() {
	# A GPU without instances is no error of -lgi in all drivers, but one of -dgi.
	if ! nvidia-smi mig -i "$1" -lgi 2>&1 | grep -q 'MIG [0-9]'; then return 0; fi
	nvidia-smi mig -i "$1" -dci >/dev/null 2>&1 # it may have none of those
	nvidia-smi mig -i "$1" -dgi
}

set_mode() {
	want=Enabled number=1
	if [ "$2" = off ]; then want=Disabled number=0; fi
	now=$(mode_of "$1")
	if [ "$now" = "$want" ]; then return 0; fi
	if [ "$number" = 0 ]; then
		if [ "$now" != Enabled ]; then return 0; fi # the card has no such mode
		clear_gpu "$1" || return 1
	fi
	nvidia-smi -i "$1" -mig "$number"
	if [ "$(mode_of "$1")" = "$want" ]; then return 0; fi
	echo "GPU $1: the MIG mode stays $now until the machine has been switched off and on"
	return 1
}

divide() {
	set_mode "$1" "$2" || return 1
	if [ "$2" = off ] || [ "$verb" = mode ]; then return 0; fi
	if [ "$(instances "$1")" = "$(profiles "$2")" ]; then return 0; fi
	clear_gpu "$1" || return 1
	nvidia-smi mig -i "$1" -cgi "$2" -C
}

failed=0
while read -r gpu want; do
	case $gpu in '' | '#'*) continue ;; esac
	if ! divide "$gpu" "$want"; then
		echo "GPU $gpu is not divided into $want"
		failed=1
	fi
done <"$layout"
exit "$failed"
