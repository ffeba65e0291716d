package spec

import "fmt"

// Unfilled returns the fields that reading a file always fills in and that are empty here, by
// their path, as in "Nodes[2].MAC". A Spec that was written in Go has such fields: what they stand
// for would silently be left out of the cluster.
func (s *Spec) Unfilled() []string {
	var out []string
	need := func(there bool, path string, args ...any) {
		if !there {
			out = append(out, fmt.Sprintf(path, args...))
		}
	}
	need(s.Name != "", "Name")
	need(len(s.Servers()) > 0, "Nodes: one with Role: spec.Server")
	need(s.K3s.Version != "", "K3s.Version")
	need(s.K3s.PodCIDR.IsValid(), "K3s.PodCIDR")
	need(s.K3s.ServiceCIDR.IsValid(), "K3s.ServiceCIDR")
	need(s.Access.User != "", "Access.User")
	need(s.NVIDIA.Stack != "", "NVIDIA.Stack")
	need(s.NVIDIA.DriverMode != "", "NVIDIA.DriverMode")
	for i, n := range s.Nodes {
		need(n.Name != "", "Nodes[%d].Name", i)
		need(n.Role != "", "Nodes[%d].Role", i)
		need(n.GPUs.Count == 0 || n.GPUs.Sharing.Strategy != "", "Nodes[%d].GPUs.Sharing.Strategy", i)
		if n.External {
			continue
		}
		need(n.Host != "", "Nodes[%d].Host", i)
		need(n.MAC != MAC{}, "Nodes[%d].MAC", i)
		need(n.Cores > 0, "Nodes[%d].Cores", i)
		need(n.Memory > 0, "Nodes[%d].Memory", i)
		need(n.Network.Bridge != "", "Nodes[%d].Network.Bridge", i)
		need(n.OSDisk.Storage != "", "Nodes[%d].OSDisk.Storage", i)
	}
	return out
}
