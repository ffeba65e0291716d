package talosnodes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/limit"
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

// IdentityFile names a file with private keys of age, for a file of secrets that was written with another token.
const IdentityFile = "HOMELAB_AGE_IDENTITY"

func store(site distribution.Site) (*secrets.Store, error) {
	s := &secrets.Store{Folder: site.Spec.Dir, Cluster: site.Spec.Name, Token: site.Token, Recipients: site.Spec.K3s.Snapshots.Recipients}
	name := os.Getenv(IdentityFile)
	if name == "" {
		return s, nil
	}
	text, err := limit.File(name, limit.Named)
	if err == nil {
		s.Identities, err = age.ParseIdentities(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", IdentityFile, err)
	}
	return s, nil
}

// read returns the secrets; nil: there is no file.
func (k *Keeper) read(site distribution.Site) (_ *secrets.Bundle, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bundle != nil {
		return k.bundle, nil
	}
	s, err := store(site)
	if err == nil {
		k.bundle, err = s.Read()
	}
	return k.bundle, err
}

func (k *Keeper) open(ctx context.Context, site distribution.Site, running secrets.Running) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := store(site)
	if err == nil {
		k.bundle, err = s.Open(ctx, running)
	}
	return err
}

// pins are the checksums of the cluster's images. The keeper is locked.
func (k *Keeper) pins(s *spec.Spec) *image.Pins {
	p := image.NewPins(s.Dir, s.Name)
	if k.Factory != nil {
		p.Factory = *k.Factory
	}
	return p
}

// sum is the checksum of an image. The factory builds it if it never did.
func (k *Keeper) sum(ctx context.Context, s *spec.Spec, of image.Schematic, url string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pins(s).SHA256(ctx, of, url)
}

// announce makes the factory know what an installer is to have.
func (k *Keeper) announce(ctx context.Context, s *spec.Spec, of image.Schematic) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pins(s).Announce(ctx, of)
}
