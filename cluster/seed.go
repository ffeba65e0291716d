package cluster

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// seed is the first-boot configuration of a node, as an image with its name. The image has
// the authorized keys, but they do not identify the machine: loginStep can change them
// later, so another key is not a reason to recreate it.
type seed struct {
	file    string   // its name on the storage
	earlier []string // what earlier versions called it, whose names were of the keys as well
	iso     func() ([]byte, error)
}

// anyKey stands for the keys where a seed gets its name.
const anyKey = "ssh-ed25519 (any)"

// seed renders a node's first boot, once: the file does not change under us, and
// many steps ask for the seed's name.
func (c *Cluster) seed(n spec.Node) (seed, error) { return c.seeds[n.Name]() }

func (c *Cluster) renderSeed(n spec.Node) (seed, error) {
	digest, err := seedDigest(c.spec, n, []string{anyKey})
	if err != nil {
		return seed{}, err
	}
	iso, err := c.seedAs(n, n.Name+"-"+digest[:12]) // not of the keys: cloud-init would take their change for another machine
	if err != nil {
		return seed{}, err
	}
	sd := seed{file: names.NodeSeed(c.spec, n.Name, digest, keysDigest(c.authorizedKeys())), iso: iso}
	for _, keys := range c.earlierKeys() {
		digest, err := seedDigest(c.spec, n, keys)
		if err != nil {
			return seed{}, err
		}
		sd.earlier = append(sd.earlier, names.Seed(c.spec, n.Name, digest))
	}
	return sd, nil
}

func renderer(n spec.Node) func(cloudinit.Machine) (cloudinit.NoCloud, error) {
	switch n.Role {
	case spec.Agent:
		return cloudinit.RenderWorker
	case spec.FileServer:
		return cloudinit.RenderPlain
	}
	return cloudinit.RenderServer
}

// seedDigest is that of a node's first boot with those keys, which was all of its seed's
// name once. That the agent comes first ([cloudinit.Machine.AgentFirst], see seedAs) is not
// in it: machines from before are no others for that.
func seedDigest(s *spec.Spec, n spec.Node, keys []string) (string, error) {
	doc, err := renderer(n)(cloudMachine(s, n, keys))
	if err != nil {
		return "", err
	}
	return doc.Digest()
}

// keysDigest is the same for the same keys in any order, whatever they are called.
func keysDigest(keys []string) string {
	var parts [][]byte
	for _, k := range keys {
		parts = append(parts, []byte(keyBlob(k)))
	}
	slices.SortFunc(parts, bytes.Compare)
	return cloudinit.Digest(parts...)
}

// keyBlob is the key itself in a line of authorized_keys that begins with its type.
func keyBlob(line string) string {
	if f := strings.Fields(line); len(f) > 1 {
		return f[1]
	}
	return ""
}

// authorizedKeys are the keys that the file names and those that we log in with.
func (c *Cluster) authorizedKeys() []string {
	keys := slices.Clone(c.spec.Access.PublicKeys)
	for _, s := range c.Signers {
		keys = append(keys, ssh.AuthorizedKey(s.PublicKey()))
	}
	if c.TokenKey != nil {
		keys = append(keys, ssh.AuthorizedKey(c.TokenKey.PublicKey())+" "+tokenNote(c.spec))
	}
	return distinct(keys)
}

// earlierKeys are those that earlier versions gave a machine, which knew of no TokenKey
// and of one key of ours at most.
func (c *Cluster) earlierKeys() (sets [][]string) {
	own := c.spec.Access.PublicKeys
	if len(own) > 0 {
		sets = append(sets, distinct(own))
	}
	for _, s := range c.Signers {
		sets = append(sets, distinct(append(slices.Clone(own), ssh.AuthorizedKey(s.PublicKey()))))
	}
	return sets
}

func distinct(keys []string) (out []string) {
	seen := map[string]bool{}
	for _, k := range keys {
		if blob := keyBlob(k); blob != "" && !seen[blob] {
			seen[blob] = true
			out = append(out, k)
		}
	}
	return out
}

// seeded is what there is of a node's first boot.
type seeded struct {
	file  string // the ISO that should be there
	there bool   // it is, or a machine that needs none
	lives bool   // its VM, which was made by another
}

