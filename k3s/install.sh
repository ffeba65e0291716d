#!/bin/sh
# Puts one exact release of K3s on this machine, checked against the release's
# own checksums, and prints "installed" or "unchanged". Each file is written
# beside its place and moved there when it is whole and right.
#
# usage: install.sh VERSION URL ARCH IMAGES SOURCE
#   URL     folder of the release, with the '+' of its version as %2B
#   ARCH    amd64, arm64 or arm
#   IMAGES  name of the air-gap tarball to install too, or empty
#   SOURCE  folder that holds the release's files already, or empty to fetch them
#
# exit status: 65 a checksum does not match, 66 the checksum file lacks a name,
# 69 a file could not be fetched
set -eu

version=$1
url=$2
arch=$3
images=$4
source=$5

bin=/usr/local/bin/k3s
agent=/var/lib/rancher/k3s/agent
stamp=$agent/homelab.images
temp=/var/lib/rancher/k3s/homelab.install

have_binary() {
	[ -x "$bin" ] || return 1
	case $("$bin" --version 2>/dev/null) in
	"k3s version $version "*) return 0 ;;
	esac
	return 1
}

have_images() {
	[ -z "$images" ] && return 0
	[ -f "$agent/images/$images" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$version" ]
}

fetch() {
	if [ -n "$source" ]; then
		cp "$source/$1" "$temp/$1" || {
			echo "cannot copy $source/$1" >&2
			exit 69
		}
		return
	fi
	curl --proto =https --fail --silent --show-error --location --retry 3 \
		--output "$temp/$1" "$url/$1" || {
		echo "cannot fetch $url/$1" >&2
		exit 69
	}
}

check() {
	want=
	while read -r sum name; do
		if [ "$name" = "$1" ]; then
			want=$sum
		fi
	done <"$temp/$sums"
	if [ -z "$want" ]; then
		echo "$sums of $version has no line for $1" >&2
		exit 66
	fi
	got=$(sha256sum "$temp/$1")
	got=${got%% *}
	if [ "$got" != "$want" ]; then
		echo "$1 of $version: sha256 is $got, the release says $want" >&2
		exit 65
	fi
}

if have_binary && have_images; then
	echo unchanged
	exit 0
fi

sums=sha256sum-$arch.txt
file=k3s
case $arch in
arm64) file=k3s-arm64 ;;
arm) file=k3s-armhf ;;
esac

umask 022
rm -rf "$temp"
mkdir -p "$temp" "$agent/images" "${bin%/*}"
fetch "$sums"

if ! have_images; then
	fetch "$images"
	check "$images"
	rm -f "$stamp"
	mv -f "$temp/$images" "$agent/images/$images"
	printf '%s\n' "$version" >"$stamp"
fi

if ! have_binary; then
	fetch "$file"
	check "$file"
	chmod 0755 "$temp/$file"
	# Over file systems a move is no longer atomic: copy beside, then move.
	cp "$temp/$file" "$bin.new"
	chmod 0755 "$bin.new"
	mv -f "$bin.new" "$bin"
fi

rm -rf "$temp"
echo installed
