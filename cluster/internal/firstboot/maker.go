package firstboot

import (
	"sync"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Maker makes the seeds of a cluster's machines. It is safe for concurrent use.
type Maker struct {
	spec     *spec.Spec
	proxmox  *proxmox.Client // nil where every machine is external
	signers  []ssh.Signer    // keys to log in with, which a machine has from its first boot on
	tokenKey ssh.Signer      // an additional key, of the API token; may be nil

	// FirstBoot renders nodes that boot an image of their own. It is set before the first seed.
	FirstBoot func(cloudinit.Machine) (cloudinit.NoCloud, error)

	seeds map[string]func() (Seed, error) // by machine name
	had   seedsHad
}

// New makes a Maker. signers and tokenKey, which may be nil, are keys that a machine has from
// its first boot on, in addition to those of the file. client is nil if every machine is
// external.
func New(want *spec.Spec, client *proxmox.Client, signers []ssh.Signer, tokenKey ssh.Signer) *Maker {
	m := &Maker{spec: want, proxmox: client, signers: signers, tokenKey: tokenKey, seeds: map[string]func() (Seed, error){}}
	for _, n := range want.Machines() {
		m.seeds[n.Name] = sync.OnceValues(func() (Seed, error) { return m.renderSeed(n) })
	}
	return m
}
