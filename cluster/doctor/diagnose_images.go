package doctor

import (
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// peerLabel is what K3s gives a Node when its embedded registry begins there (pkg/spegel/bootstrap.go). It stays when the
// registry is switched off.
const peerLabel = "p2p.k3s.cattle.io/enabled"

// imagePeers judges which nodes give images to each other, if the file wants that.
func (d *diagnosis) imagePeers() {
	if !d.e.Spec.K3s.EmbeddedRegistry {
		return
	}
	var alone []string
	for _, n := range d.e.Nodes {
		if _, ours := d.nodeOfFile(n.Name); ours && n.Ready && n.Labels[peerLabel] != "true" {
			alone = append(alone, printable.Word(n.Name))
		}
	}
	if len(alone) == 0 {
		return
	}
	d.add(inKubernetes, "", Finding{
		Failure: "images-alone", Severity: Warning, Where: "nodes " + strings.Join(alone, ", "),
		What:     "K3s there neither takes images from other nodes nor gives them any, and pulls all from their registries (k3s.embeddedRegistry)",
		Evidence: []string{"no label " + peerLabel},
		Do:       "homelab cluster:up, or systemctl restart k3s-agent (k3s on a server) on " + alone[0] + ", whose journal has lines about its distributed registry mirror",
	})
}
