# What only the host itself tells, read and not changed. Output: lines of a word and a value.
set -u
echo "kernel $(uname -r)"
echo "cmdline $(cat /proc/cmdline)"
for f in /etc/modules /etc/modules-load.d/*.conf /etc/initramfs-tools/modules; do
	[ -e "$f" ] || continue
	while read -r module rest || [ -n "$module" ]; do
		case "$module" in '' | '#'*) continue ;; esac
		echo "module $module $f"
	done <"$f"
done
for d in /sys/bus/pci/devices/*; do
	[ "$(cat "$d/vendor")" = 0x10de ] || continue
	driver=$(readlink "$d/driver") || driver=
	vga=$(cat "$d/boot_vga" 2>/dev/null) || vga=
	echo "pci ${d##*/} ${driver##*/} $([ "$vga" = 1 ] && echo boot_vga)"
done
