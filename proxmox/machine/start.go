package machine

import (
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// StartTimeout returns how long Proxmox waits for a VM to start (config_aware_timeout in
// qemu-server): 30 s, plus a second per GiB above 30 GiB; four times that with a passed-through
// device, because all memory is pinned first; at least 150 s with huge pages; and 5 s per
// interface.
func StartTimeout(memory unit.Size, devices, nics int, hugepages bool) time.Duration {
	seconds := max(30, wire.InMiB(memory)/1024)
	if devices > 0 {
		seconds *= 4
	}
	if hugepages {
		seconds = max(seconds, 150)
	}
	return time.Duration(seconds+5*int64(nics)) * time.Second
}
