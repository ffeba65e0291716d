package firstboot

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Seed is the first-boot configuration of a node, as an image with its name. The image contains
// the authorized keys, but they do not identify the machine: loginStep can change them later,
// so another key is no reason to recreate it.
type Seed struct {
	File string // its name on the storage
	iso  func() ([]byte, error)
}

// UserDataFile is where cloud-init keeps the unchanged user-data of the seed of a machine's
// first boot (cloudinit/helpers.py, userdata_raw).
const UserDataFile = "/var/lib/cloud/instance/user-data.txt"

// anyKey stands for the keys when a seed gets its name.
const anyKey = "ssh-ed25519 (any)"

// Seed renders a node's first boot once: the file does not change during a run, and many steps
// ask for the seed's name.
func (m *Maker) Seed(n spec.Node) (Seed, error) { return m.seeds[n.Name]() }

func (m *Maker) renderSeed(n spec.Node) (Seed, error) {
	digest, err := m.seedDigest(n)
	if err != nil {
		return Seed{}, err
	}
	iso, err := m.seedAs(n, n.Name+"-"+digest[:12]) // independent of the keys: with another id cloud-init would see another machine
	if err != nil {
		return Seed{}, err
	}
	return Seed{File: names.NodeSeed(m.spec, n.Name, digest, keysDigest(m.AuthorizedKeys())), iso: iso}, nil
}

// seedAs is the current seed of a machine with that instance-id.
func (m *Maker) seedAs(n spec.Node, id string) (func() ([]byte, error), error) {
	machine := cloudMachine(m.spec, n, m.AuthorizedKeys())
	machine.InstanceID, machine.AgentFirst = id, true // the agent reports how the rest of the first boot goes
	doc, err := m.renderer(n)(machine)
	return doc.ISO, err
}

// Documents are the user-data and the network configuration of a machine's first boot, for a host that hands them
// over itself.
func (m *Maker) Documents(n spec.Node) (userData, network []byte, err error) {
	machine := cloudMachine(m.spec, n, m.AuthorizedKeys())
	machine.AgentFirst = true
	doc, err := m.renderer(n)(machine)
	if err != nil {
		return nil, nil, err
	}
	files, err := doc.Files()
	return files["user-data"], files["network-config"], err
}

func (m *Maker) renderer(n spec.Node) func(cloudinit.Machine) (cloudinit.NoCloud, error) {
	switch {
	case n.Role == spec.FileServer:
		return cloudinit.RenderPlain
	case n.Role == spec.PlainVM && n.Boot.System == spec.Windows:
		return cloudinit.RenderWindows
	case n.Role == spec.PlainVM:
		return cloudinit.RenderForeign
	case n.Boot != nil:
		return m.FirstBoot
	case n.Role == spec.Agent:
		return cloudinit.RenderWorker
	}
	return cloudinit.RenderServer
}

// seedDigest is the digest of a machine's first boot, whatever the keys, and of the image of a VM that is not a node: nodes
// go to another version of theirs.
func (m *Maker) seedDigest(n spec.Node) (string, error) {
	doc, err := m.renderer(n)(cloudMachine(m.spec, n, []string{anyKey}))
	if err != nil {
		return "", err
	}
	digest, err := doc.Digest()
	if err == nil && n.Role == spec.PlainVM {
		digest = cloudinit.Digest([]byte(digest), []byte(n.Boot.Source()))
	}
	return digest, err
}

// keysDigest is the same for the same keys in any order and with any comments.
func keysDigest(keys []string) string {
	var parts [][]byte
	for _, k := range keys {
		parts = append(parts, []byte(KeyBlob(k)))
	}
	slices.SortFunc(parts, bytes.Compare)
	return cloudinit.Digest(parts...)
}

// KeyBlob returns the key itself from a line of authorized_keys that begins with its type.
func KeyBlob(line string) string {
	if f := strings.Fields(line); len(f) > 1 {
		return f[1]
	}
	return ""
}

// AuthorizedKeys are the keys that the file names and those that we log in with.
func (m *Maker) AuthorizedKeys() []string {
	keys := slices.Clone(m.spec.Access.PublicKeys)
	for _, s := range m.signers {
		keys = append(keys, ssh.AuthorizedKey(s.PublicKey()))
	}
	if m.tokenKey != nil {
		keys = append(keys, ssh.AuthorizedKey(m.tokenKey.PublicKey())+" "+TokenNote(m.spec))
	}
	return Distinct(keys)
}

