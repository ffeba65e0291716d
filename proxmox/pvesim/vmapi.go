package pvesim

import (
	"maps"
	"strings"
	"time"
)

func (c *call) listVMs() (any, error) {
	out := []any{}
	for _, v := range c.s.sorted() {
		if v.node != c.param("node") || !c.s.can(c.who, "/vms/"+itoa(v.id), "VM.Audit") {
			continue
		}
		e := c.s.currentFigures(v)
		delete(e, "ha")
		delete(e, "qmpstatus")
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
	e["qmpstatus"] = e["status"]
	if v.paused {
		e["qmpstatus"] = "paused"
	}
	if agentOn(v.conf) {
		e["agent"] = 1
	}
	if v.running {
		e["clipboard"] = nil
		e["nics"] = map[string]any{"tap" + itoa(v.id) + "i0": map[string]any{"netin": 0, "netout": e["netout"]}}
	}
	return e, nil
}

func (s *Sim) currentFigures(v *vm) map[string]any {
	e := map[string]any{
		"vmid": v.id, "name": v.called(), "status": v.status(), "cpus": v.cpus(), "maxmem": v.memory(), "maxdisk": v.diskSize(s),
		"cpu": 0, "mem": 0, "memhost": 0, "disk": 0, "uptime": 0, "netin": 0, "netout": 0,
	}
	if v.running {
		e["pid"], e["uptime"], e["mem"] = v.pid, int(time.Since(v.since)/time.Second), v.memory()/2
		e["netout"] = v.sent()
		for _, what := range []string{"cpu", "io", "memory"} {
			e["pressure"+what+"some"], e["pressure"+what+"full"] = 0, 0
		}
		if v.conf["serial0"] != "" {
			e["serial"] = 1
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
