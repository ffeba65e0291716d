package pvesim

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// VMState is a VM as a test sees it, anyone who may not.
type VMState struct {
	ID       int
	Node     string
	Name     string
	Running  bool
	Template bool
	Config   map[string]string // with what is pending
	Pending  map[string]string // "" is a pending deletion
	PCI      []string          // host functions in use
	Guest    *guest.Machine    // nil where nobody lives, or somebody real
}

// VMs returns every VM of the cluster, by ID.
func (s *Sim) VMs() []VMState {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	var out []VMState
	for _, v := range s.state.sorted() {
		out = append(out, VMState{ID: v.id, Node: v.node, Name: v.wanted()["name"], Running: v.running, Template: v.template(),
			Config: maps.Clone(v.wanted()), Pending: maps.Clone(v.pending), PCI: slices.Clone(v.pci), Guest: v.simulatedGuest()})
	}
	return out
}

// Volume is something on a storage.
type Volume struct {
	ID      string // local:iso/seed.iso
	Node    string // empty on shared storage
	Content string // iso, import, images, …
	Size    int64
	Owner   int    // VMID, 0 for files
	Base    string // of a linked clone
}

// Volumes returns everything on every storage, by node and ID.
func (s *Sim) Volumes() []Volume {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	var out []Volume
	seen := map[*storage]bool{}
	for _, node := range s.state.nodes() {
		h := s.state.hosts[node]
		for _, name := range slices.Sorted(maps.Keys(h.storages)) {
			st := h.storages[name]
			if seen[st] {
				continue
			}
			seen[st] = true
			for _, n := range slices.Sorted(maps.Keys(st.volumes)) {
				v := st.volumes[n]
				vol := Volume{ID: name + ":" + n, Node: st.host, Content: v.content, Size: v.size, Owner: v.owner}
				if v.base != nil {
					vol.Base = name + ":" + v.base.name
				}
				out = append(out, vol)
			}
		}
	}
	return out
}

// ReadVolume returns what is in an ISO or another file, nil where there is none of
// that ID on a node.
func (s *Sim) ReadVolume(node, id string) []byte {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	name, path, _ := strings.Cut(id, ":")
	h := s.state.hosts[node]
	if h == nil || h.storages[name] == nil || h.storages[name].volumes[path] == nil {
		return nil
	}
	return slices.Clone(h.storages[name].volumes[path].data)
}

// Mapping is a PCI resource mapping as a test sees it.
type Mapping struct {
	ID          string
	Description string
	Devices     []string // as they were given: node=…,path=…,id=…
}

// Mappings returns every PCI resource mapping, by ID.
func (s *Sim) Mappings() []Mapping {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	var out []Mapping
	for _, id := range slices.Sorted(maps.Keys(s.state.mappings)) {
		m := s.state.mappings[id]
		out = append(out, Mapping{ID: id, Description: m.description, Devices: slices.Clone(m.entries)})
	}
	return out
}

// SetGuestFaults changes what goes wrong in a VM's guest, now and at later starts.
func (s *Sim) SetGuestFaults(vmid int, f guest.Faults) {
	s.state.mu.Lock()
	v := s.state.vms[vmid]
	var m *guest.Machine
	if v != nil {
		v.faults, m = f, v.simulatedGuest()
	}
	s.state.mu.Unlock()
	if m != nil {
		m.SetFaults(f)
	}
}

// changeHardware lets a test take a card out of a host, or move it.
func (s *state) changeHardware(node string, change func(devices map[string]*PCIDevice)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[node]; h != nil {
		change(h.devices)
	}
}

// AddVM puts a VM of somebody else onto a host, as if it had always been there.
func (s *Sim) AddVM(v VM) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.adopt(v)
	if s.state.round > 0 {
		s.state.told[v.ID] = lastWord{time.Now(), s.state.figures(s.state.vms[v.ID], time.Now())}
	}
}

// LockVM puts a lock such as "backup" on a VM, as another program's work does; an
// empty one removes it.
func (s *Sim) LockVM(vmid int, lock string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	v := s.state.vms[vmid]
	switch {
	case v == nil:
	case lock == "":
		v.unset("lock")
	default:
		v.set("lock", lock)
	}
}

// SetOption sets an option of the datacenter, such as user-tag-access, as root does; an
// empty value removes it.
func (s *Sim) SetOption(key, value string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	options := maps.Clone(s.state.options)
	if options == nil {
		options = map[string]string{}
	}
	if options[key] = value; value == "" {
		delete(options, key)
	}
	s.state.options = options
}

// AddMapping puts a resource mapping there, right or wrong, as if it had always
// been; devices are as given: node=…,path=…,id=…
func (s *Sim) AddMapping(id, description string, devices ...string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.mappings[id] = &mapping{id: id, description: description, entries: devices}
}

// Hold takes a file lock, as a process does that the simulator knows nothing of:
// /var/lock/qemu-server/lock-100.conf, node/var/lock/pve-manager/pve-storage-vmdata,
// file-user_cfg. It waits for who has it, and returns what gives it back.
func (s *Sim) Hold(file string) (release func()) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	unlock, err := worker{s: s.state}.lock(file, false, time.Hour)
	if err != nil {
		return func() {}
	}
	return func() {
		s.state.mu.Lock()
		defer s.state.mu.Unlock()
		unlock()
	}
}

// Settle waits until no task runs, or the Sim is closed.
func (s *Sim) Settle() {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for slices.ContainsFunc(s.state.order, (*task).running) && s.state.wait(100*time.Millisecond, nil) == nil {
	}
}

// TLS returns a self-signed certificate for a server of [Sim.Handler], made once,
// and its SHA-256 fingerprint as Proxmox shows it.
func (s *Sim) TLS() (tls.Certificate, string, error) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.cert == nil {
		cert, err := selfSigned(s.state.nodes())
		if err != nil {
			return tls.Certificate{}, "", fmt.Errorf("pvesim: certificate: %w", err)
		}
		s.state.cert = &cert
	}
	return *s.state.cert, fingerprint(s.state.cert.Certificate[0]), nil
}

// SetRole makes a role, or replaces what it grants.
func (s *Sim) SetRole(id string, privs ...string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.access.setRole(id, privs)
}

// Revoke removes privileges from every role of the model; what a test of a
// refused permission begins with.
func (s *Sim) Revoke(privs ...string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for id, role := range s.state.access.roles {
		if id == "Administrator" {
			continue
		}
		for _, p := range privs {
			delete(role, p)
		}
	}
}
