#!/bin/bash
# Fetches a file of weights into a volume whose lock the caller holds, and checks it, unless it is there.
# Usage: weights.sh URL FILE [SHA256]; $0 is the model, and HF_TOKEN what the URL's server asks for, if it does.
set -euo pipefail
url=$1 file=$2 want=${3:-}
part=$file.part

# request is curl with the token, which is in no argument.
request() {
	if [ -n "${HF_TOKEN:-}" ]; then
		printf 'Authorization: Bearer %s\n' "$HF_TOKEN" | curl --header @- --connect-timeout 30 "$@"
	else
		curl --connect-timeout 30 "$@"
	fi
}

refuse() {
	echo "$0: $url has the digest $1, not $want" >&2
	exit 1
}

if [ -e "$file" ]; then
	exit 0
fi
mkdir -p "${file%/*}"

# Hugging Face has a file's digest in a header, so a wrong one costs no download.
known=$(request --silent --max-time 60 --head "$url" | grep -i '^x-linked-etag:' | grep -oE '[0-9a-f]{64}') || known=
want=${want:-$known}
if [ -n "$known" ] && [ "$known" != "$want" ]; then
	refuse "$known"
fi

# An interrupted download keeps its part, which the next container continues.
echo "fetching $url"
headers=$(mktemp)
code=0
request --fail --location --speed-limit 1 --speed-time 60 --continue-at - --dump-header "$headers" --output "$part" "$url" 2>&1 | tr '\r' '\n' || code=$?
whole=33 # of curl: the server cannot continue a file
if [ "$code" = "$whole" ]; then
	rm "$part"
elif grep -q '^HTTP/[0-9.]* 416' "$headers"; then # nothing is missing
	code=0
fi
if [ "$code" != 0 ]; then
	exit "$code"
fi
if [ -n "$want" ]; then
	echo "checking $file"
	got=$(sha256sum "$part" | cut -d ' ' -f 1)
	if [ "$got" != "$want" ]; then
		rm "$part"
		refuse "$got"
	fi
fi
sync "$part"
mv "$part" "$file"
