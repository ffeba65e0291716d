package k3s

import (
	"cmp"

	"github.com/goccy/go-yaml"
)

// peerLabel is of a Node whose K3s has begun to give images to others, and to take them from these. Nothing removes it
// (agentBootstrapper.Run, pkg/spegel/bootstrap.go).
const peerLabel = "p2p.k3s.cattle.io/enabled"

// sharesImages reports whether K3s' embedded registry begins: the server has it, of which an agent learns when it starts,
// and registries.yaml names a registry (Start, pkg/spegel/spegel.go).
func (n *node) sharesImages() bool {
	if !n.embedded {
		return false
	}
	var file struct{ Mirrors map[string]any }
	data, err := n.sys.Root().ReadFile(cmp.Or(n.cfg.get("private-registry"), etc+"/registries.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &file)
	}
	if err != nil || len(file.Mirrors) == 0 {
		n.say("error", "Not starting distributed registry mirror: no registries configured for distributed mirroring")
		return false
	}
	return true
}

// embeds reports whether a server has the embedded registry.
func (c config) embeds() bool { return c.get("embedded-registry") == "true" }
