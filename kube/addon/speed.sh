# Writes a file of MIB MiB to the volume, reads it back past the node's memory, and compares.
# Its last words are "direct" or "cached", and what dd says of writing and of reading.
set -e
fails() {
	grep dd: "$1" >&2
	exit 1
}
dd if=/dev/urandom of=/mem/data bs=1M count="$MIB" 2>/mem/made || fails /mem/made
dd if=/mem/data of=/probe/data bs=1M conv=fsync 2>/mem/write || fails /mem/write
how=direct
dd if=/probe/data of=/mem/back bs=1M iflag=direct 2>/mem/read || {
	how=cached
	dd if=/probe/data of=/mem/back bs=1M 2>/mem/read || fails /mem/read
}
cmp /mem/data /mem/back >/mem/differ 2>&1 || {
	echo "what was read is not what was written: $(cat /mem/differ)" >&2
	exit 1
}
rm /probe/data
{
	echo "$how"
	tail -n 1 /mem/write
	tail -n 1 /mem/read
} >/dev/termination-log
