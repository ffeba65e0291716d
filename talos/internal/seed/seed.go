// Package seed makes the disc that a Talos machine finds at its first boot, and at each one after that. It has the
// machine's name and addresses, and nothing else: with it a machine waits, at its own address, for a configuration
// that is sent to it (package machine). It has no secret: others can read the storage.
package seed

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cloudinit"
)

// Render returns the documents. Talos reads of the network what is here (platform/nocloud of its source): it finds
// cards by their MAC, and takes addresses, routes, DNS servers and the MTU. user-data must be there, and begins with
// #cloud-config, which tells Talos that it is not for it; without user-data some versions hang
// (siderolabs/talos#10541).
//
// A further card with DHCP is refused: Talos would take its default route too.
func Render(m cloudinit.Machine) (cloudinit.NoCloud, error) {
	if i := slices.IndexFunc(m.Cards, func(c cloudinit.Card) bool { return c.DHCP }); i >= 0 {
		return cloudinit.NoCloud{}, fmt.Errorf("machine %q: the card %s has its address from DHCP: Talos would also use its default route, so give it a static address", m.Hostname, m.Cards[i].Name)
	}
	if m.InstanceID == "" {
		m.InstanceID = m.Hostname
	}
	if len(m.AuthorizedKeys) == 0 {
		m.AuthorizedKeys = []string{"nobody logs in"} // of the user-data, which is removed
	}
	doc, err := cloudinit.RenderPlain(m)
	doc.UserData = cloudinit.UserData{}
	return doc, err
}
