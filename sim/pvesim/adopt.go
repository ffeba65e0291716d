package pvesim

import (
	"fmt"
	"maps"
)

// adopt puts a VM of the model into place, with its volumes.
func (s *state) adopt(m VM) {
	v := &vm{id: m.ID, node: m.Node, conf: map[string]string{"name": m.Name}, since: s.began}
	maps.Copy(v.conf, m.Config)
	h := s.hosts[m.Node]
	if h == nil {
		panic(fmt.Sprintf("pvesim: VM %d of the model is on node %q, which is none of its hosts", m.ID, m.Node))
	}
	if v.conf["smbios1"] == "" {
		v.conf["smbios1"] = "uuid=" + s.uuid()
	}
	if v.conf["vmgenid"] == "" {
		v.conf["vmgenid"] = s.uuid()
	}
	s.vms[m.ID] = v
	for k, value := range v.conf {
		if !isDrive(k) {
			continue
		}
		d := s.props(k, value)
		st, name := h.volume(d["file"])
		if st != nil && d["media"] != "cdrom" {
			st.volumes[name] = &volume{name: name, content: "images", format: formatOf(st, name), size: parseSize(d["size"]), owner: m.ID, made: s.began}
		}
	}
	if m.Running {
		s.pids += 3
		v.pid = s.pids
		v.others = true
		v.power(true)
	}
}
