package pvesim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
)

// HostShell is where one logs in to a node as root.
type HostShell struct {
	Address netip.AddrPort // on the Sim's network
	HostKey string         // as in an authorized_keys file
	Machine *guest.Machine // what was run there, and what that changed
}

// hostShell is what Sim.HostShell returns.
func (s *state) hostShell(ctx context.Context, node string, keys ...string) (HostShell, error) {
	s.mu.Lock()
	h := s.hosts[node]
	if h == nil || s.closed {
		s.mu.Unlock()
		return HostShell{}, fmt.Errorf("pvesim: no node %q", node)
	}
	address := s.hostAddress(node)
	m := h.shell
	if m == nil {
		m = s.installHost(h, address)
		h.shell = m
	}
	s.mu.Unlock()
	if len(keys) > 0 {
		if err := m.AuthorizedKeys(keys...); err != nil {
			return HostShell{}, err
		}
	}
	if !m.Running() {
		if err := m.Boot(s.life); err != nil && !m.Running() {
			return HostShell{}, err
		}
	}
	up := m.Up()
	if up == nil {
		return HostShell{}, guest.ErrOff
	}
	select {
	case <-up:
		return HostShell{Address: netip.AddrPortFrom(address, 22), HostKey: m.HostKey(), Machine: m}, nil
	case <-ctx.Done():
		return HostShell{}, ctx.Err()
	case <-s.done:
		return HostShell{}, errClosed
	}
}

// hostAddress is that of GET /cluster/status.
func (s *state) hostAddress(node string) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(slices.Index(s.nodes(), node) + 1)})
}

// installHost makes the machine of a node. s.mu is held.
func (s *state) installHost(h *host, address netip.Addr) *guest.Machine {
	c := &guest.HostConfig{
		Version: s.version, Kernel: h.kernel(), Intel: strings.Contains(h.CPUModel, "Intel"),
		Loader: guest.Loader(h.OS.Loader), Cmdline: h.OS.Cmdline, Address: address,
		Guests: func() []int { return s.runningOn(h.Name) },
		OnBoot: func(b guest.HostBoot) { s.booted(h, b) },
	}
	if !h.OS.Fresh {
		c.Cmdline = strings.TrimSpace(c.Cmdline + " iommu=pt")
		if c.Intel && !c.WouldHaveIOMMU() {
			c.Cmdline = "intel_iommu=on " + c.Cmdline
		}
	}
	c.NoIOMMU = h.NoIOMMU && c.WouldHaveIOMMU()
	for _, d := range h.PCI {
		c.Devices = append(c.Devices, guest.HostDevice{
			Address: d.Address, ID: d.ID, Class: d.Class, Name: strings.TrimSpace(d.Vendor + " " + d.Name), Group: d.Group, NUMA: numa(h.Host, d),
			BootVGA: d.Address == h.OS.Console, Driver: hostDriver(d),
		})
	}
	c.Programs = s.hostPrograms(h)
	disk := guest.NewHostDisk(h.Name, c)
	if !h.OS.Fresh {
		_ = disk.WriteFile("/etc/modules-load.d/vfio.conf", []byte("vfio\nvfio_iommu_type1\nvfio_pci\n"), 0o644)
	}
	for _, st := range h.storages {
		if st.fileBased() {
			for _, content := range st.Content {
				_ = disk.Mkdir(st.folder(content), 0o755)
			}
		}
	}
	for path, text := range h.OS.Files {
		_ = disk.WriteFile(path, []byte(text), 0o644) // the folders are made
	}
	return guest.New(guest.Config{
		Name: h.Name, Disk: disk, CPUs: h.CPUs, Memory: int64(h.Memory), Network: s.network, Speed: s.opts.Speed, Lean: s.opts.Lean,
		Host: c, OnPoweroff: func(bool) { s.hostDown(h) },
	})
}

// hostDriver is the driver that takes a device when nothing keeps it.
func hostDriver(d PCIDevice) string {
	switch {
	case strings.HasPrefix(d.Class, "0604"):
		return "pcieport"
	case strings.HasPrefix(d.Class, "02"):
		return "i40e"
	case !d.HeldByHost:
		return ""
	case strings.HasPrefix(d.Class, "03"):
		return "nouveau"
	case strings.HasPrefix(d.Class, "0403"):
		return "snd_hda_intel"
	case strings.HasPrefix(d.Class, "0c03"):
		return "xhci_hcd"
	case strings.HasPrefix(d.Class, "0c80"):
		return "nvidia-gpu"
	}
	return "unknown"
}

func (s *state) runningOn(node string) (ids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.sorted() {
		if v.node == node && v.running {
			ids = append(ids, v.id)
		}
	}
	return ids
}

// hostDown ends what ran on a node that reboots; until it is back its API is away.
func (s *state) hostDown(h *host) {
	s.mu.Lock()
	h.Offline = true
	var machines []Guest
	for _, v := range s.sorted() {
		if v.node != h.Name || !v.running {
			continue
		}
		if v.machine != nil {
			machines = append(machines, v.machine)
		}
		v.power(false)
	}
	s.mu.Unlock()
	for _, m := range machines {
		m.Kill()
	}
}

// booted is what a boot made of the devices.
func (s *state) booted(h *host, b guest.HostBoot) {
	s.mu.Lock()
	back := h.Offline
	h.Offline, h.NoIOMMU = false, !b.IOMMU
	for _, d := range h.PCI {
		if driver := b.Drivers[d.Address]; d.HeldByHost {
			h.devices[d.Address].HeldByHost = driver != "" && driver != "vfio-pci"
		}
	}
	var start []int
	for _, v := range s.sorted() {
		if back && v.node == h.Name && v.conf["onboot"] == "1" && !v.running {
			start = append(start, v.id)
		}
	}
	s.mu.Unlock()
	for _, id := range start {
		_, _ = s.asRoot("POST", fmt.Sprintf("/nodes/%s/qemu/%d/status/start", h.Name, id), params{}) // the boot goes on without a VM that does not start
	}
}

// errNoNode is what a host's programs end with when the Sim has ended.
var errNoNode = errors.New("ipcc_send_rec[1] failed: Connection refused")

// asRoot calls the API in process as root@pam, as Proxmox's own programs do.
func (s *state) asRoot(method, path string, p params) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errNoNode
	}
	return s.dispatch(&call{s: s, method: method, path: path, p: p, who: identity{id: "root@pam"}, local: true})
}
