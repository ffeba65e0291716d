package talosnodes

import (
	"context"
	"sync"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/talos/internal/image"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// Keeper has what a cluster keeps beside its file: its secrets, and the checksums of its images. It is for one
// cluster, and safe for concurrent use. Its zero value is for a file on the disk.
type Keeper struct {
	// Factory is Talos' image factory; nil: the real one.
	Factory *image.Factory

	mu     sync.Mutex
	bundle *secrets.Bundle
}

// Maker makes the Nodes of each run of one program, which share what the file keeps.
func Maker(keeper *Keeper) distribution.Maker {
	return func(site distribution.Site) distribution.Distribution { return New(site, keeper) }
}

func store(site distribution.Site) *secrets.Store {
	return &secrets.Store{Folder: site.Spec.Dir, Cluster: site.Spec.Name, Token: site.Token, Recipients: site.Spec.K3s.Snapshots.Recipients}
}

// read returns the secrets; nil: there is no file.
func (k *Keeper) read(site distribution.Site) (_ *secrets.Bundle, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bundle == nil {
		k.bundle, err = store(site).Read()
	}
	return k.bundle, err
}

func (k *Keeper) open(ctx context.Context, site distribution.Site, running secrets.Running) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bundle, err = store(site).Open(ctx, running)
	return err
}

// sum is the checksum of an image. The factory builds it if it never did.
func (k *Keeper) sum(ctx context.Context, s *spec.Spec, of image.Schematic, url string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := image.NewPins(s.Dir, s.Name)
	if k.Factory != nil {
		p.Factory = *k.Factory
	}
	return p.SHA256(ctx, of, url)
}
