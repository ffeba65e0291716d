# shellcheck shell=sh
# Prints nothing where systemd is the init (sd_booted(3)), else what is: its process, and OpenRC
# as K3s' installer tells it.
[ ! -d /run/systemd/system ] || exit 0
init=$(cat /proc/1/comm 2>/dev/null) || init=unknown
[ ! -x /sbin/openrc-run ] || init="$init, with OpenRC"
echo "$init"
