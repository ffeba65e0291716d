package guests

import (
	"fmt"
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Adopt puts a VM of the model into place, with its volumes.
func Adopt(s *world.State, m model.VM) {
	v := &world.VM{ID: m.ID, Node: m.Node, Conf: map[string]string{"name": m.Name}, Since: s.Began}
	maps.Copy(v.Conf, m.Config)
	h := s.Hosts[m.Node]
	if h == nil {
		panic(fmt.Sprintf("pvesim: VM %d of the model is on node %q, which is none of its hosts", m.ID, m.Node))
	}
	if v.Conf["smbios1"] == "" {
		v.Conf["smbios1"] = "uuid=" + s.UUID()
	}
	if v.Conf["vmgenid"] == "" {
		v.Conf["vmgenid"] = s.UUID()
	}
	s.VMs[m.ID] = v
	for k, value := range v.Conf {
		if !world.IsDrive(k) {
			continue
		}
		d := s.Props(k, value)
		st, name := h.Volume(d["file"])
		if st != nil && d["media"] != "cdrom" {
			st.Volumes[name] = &world.Volume{Name: name, Content: "images", Format: world.FormatOf(st, name), Size: schema.ParseSize(d["size"]), Owner: m.ID, Made: s.Began}
		}
	}
	if m.Running {
		s.PIDs += 3
		v.PID = s.PIDs
		v.Others = true
		v.Power(true)
	}
}
