package nodes

import (
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// points are how far those of a history are apart, and how many there are.
type points struct {
	step time.Duration
	n    int
}

// historyOf is a time frame's, in Proxmox VE 9 and before (PVE/RRD.pm, create_rrd_data).
func historyOf(frame string, old bool) points {
	const day = 24 * time.Hour
	now := map[string]points{"hour": {time.Minute, 60}, "day": {time.Minute, 1440}, "week": {30 * time.Minute, 336},
		"month": {30 * time.Minute, 1440}, "year": {6 * time.Hour, 1440}, "decade": {7 * day, 570}}
	before := map[string]points{"hour": {time.Minute, 60}, "day": {30 * time.Minute, 70}, "week": {3 * time.Hour, 70},
		"month": {12 * time.Hour, 70}, "year": {7 * day, 70}, "decade": {7 * day, 70}}
	if old {
		return before[frame]
	}
	return now[frame]
}

// History is points of figures that never change much.
func History(c *world.Call, figures map[string]any) []any {
	p := historyOf(c.Param("timeframe"), strings.HasPrefix(c.State.Version, "8."))
	now := time.Now().Truncate(p.step)
	out := make([]any, 0, p.n)
	for i := range p.n {
		e := map[string]any{"time": now.Add(time.Duration(i+1-p.n) * p.step).Unix()}
		for k, v := range figures {
			e[k] = v
		}
		out = append(out, e)
	}
	return out
}

// NoHistory is what a VM is answered with that has never run.
func NoHistory(vmid int) error {
	return answer.Die("RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening '/var/lib/rrdcached/db/pve-vm-9.0/%d': "+
		"No such file or directory", vmid)
}
