package firstboot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/yamlbound"
	"github.com/cps-gpu/homelab/proxmox"
)

// earlierSeeds is about machines of earlier versions: the names of their seeds are digests
// that include keys which are no longer known, so the machines are asked. It is keyed by seed
// name.
type earlierSeeds struct {
	mu    sync.Mutex
	other map[string]bool // the seed differs from the file in more than the keys
}

// same is also true if the machine could not be asked: that is no reason to recreate it.
func (b *earlierSeeds) same(file string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.other[file]
}

func (b *earlierSeeds) asked(file string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, asked := b.other[file]
	return asked
}

func (b *earlierSeeds) learn(file string, other bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.other == nil {
		b.other = map[string]bool{}
	}
	b.other[file] = other
}

// UserDataFile is where cloud-init keeps the unchanged user-data of the seed of a machine's
// first boot (cloudinit/helpers.py, userdata_raw).
const UserDataFile = "/var/lib/cloud/instance/user-data.txt"

// instanceFile is where cloud-init keeps the instance-id of that seed. If the id changes,
// cloud-init runs the first boot again, with new host keys (cloudinit/stages.py).
const instanceFile = "/var/lib/cloud/data/instance-id"

// Recognise asks a machine of an earlier version for the keys of its seed: with these
// keys, today's seed must have the same name, or the file has changed.
func (m *Maker) Recognise(ctx context.Context, n spec.Node, vm *proxmox.VM) error {
	born := Boot(vm)
	if _, keys := seedParts(born); born == "" || n.Adopt || n.Role == spec.FileServer || keys != "" || m.earlier.asked(born) {
		return nil
	}
	sd, err := m.Seed(n)
	if err != nil {
		return err
	}
	earlier, err := sd.earlier()
	if err != nil || slices.Contains(earlier, born) || !vm.Running {
		return err
	}
	keys, known, err := m.told(ctx, vm)
	if err != nil {
		return ctx.Err() // a later run asks it again
	}
	if !known {
		m.earlier.learn(born, true)
		return nil
	}
	digest, err := seedDigest(m.spec, n, keys)
	if err != nil {
		return fmt.Errorf("the first boot of %s: %w", n.Name, err)
	}
	m.earlier.learn(born, names.Seed(m.spec, n.Name, digest) != born)
	return nil
}

// told asks a machine which keys its seed contained; known is false if the seed is not ours.
func (m *Maker) told(ctx context.Context, vm *proxmox.VM) (keys []string, known bool, err error) {
	text, err := run.InAgentTime(ctx, func(ctx context.Context) ([]byte, error) { return m.proxmox.AgentReadFile(ctx, vm, UserDataFile) })
	if err != nil {
		return nil, false, err
	}
	keys, known = userDataKeys(text)
	return keys, known, nil
}

// userDataKeys are the authorized keys in the user-data of one of our seeds. The file is not
// trusted: root in the machine may have changed it.
func userDataKeys(text []byte) (keys []string, known bool) {
	file, err := yamlbound.Parse(text)
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, false
	}
	var told struct {
		Users []struct {
			Keys []string `yaml:"ssh_authorized_keys"`
		} `yaml:"users"`
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, &told); err != nil || len(told.Users) != 1 {
		return nil, false
	}
	return told.Users[0].Keys, true
}

// Earlier is the seed that the first versions made for a node with those keys.
func (m *Maker) Earlier(n spec.Node, keys []string) (cloudinit.NoCloud, error) {
	return renderer(n)(cloudMachine(m.spec, n, keys))
}

// recreateSeed recreates the lost ISO of a machine's first boot with the same instance-id. If
// the id changed, cloud-init would run the first boot again at the next start.
func (m *Maker) recreateSeed(ctx context.Context, n spec.Node, born string) (func() ([]byte, error), error) {
	if content, keys := seedParts(born); keys != "" {
		return m.seedAs(n, n.Name+"-"+content)
	}
	vm, err := m.proxmox.VM(ctx, names.Tag(m.spec), n.Name)
	if err != nil || vm == nil {
		return nil, cmp.Or(err, fmt.Errorf("%s is gone", n.Name))
	}
	sets := m.earlierKeys()
	keys, known, why := m.told(ctx, vm)
	if known {
		sets = append(sets, keys)
	}
	for _, keys := range sets { // the same name means the same content
		doc, err := m.Earlier(n, keys)
		if err != nil {
			return nil, err
		}
		if digest, err := doc.Digest(); err != nil || names.Seed(m.spec, n.Name, digest) == born {
			return doc.ISO, err
		}
	}
	if n.Role == spec.FileServer && why == nil { // another version of the file may have created it
		id, err := run.InAgentTime(ctx, func(ctx context.Context) ([]byte, error) { return m.proxmox.AgentReadFile(ctx, vm, instanceFile) })
		if id := strings.TrimSpace(string(id)); err == nil && id != "" {
			return m.seedAs(n, id)
		}
		why = err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, m.lostSeedError(n, vm, born, why)
}

// seedAs is the current seed of a machine with that instance-id.
func (m *Maker) seedAs(n spec.Node, id string) (func() ([]byte, error), error) {
	machine := cloudMachine(m.spec, n, m.AuthorizedKeys())
	machine.InstanceID, machine.AgentFirst = id, true // the agent reports how the rest of the first boot goes
	doc, err := renderer(n)(machine)
	return doc.ISO, err
}

// lostSeedError is the error for a machine with a lost ISO that cannot be recreated.
func (m *Maker) lostSeedError(n spec.Node, vm *proxmox.VM, born string, why error) error {
	text := fmt.Sprintf("the first-boot ISO %s of %s, which an earlier version made, is missing, "+
		"and with another ISO cloud-init would run the first boot again", born, vm)
	cure := "start its guest agent, which knows what was in it"
	if !vm.Running {
		cure = fmt.Sprintf("start it without, as root on %s: qm set %d --delete ide2 && qm start %d", vm.Host, vm.VMID, vm.VMID)
	}
	cure = fmt.Sprintf("\n  run this with the key from its creation (ssh.privateKey, or in the folder with .homelab/%s/id_ed25519), or %s",
		m.spec.Name, cure)
	if why != nil {
		return converge.Permanent(fmt.Errorf("%s: %w%s", text, why, cure))
	}
	return converge.Permanent(fmt.Errorf("%s%s", text, cure))
}