func Distinct(keys []string) (out []string) {
	seen := map[string]bool{}
	for _, k := range keys {
		if blob := KeyBlob(k); blob != "" && !seen[blob] {
			seen[blob] = true
			out = append(out, k)
		}
	}
	return out
}

// seedState is the state of a node's first-boot configuration.
type seedState struct {
	file  string // the wanted ISO
	there bool   // the ISO exists, or the machine needs none
	lives bool   // its VM exists, and was made with another ISO
}

// Step uploads the first-boot configuration of a node. An existing machine keeps its own. With
// fresh, the machine is about to be created, no matter what exists now.
func (m *Maker) Step(n spec.Node, fresh bool) *converge.Resource[seedState] {
	storage := m.spec.Image.SeedStorage
	return &converge.Resource[seedState]{
		ID:      "seed/" + n.Name,
		Observe: func(ctx context.Context) (seedState, error) { return m.findSeed(ctx, n, fresh) },
		Diff: func(s seedState) converge.Diff {
			switch {
			case s.there:
				return nil
			case s.lives: // the VM exists; its own step handles it
				return converge.Diff{{Want: "another first-boot ISO on " + storage, Effect: converge.Update}}
			}
			return converge.Diff{{Want: "first-boot ISO on " + storage, Effect: converge.Create, Note: m.spec.Placed[n.Name]}}
		},
		Apply: func(ctx context.Context, s seedState) error {
			sd, err := m.Seed(n)
			if err != nil {
				return err
			}
			render := sd.iso
			if s.file != sd.File { // with another instance-id, cloud-init would run the first boot again at the next start
				if render, err = m.seedAs(n, n.Name+"-"+seedContent(s.file)); err != nil {
					return err
				}
			}
			iso, err := render()
			if err != nil {
				return err
			}
			_, err = m.proxmox.Storages.Upload(ctx, n.Host, storage, s.file, iso)
			return err
		},
	}
}

func (m *Maker) findSeed(ctx context.Context, n spec.Node, fresh bool) (seedState, error) {
	sd, err := m.Seed(n)
	if err != nil {
		return seedState{}, err
	}
	volumes, err := m.proxmox.Storages.Volumes(ctx, n.Host, m.spec.Image.SeedStorage, "")
	if err != nil {
		return seedState{}, err
	}
	there := func(file string) bool {
		return slices.ContainsFunc(volumes, func(v proxmox.Volume) bool { return v.Name() == file })
	}
	if have := there(sd.File); have || fresh {
		return seedState{file: sd.File, there: have}, nil
	}
	vm, err := m.proxmox.VMs.Get(ctx, names.Tag(m.spec), n.Name)
	if err != nil {
		return seedState{}, err
	}
	file := sd.File
	if born := Boot(vm); born != "" && equalExceptKeys(n, sd, born) {
		file = born
	}
	return seedState{file: file, there: there(file), lives: vm != nil && !vm.Unfinished && file == sd.File}, nil
}

// Boot is the name of the seed of a machine's first boot, "" if there was none yet.
func Boot(vm *proxmox.VM) string {
	if vm == nil || vm.Unfinished || vm.Seed == "" {
		return ""
	}
	return proxmox.Volume{ID: vm.Seed}.Name()
}

// KeepSeed leaves a machine the seed of its first boot if only the authorized keys differ. A
// file server always keeps its own: nothing recreates it.
func (m *Maker) KeepSeed(n spec.Node, to proxmox.VMSpec, vm *proxmox.VM) proxmox.VMSpec {
	born := Boot(vm)
	if born == "" || n.Adopt {
		return to
	}
	if sd, err := m.Seed(n); err == nil && equalExceptKeys(n, sd, born) {
		to.Seed = vm.Seed
	}
	return to
}

// equalExceptKeys reports whether a machine's first-boot seed matches the file, perhaps except
// for the keys.
func equalExceptKeys(n spec.Node, sd Seed, born string) bool {
	return n.Role == spec.FileServer || seedContent(born) == seedContent(sd.File)
}

// seedContent is the digest of the contents, without the keys, in a seed's name.
func seedContent(file string) string {
	content, _, _ := strings.Cut(file[strings.LastIndexByte(file, '_')+1:], "-")
	return content
}

// TokenNote is the comment of a token's key in authorized_keys. It stays the same when the
// token gets another secret, so the key of the earlier secret is removed when the new one is
// added.
func TokenNote(s *spec.Spec) string { return "homelab-token:" + cmp.Or(s.Proxmox.TokenID, s.Name) }
