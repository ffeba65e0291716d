package pvesim

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/guests"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
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
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	var out []VMState
	for _, v := range s.state.VMsByID() {
		out = append(out, VMState{ID: v.ID, Node: v.Node, Name: v.PendingConf()["name"], Running: v.Running, Template: v.Template(),
			Config: maps.Clone(v.PendingConf()), Pending: maps.Clone(v.Pending), PCI: slices.Clone(v.PCI), Guest: simulatedGuest(v)})
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
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	var out []Volume
	seen := map[*world.Storage]bool{}
	for _, node := range s.state.Nodes() {
		h := s.state.Hosts[node]
		for _, name := range slices.Sorted(maps.Keys(h.Stores)) {
			st := h.Stores[name]
			if seen[st] {
				continue
			}
			seen[st] = true
			for _, n := range slices.Sorted(maps.Keys(st.Volumes)) {
				v := st.Volumes[n]
				vol := Volume{ID: name + ":" + n, Node: st.Host, Content: v.Content, Size: v.Size, Owner: v.Owner}
				if v.Base != nil {
					vol.Base = name + ":" + v.Base.Name
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
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	name, path, _ := strings.Cut(id, ":")
	h := s.state.Hosts[node]
	if h == nil || h.Stores[name] == nil || h.Stores[name].Volumes[path] == nil {
		return nil
	}
	return slices.Clone(h.Stores[name].Volumes[path].Data)
}

// Mapping is a resource mapping as a test sees it.
type Mapping struct {
	ID          string
	Description string
	Devices     []string // as they were given: node=…,path=…,id=…
}

// Mappings returns every resource mapping of PCI devices, by ID, and then of USB devices.
func (s *Sim) Mappings() []Mapping {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	var out []Mapping
	for _, id := range slices.Sorted(maps.Keys(s.state.Mappings)) {
		m := s.state.Mappings[id]
		out = append(out, Mapping{ID: id, Description: m.Description, Devices: slices.Clone(m.Entries)})
	}
	of := s.state.Entries(pci.USBRegister())
	for _, id := range slices.Sorted(maps.Keys(of)) {
		out = append(out, Mapping{ID: id, Description: strings.Join(of[id]["description"], ""), Devices: slices.Clone(of[id]["map"])})
	}
	return out
}

// SetGuestFaults changes what goes wrong in a VM's guest, now and at later starts.
func (s *Sim) SetGuestFaults(vmid int, f guest.Faults) {
	s.state.Mu.Lock()
	v := s.state.VMs[vmid]
	var m *guest.Machine
	if v != nil {
		v.Faults, m = f, simulatedGuest(v)
	}
	s.state.Mu.Unlock()
	if m != nil {
		m.SetFaults(f)
	}
}

// changeHardware lets a test take a card out of a host, or move it.
func changeHardware(s *world.State, node string, change func(devices map[string]*PCIDevice)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if h := s.Hosts[node]; h != nil {
		change(h.Devices)
	}
}

// AddVM puts a VM of somebody else onto a host, as if it had always been there.
func (s *Sim) AddVM(v VM) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	guests.Adopt(s.state, v)
	if s.state.Round > 0 {
		s.state.Told[v.ID] = world.LastWord{At: time.Now(), Figures: s.state.Figures(s.state.VMs[v.ID], time.Now())}
	}
}

// LockVM puts a lock such as "backup" on a VM, as another program's work does; an
// empty one removes it.
func (s *Sim) LockVM(vmid int, lock string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	v := s.state.VMs[vmid]
	switch {
	case v == nil:
	case lock == "":
		v.Unset("lock")
	default:
		v.Set("lock", lock)
	}
}

// SetOption sets an option of the datacenter, such as user-tag-access, as root does; an
// empty value removes it.
func (s *Sim) SetOption(key, value string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	options := maps.Clone(s.state.Datacenter)
	if options == nil {
		options = map[string]string{}
	}
	if options[key] = value; value == "" {
		delete(options, key)
	}
	s.state.Datacenter = options
}

// AddMapping puts a resource mapping there, right or wrong, as if it had always
// been; devices are as given: node=…,path=…,id=…
func (s *Sim) AddMapping(id, description string, devices ...string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	s.state.Mappings[id] = &world.Mapping{ID: id, Description: description, Entries: devices}
}

// Hold takes a file lock, as a process does that the simulator knows nothing of:
// /var/lock/qemu-server/lock-100.conf, node/var/lock/pve-manager/pve-storage-vmdata,
// file-user_cfg. It waits for who has it, and returns what gives it back.
func (s *Sim) Hold(file string) (release func()) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	unlock, err := world.Worker{State: s.state}.Lock(file, false, time.Hour)
	if err != nil {
		return func() {}
	}
	return func() {
		s.state.Mu.Lock()
		defer s.state.Mu.Unlock()
		unlock()
	}
}

// Settle waits until no task runs, or the Sim is closed.
func (s *Sim) Settle() {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	for slices.ContainsFunc(s.state.TaskOrder, (*world.Task).Running) && s.state.Wait(100*time.Millisecond, nil) == nil {
	}
}

// TLS returns a self-signed certificate for a server of [Sim.Handler], made once,
// and its SHA-256 fingerprint as Proxmox shows it.
func (s *Sim) TLS() (tls.Certificate, string, error) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	if s.state.Cert == nil {
		cert, err := nodes.SelfSigned(s.state.Nodes())
		if err != nil {
			return tls.Certificate{}, "", fmt.Errorf("pvesim: certificate: %w", err)
		}
		s.state.Cert = &cert
	}
	return *s.state.Cert, nodes.Fingerprint(s.state.Cert.Certificate[0]), nil
}

// SetRole makes a role, or replaces what it grants.
func (s *Sim) SetRole(id string, privs ...string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	s.state.Access.SetRole(id, privs)
}

// Revoke removes privileges from every role of the model; what a test of a
// refused permission begins with.
func (s *Sim) Revoke(privs ...string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	for id, role := range s.state.Access.Roles {
		if id == "Administrator" {
			continue
		}
		for _, p := range privs {
			delete(role, p)
		}
	}
}
