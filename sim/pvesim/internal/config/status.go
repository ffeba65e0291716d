package config

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func listVMs(c *world.Call) (any, error) {
	out := []any{}
	for _, v := range c.State.VMsByID() {
		if v.Node != c.Param("node") || !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(v.ID), "VM.Audit") {
			continue
		}
		e := currentFigures(c.State, v)
		if c.Params.Bool("full") {
			e["qmpstatus"] = QMPStatus(v)
		}
		out = append(out, e)
	}
	return out, nil
}

func currentStatus(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	e := currentFigures(c.State, v)
	e["ha"] = map[string]any{"managed": 0}
	if c.State.Entries(world.Register{Path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.ID)] != nil {
		e["ha"] = map[string]any{"managed": 1, "state": nil}
	}
	e["qmpstatus"] = QMPStatus(v)
	if AgentOn(v.Conf) {
		e["agent"] = 1
	}
	if vga := c.State.Props("vga", v.Conf["vga"]); v.Conf["vga"] != "" {
		if strings.HasPrefix(vga["type"], "virtio") || strings.HasPrefix(vga["type"], "qxl") {
			e["spice"] = 1
		}
		e["clipboard"] = nil
		if vga["clipboard"] != "" {
			e["clipboard"] = vga["clipboard"]
		}
	}
	if m, ok := v.Machine.(hypervisor.Meter); ok {
		e["blockstat"] = driveFigures(c.State, v, m)
	}
	if nics := nics(v); v.Running && len(nics) > 0 {
		e["nics"] = nics
	}
	return e, nil
}

// shownCPUs are no more than the host has, unless the number was set.
func shownCPUs(s *world.State, v *world.VM) int {
	if v.Conf["vcpus"] != "" {
		return v.CPUs()
	}
	return min(v.CPUs(), s.Hosts[v.Node].CPUs)
}

// nics are the figures of a running VM's network cards.
func nics(v *world.VM) map[string]any {
	out := map[string]any{}
	for k := range v.Conf {
		if world.NetKey.MatchString(k) {
			out["tap"+strconv.Itoa(v.ID)+"i"+strings.TrimPrefix(k, "net")] = map[string]any{"netin": 0, "netout": bytesSent(v)}
		}
	}
	return out
}

// driveFigures are what QEMU counts of drives: here of those that count while a system is installed.
func driveFigures(s *world.State, v *world.VM, m hypervisor.Meter) map[string]any {
	out := map[string]any{}
	figures := func(k string, t hypervisor.Traffic) {
		out[k] = map[string]any{"rd_bytes": t.Read, "wr_bytes": t.Written}
	}
	disk, disc := m.Traffic()
	figures(s.BootDisk(v.Conf), disk)
	_, order, _ := strings.Cut(v.Conf["boot"], "order=")
	for _, k := range schema.SplitList(order) {
		if world.IsDrive(k) && world.IsCDROM(s.Props(k, v.Conf[k])) {
			figures(k, disc)
			break
		}
	}
	return out
}

// QMPStatus is what QEMU says of a VM.
func QMPStatus(v *world.VM) string {
	switch {
	case v.Paused:
		return "paused"
	case v.Running:
		return "running"
	}
	return "stopped"
}

func currentFigures(s *world.State, v *world.VM) map[string]any {
	e := map[string]any{
		"vmid": v.ID, "name": v.DisplayName(), "status": v.Status(), "cpus": shownCPUs(s, v), "maxmem": v.Memory(), "maxdisk": v.DiskSize(s),
		"cpu": 0, "mem": 0, "memhost": 0, "disk": 0, "uptime": 0, "netin": 0, "netout": 0,
	}
	if v.Running {
		e["pid"], e["uptime"], e["mem"] = v.PID, int(time.Since(v.Since)/time.Second), v.Memory()/2
		e["netout"] = bytesSent(v)
		for _, what := range []string{"cpu", "io", "memory"} {
			e["pressure"+what+"some"], e["pressure"+what+"full"] = 0, 0
		}
	}
	for k := range v.Conf {
		if serialKey.MatchString(k) {
			e["serial"] = 1
		}
	}
	if balloon := schema.Atoi(v.Conf["balloon"]); balloon > 0 {
		e["balloon_min"], e["shares"] = int64(balloon)<<20, 1000
		if shares := v.Conf["shares"]; shares != "" {
			e["shares"] = schema.Atoi(shares)
		}
	}
	if !s.IsNine() {
		maps.DeleteFunc(e, func(k string, _ any) bool { return k == "memhost" || strings.HasPrefix(k, "pressure") })
	}
	if v.Template() {
		e["template"] = 1
	}
	for _, k := range []string{"tags", "lock"} {
		if value := v.PendingConf()[k]; value != "" {
			e[k] = value
		}
	}
	return e
}

// bytesSent is what a running VM has sent over its network since its start, in bytes: the
// counter of its tap device on the host, which begins to move when its kernel has
// the network up.
func bytesSent(v *world.VM) int {
	if v.Machine == nil || !v.Machine.Talks() {
		return 0
	}
	return 1024 + 64*int(time.Since(v.Since)/time.Second)
}

// AgentOn reports whether a configuration says that there is a guest agent.
func AgentOn(conf map[string]string) bool {
	first, _, _ := strings.Cut(conf["agent"], ",")
	switch schema.ParseBool(strings.TrimPrefix(first, "enabled=")) {
	case "1":
		return true
	}
	return false
}