// seedStep uploads the first-boot configuration of a node. An existing machine keeps its
// own; with anew the machine is about to be created, whatever exists now.
func (c *Cluster) seedStep(n spec.Node, anew bool) *converge.Resource[seeded] {
	storage := c.spec.Image.SeedStorage
	return &converge.Resource[seeded]{
		ID:      "seed/" + n.Name,
		Observe: func(ctx context.Context) (seeded, error) { return c.lookForSeed(ctx, n, anew) },
		Diff: func(s seeded) drift.Diff {
			switch {
			case s.there:
				return nil
			case s.lives: // what becomes of the VM can be looked at, and is for its own step to say
				return drift.Diff{{Want: "another first-boot ISO on " + storage, Effect: drift.Update}}
			}
			return drift.Diff{{Want: "first-boot ISO on " + storage, Effect: drift.Create, Note: c.spec.Placed[n.Name]}}
		},
		Apply: func(ctx context.Context, s seeded) error {
			sd, err := c.seed(n)
			if err != nil {
				return err
			}
			render := sd.iso
			if s.file != sd.file {
				if render, err = c.recreateSeed(ctx, n, s.file); err != nil {
					return err
				}
			}
			iso, err := render()
			if err != nil {
				return err
			}
			_, err = c.Proxmox.Upload(ctx, n.Host, storage, s.file, iso)
			return err
		},
	}
}

func (c *Cluster) lookForSeed(ctx context.Context, n spec.Node, anew bool) (seeded, error) {
	sd, err := c.seed(n)
	if err != nil {
		return seeded{}, err
	}
	volumes, err := c.Proxmox.Volumes(ctx, n.Host, c.spec.Image.SeedStorage, "")
	if err != nil {
		return seeded{}, err
	}
	there := func(file string) bool {
		return slices.ContainsFunc(volumes, func(v proxmox.Volume) bool { return v.Name() == file })
	}
	if have := there(sd.file); have || anew {
		return seeded{file: sd.file, there: have}, nil
	}
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return seeded{}, err
	}
	if err := c.recogniseSeed(ctx, n, vm); err != nil {
		return seeded{}, err
	}
	file := sd.file
	if born := bootSeed(vm); born != "" && c.sameExceptKeys(n, sd, born) {
		file = born
	}
	return seeded{file: file, there: there(file), lives: vm != nil && !vm.Unfinished && file == sd.file}, nil
}

// bootSeed is the name of the seed of a machine's first boot, "" where there was none yet.
func bootSeed(vm *proxmox.VM) string {
	if vm == nil || vm.Unfinished || vm.Seed == "" {
		return ""
	}
	return proxmox.Volume{ID: vm.Seed}.Name()
}

// keepBootSeed leaves a machine with the seed of its first boot if only the authorized keys
// differ. A file server always keeps its own: nothing recreates it.
func (c *Cluster) keepBootSeed(n spec.Node, spec proxmox.VMSpec, vm *proxmox.VM) proxmox.VMSpec {
	born := bootSeed(vm)
	if born == "" || n.Adopt {
		return spec
	}
	if sd, err := c.seed(n); err == nil && c.sameExceptKeys(n, sd, born) {
		spec.Seed = vm.Seed
	}
	return spec
}

// sameExceptKeys reports whether a machine's first-boot seed matches the file, except perhaps
// for the keys.
func (c *Cluster) sameExceptKeys(n spec.Node, sd seed, born string) bool {
	content, keys := seedParts(born)
	want, _ := seedParts(sd.file)
	switch {
	case n.Role == spec.FileServer, born == sd.file, slices.Contains(sd.earlier, born):
		return true
	case keys != "":
		return content == want
	}
	return c.earlierSeeds.same(born)
}

// seedParts takes the end of a seed's name apart; those of earlier versions have no keys.
func seedParts(file string) (content, keys string) {
	content, keys, _ = strings.Cut(strings.TrimSuffix(file[strings.LastIndexByte(file, '_')+1:], ".iso"), "-")
	return content, keys
}

// inDrive reports whether an outdated seed is in the drive of a machine of the file, which
// still needs it: Proxmox does not start a VM with a missing ISO in its drive.
func (c *Cluster) inDrive(ctx context.Context, v proxmox.Volume, k keep) (bool, error) {
	parts := strings.Split(v.Name(), "_") // as ownsFile has seen
	if k.nothing || !hasMachine(c.spec, parts[2]) {
		return false, nil
	}
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), parts[2])
	return vm != nil && proxmox.Volume{ID: vm.Seed}.Name() == v.Name(), err
}
