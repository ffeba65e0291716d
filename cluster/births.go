package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/yamlbound"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

// births are machines of earlier versions, whose seeds' names were of keys that are not
// known any more: what the machines themselves say about that, by the seed's name.
type births struct {
	mu    sync.Mutex
	other map[string]bool // it was told something else than the file says now
}

// same is true of what nobody could be asked about: a machine is not recreated for that.
func (b *births) same(file string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.other[file]
}

func (b *births) asked(file string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, asked := b.other[file]
	return asked
}

func (b *births) learn(file string, other bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.other == nil {
		b.other = map[string]bool{}
	}
	b.other[file] = other
}

// toldFile is where cloud-init keeps the user-data of the seed that a machine has booted
// with, as it was (cloudinit/helpers.py, userdata_raw).
const toldFile = "/var/lib/cloud/instance/user-data.txt"

// instanceFile is where it keeps the instance-id of that seed. With another one a boot is
// the first of a new machine: new host keys, and everything is run again (cloudinit/stages.py).
const instanceFile = "/var/lib/cloud/data/instance-id"

// recognise asks a machine of an earlier version, whose seed's name tells us nothing,
// which keys it was told: with them the seed of today must have that name.
func (c *Cluster) recognise(ctx context.Context, n spec.Node, vm *proxmox.VM) error {
	born := bornWith(vm)
	if _, keys := seedParts(born); born == "" || n.Adopt || n.Role == spec.FileServer || keys != "" || c.births.asked(born) {
		return nil
	}
	sd, err := c.seed(n)
	if err != nil || slices.Contains(sd.earlier, born) || !vm.Running {
		return err
	}
	keys, known, err := c.told(ctx, vm)
	if err != nil {
		return ctx.Err() // it is asked another time
	}
	if !known {
		c.births.learn(born, true)
		return nil
	}
	digest, err := seedDigest(c.spec, n, keys)
	if err != nil {
		return fmt.Errorf("the first boot of %s: %w", n.Name, err)
	}
	c.births.learn(born, names.Seed(c.spec, n.Name, digest) != born)
	return nil
}

// told asks a machine which keys its seed let in; known is false where that is no seed of ours.
func (c *Cluster) told(ctx context.Context, vm *proxmox.VM) (keys []string, known bool, err error) {
	text, err := inAgentTime(ctx, func(ctx context.Context) ([]byte, error) { return c.Proxmox.AgentReadFile(ctx, vm, toldFile) })
	if err != nil {
		return nil, false, err
	}
	keys, known = toldKeys(text)
	return keys, known, nil
}

// toldKeys are the keys that the user-data of a seed of ours let in. Whoever is root in the
// machine may have written anything there.
func toldKeys(text []byte) (keys []string, known bool) {
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

// reborn makes the ISO again that a machine of ours was born with and that is gone, with
// the instance-id that it had: with another one cloud-init would take the machine for a new
// one when it starts again.
func (c *Cluster) reborn(ctx context.Context, n spec.Node, born string) (func() ([]byte, error), error) {
	if content, keys := seedParts(born); keys != "" {
		return c.seedAs(n, n.Name+"-"+content)
	}
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
	if err != nil || vm == nil {
		return nil, cmp.Or(err, fmt.Errorf("%s is gone", n.Name))
	}
	sets := c.earlierKeys()
	keys, known, why := c.told(ctx, vm)
	if known {
		sets = append(sets, keys)
	}
	for _, keys := range sets { // the same name is the same content
		doc, err := renderer(n)(cloudMachine(c.spec, n, keys))
		if err != nil {
			return nil, err
		}
		if digest, err := doc.Digest(); err != nil || names.Seed(c.spec, n.Name, digest) == born {
			return doc.ISO, err
		}
	}
	if n.Role == spec.FileServer && why == nil { // which may have been born as another file had it
		id, err := inAgentTime(ctx, func(ctx context.Context) ([]byte, error) { return c.Proxmox.AgentReadFile(ctx, vm, instanceFile) })
		if id := strings.TrimSpace(string(id)); err == nil && id != "" {
			return c.seedAs(n, id)
		}
		why = err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, c.unborn(n, vm, born, why)
}

// seedAs is today's seed of a machine that has that instance-id.
func (c *Cluster) seedAs(n spec.Node, id string) (func() ([]byte, error), error) {
	m := cloudMachine(c.spec, n, c.authorizedKeys())
	m.InstanceID, m.AgentFirst = id, true // it tells what became of the rest
	doc, err := renderer(n)(m)
	return doc.ISO, err
}

// unborn is the error of a machine whose ISO is gone and cannot be made again.
func (c *Cluster) unborn(n spec.Node, vm *proxmox.VM, born string, why error) error {
	text := fmt.Sprintf("the first-boot ISO %s of %s, which an earlier version made, is missing, "+
		"and with another ISO cloud-init would run the first boot again", born, vm)
	cure := "start its guest agent, which knows what was in it"
	if !vm.Running {
		cure = fmt.Sprintf("start it without, as root on %s: qm set %d --delete ide2 && qm start %d", vm.Host, vm.VMID, vm.VMID)
	}
	cure = fmt.Sprintf("\n  run this with the key from its creation (ssh.privateKey, or in the folder with .homelab/%s/id_ed25519), or %s",
		c.spec.Name, cure)
	if why != nil {
		return converge.Permanent(fmt.Errorf("%s: %w%s", text, why, cure))
	}
	return converge.Permanent(fmt.Errorf("%s%s", text, cure))
}
