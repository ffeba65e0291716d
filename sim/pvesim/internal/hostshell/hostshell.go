package hostshell

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Shell is where one logs in to a node as root.
type Shell struct {
	Address netip.AddrPort // on the Sim's network
	HostKey string         // as in an authorized_keys file
	Machine *guest.Machine // what was run there, and what that changed
}

// Login lets those log in to a node as root by SSH who have one of the keys, and returns where.
func Login(s *world.State, ctx context.Context, node string, keys ...string) (Shell, error) {
	s.Mu.Lock()
	h := s.Hosts[node]
	if h == nil || s.Closed {
		s.Mu.Unlock()
		return Shell{}, fmt.Errorf("pvesim: no node %q", node)
	}
	address := hostAddress(s, node)
	m := h.Shell
	if m == nil {
		m = installHost(s, h, address)
		h.Shell = m
	}
	s.Mu.Unlock()
	if len(keys) > 0 {
		if err := m.AuthorizedKeys(keys...); err != nil {
			return Shell{}, err
		}
	}
	if !m.Running() {
		if err := m.Boot(s.Life); err != nil && !m.Running() {
			return Shell{}, err
		}
	}
	up := m.Up()
	if up == nil {
		return Shell{}, guest.ErrOff
	}
	select {
	case <-up:
		return Shell{Address: netip.AddrPortFrom(address, 22), HostKey: m.HostKey(), Machine: m}, nil
	case <-ctx.Done():
		return Shell{}, ctx.Err()
	case <-s.Done:
		return Shell{}, world.ErrClosed
	}
}

// hostAddress is that of GET /cluster/status.
func hostAddress(s *world.State, node string) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(slices.Index(s.Nodes(), node) + 1)})
}

// installHost makes the machine of a node. The lock is held.
func installHost(s *world.State, h *world.Host, address netip.Addr) *guest.Machine {
	c := &guest.HostConfig{
		Version: s.Version, Kernel: h.RunningKernel(), Intel: strings.Contains(h.CPUModel, "Intel"),
		Loader: guest.Loader(h.OS.Loader), Cmdline: h.OS.Cmdline, Address: address,
		Guests: func() []int { return runningOn(s, h.Name) },
		OnBoot: func(b guest.HostBoot) { applyBoot(s, h, b) },
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
			Address: d.Address, ID: d.ID, Class: d.Class, Name: strings.TrimSpace(d.Vendor + " " + d.Name), Group: d.Group,
			NUMA:    world.NUMA(h.Host, d),
			BootVGA: d.Address == h.OS.Console, Driver: hostDriver(d),
		})
	}
	c.Programs = hostPrograms(s, h)
	disk := guest.NewHostDisk(h.Name, c)
	if !h.OS.Fresh {
		_ = disk.WriteFile("/etc/modules-load.d/vfio.conf", []byte("vfio\nvfio_iommu_type1\nvfio_pci\n"), 0o644)
	}
	for _, st := range h.Stores {
		if st.FileBased() {
			for _, content := range st.Content {
				_ = disk.Mkdir(folder(st, content), 0o755)
			}
		}
	}
	for path, text := range h.OS.Files {
		_ = disk.WriteFile(path, []byte(text), 0o644) // the folders are made
	}
	return guest.New(guest.Config{
		Name: h.Name, Disk: disk, CPUs: h.CPUs, Memory: int64(h.Memory), Network: s.Network, Speed: s.Options.Speed, Lean: s.Options.Lean,
		Host: c, OnPoweroff: func(bool) { hostDown(s, h) },
	})
}

// hostDriver is the driver that takes a device when nothing keeps it.
func hostDriver(d model.PCIDevice) string {
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

func runningOn(s *world.State, node string) (ids []int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, v := range s.VMsByID() {
		if v.Node == node && v.Running {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// hostDown ends what ran on a node that reboots; until it is back its API is away.
func hostDown(s *world.State, h *world.Host) {
	s.Mu.Lock()
	h.Offline = true
	var machines []hypervisor.Guest
	for _, v := range s.VMsByID() {
		if v.Node != h.Name || !v.Running {
			continue
		}
		if v.Machine != nil {
			machines = append(machines, v.Machine)
		}
		v.Power(false)
	}
	s.Mu.Unlock()
	for _, m := range machines {
		m.Kill()
	}
}

// applyBoot is what a boot made of the devices.
func applyBoot(s *world.State, h *world.Host, b guest.HostBoot) {
	s.Mu.Lock()
	back := h.Offline
	h.Offline, h.NoIOMMU = false, !b.IOMMU
	for _, d := range h.PCI {
		if driver := b.Drivers[d.Address]; d.HeldByHost {
			h.Devices[d.Address].HeldByHost = driver != "" && driver != "vfio-pci"
		}
	}
	var start []int
	for _, v := range s.VMsByID() {
		if back && v.Node == h.Name && v.Conf["onboot"] == "1" && !v.Running {
			start = append(start, v.ID)
		}
	}
	s.Mu.Unlock()
	for _, id := range start {
		_, _ = asRoot(s, "POST", fmt.Sprintf("/nodes/%s/qemu/%d/status/start", h.Name, id), request.Params{}) // the boot goes on without a VM that does not start
	}
}

// errNoNode is what a host's programs end with when the cluster has ended.
var errNoNode = errors.New("ipcc_send_rec[1] failed: Connection refused")

// asRoot calls the API in process as root@pam, as Proxmox's own programs do.
func asRoot(s *world.State, method, path string, p request.Params) (any, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return nil, errNoNode
	}
	return s.Dispatch(&world.Call{State: s, Method: method, Path: path, Params: p, Who: world.Identity{ID: "root@pam"}, Local: true})
}
