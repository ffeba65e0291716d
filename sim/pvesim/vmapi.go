package pvesim

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

func (c *call) listVMs() (any, error) {
	out := []any{}
	for _, v := range c.s.sorted() {
		if v.node != c.param("node") || !c.s.can(c.who, "/vms/"+strconv.Itoa(v.id), "VM.Audit") {
			continue
		}
		e := c.s.currentFigures(v)
		if c.p.bool("full") {
			e["qmpstatus"] = v.qmpStatus()
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) currentStatus() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	e := c.s.currentFigures(v)
	e["ha"] = map[string]any{"managed": 0}
	if c.s.entries(register{path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.id)] != nil {
		e["ha"] = map[string]any{"managed": 1, "state": nil}
	}
	e["qmpstatus"] = v.qmpStatus()
	if agentOn(v.conf) {
		e["agent"] = 1
	}
	if vga := c.s.props("vga", v.conf["vga"]); v.conf["vga"] != "" {
		if strings.HasPrefix(vga["type"], "virtio") || strings.HasPrefix(vga["type"], "qxl") {
			e["spice"] = 1
		}
		e["clipboard"] = nil
		if vga["clipboard"] != "" {
			e["clipboard"] = vga["clipboard"]
		}
	}
	if nics := v.nics(); v.running && len(nics) > 0 {
		e["nics"] = nics
	}
	return e, nil
}

// shownCPUs are no more than the host has, unless the number was set.
func (s *state) shownCPUs(v *vm) int {
	if v.conf["vcpus"] != "" {
		return v.cpus()
	}
	return min(v.cpus(), s.hosts[v.node].CPUs)
}

// nics are the figures of a running VM's network cards.
func (v *vm) nics() map[string]any {
	out := map[string]any{}
	for k := range v.conf {
		if netKey.MatchString(k) {
			out["tap"+strconv.Itoa(v.id)+"i"+strings.TrimPrefix(k, "net")] = map[string]any{"netin": 0, "netout": v.sent()}
		}
	}
	return out
}

func (v *vm) qmpStatus() string {
	switch {
	case v.paused:
		return "paused"
	case v.running:
		return "running"
	}
	return "stopped"
}

func (s *state) currentFigures(v *vm) map[string]any {
	e := map[string]any{
		"vmid": v.id, "name": v.called(), "status": v.status(), "cpus": s.shownCPUs(v), "maxmem": v.memory(), "maxdisk": v.diskSize(s),
		"cpu": 0, "mem": 0, "memhost": 0, "disk": 0, "uptime": 0, "netin": 0, "netout": 0,
	}
	if v.running {
		e["pid"], e["uptime"], e["mem"] = v.pid, int(time.Since(v.since)/time.Second), v.memory()/2
		e["netout"] = v.sent()
		for _, what := range []string{"cpu", "io", "memory"} {
			e["pressure"+what+"some"], e["pressure"+what+"full"] = 0, 0
		}
	}
	for k := range v.conf {
		if serialKey.MatchString(k) {
			e["serial"] = 1
		}
	}
	if balloon := atoi(v.conf["balloon"]); balloon > 0 {
		e["balloon_min"], e["shares"] = int64(balloon)<<20, 1000
		if shares := v.conf["shares"]; shares != "" {
			e["shares"] = atoi(shares)
		}
	}
	if !s.nine() {
		maps.DeleteFunc(e, func(k string, _ any) bool { return k == "memhost" || strings.HasPrefix(k, "pressure") })
	}
	if v.template() {
		e["template"] = 1
	}
	for _, k := range []string{"tags", "lock"} {
		if value := v.wanted()[k]; value != "" {
			e[k] = value
		}
	}
	return e
}

// sent is what a running VM has sent over its network since its start, in bytes: the
// counter of its tap device on the host, which begins to move when its kernel has
// the network up.
func (v *vm) sent() int {
	if v.machine == nil || !v.machine.Talks() {
		return 0
	}
	return 1024 + 64*int(time.Since(v.since)/time.Second)
}

// agentOn reports whether a configuration says that there is a guest agent.
func agentOn(conf map[string]string) bool {
	first, _, _ := strings.Cut(conf["agent"], ",")
	switch parseBool(strings.TrimPrefix(first, "enabled=")) {
	case "1":
		return true
	}
	return false
}
