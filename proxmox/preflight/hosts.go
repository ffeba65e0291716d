package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
)

// checkHosts checks whether every host is online and may change something: without a majority
// Proxmox's configuration is read-only (pve-cluster, PVE/Cluster.pm, check_cfs_quorum).
func checkHosts(w *Requirements, s *observation) []Finding {
	var names []string
	for _, h := range s.hosts.is {
		names = append(names, h.Name)
	}
	var out []Finding
	for _, h := range w.Hosts {
		switch err := offlineReason(s.hosts.is, h.Name); {
		case err == nil:
		case slices.Contains(names, h.Name):
			out = append(out, errorf(h.Name, "switch it on, or find out why the other hosts do not see it: `pvecm status`",
				"host %s is offline", h.Name))
		default:
			out = append(out, errorf(h.Name, "write the name that the web interface shows, under proxmox.host or of the node",
				"there is no host %s here; there is %s", h.Name, strings.Join(names, ", ")))
		}
	}
	switch {
	case s.quorate.err != nil:
		out = append(out, unobservedFinding("", s.quorate.err))
	case !s.quorate.is:
		out = append(out, errorf("", "bring the other hosts back; what works without them: `pvecm status`",
			"the Proxmox cluster has no majority of its hosts, so nothing can be changed"))
	}
	return out
}

// The Proxmox VE versions that this library supports. newest is the latest major version that it
// was tested with. The oldest is 8.4, the first that can import images (pve-storage: content type
// import).
const newest = 9

// checkVersion checks whether the version is known. Version 9 has VM.GuestAgent.* where 8 had
// VM.Monitor, so a role made for one fails on the other (pve-access-control, PVE/AccessControl.pm),
// and hosts of different versions need both.
func checkVersion(w *Requirements, s *observation) []Finding {
	v := s.version
	var out []Finding
	switch {
	case v.Major() == 0 || v.Before(8, 4):
		out = append(out, errorf("", "upgrade the host: https://pve.proxmox.com/wiki/Category:Upgrade",
			"this is Proxmox VE %s; a token can import images from 8.4 on", v.Version))
	case v.Major() > newest:
		out = append(out, warnf("", "", "this is Proxmox VE %s, which is newer than the tested version (9.2)", v.Version))
	}
	for _, h := range w.Hosts {
		status := s.byHost[h.Name].status
		there := proxmox.Version{Version: status.is.Version}
		if status.err != nil || there.Major() == 0 {
			continue
		}
		if there.Before(8, 4) && !v.Before(8, 4) {
			out = append(out, errorf(h.Name, "upgrade it: https://pve.proxmox.com/wiki/Category:Upgrade",
				"%s has Proxmox VE %s, and a token can import images from 8.4 on", h.Name, there.Version))
		}
		if there.Major() != v.Major() {
			out = append(out, warnf(h.Name,
				"upgrade all hosts; until then the token's role needs VM.Monitor or VM.GuestAgent.Unrestricted, depending on the version",
				"%s has Proxmox VE %s, and the host that answers has %s: their privileges differ", h.Name, there.Version, v.Version))
		}
	}
	return out
}

// skewed is the largest accepted difference between clocks. With a larger one, certificates of K3s
// are not valid yet on other machines. A VM takes its first time from its host.
const skewed = 30 * time.Second

// checkClocks compares the hosts' clocks with the local one (pve-manager, PVE/API2/Nodes.pm, time).
func checkClocks(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	if skew := seen.skew.is; skew.Abs() > skewed {
		where := "ahead of"
		if skew < 0 {
			where = "behind"
		}
		return []Finding{warnf(h.Name, "see with timedatectl which of the two is wrong; on the host: `systemctl restart chrony`",
			"the clock of %s is %s %s this machine's: VMs start with it, and certificates are refused",
			h.Name, skew.Abs().Round(time.Second), where)}
	}
	return nil
}

// checkCores finds VMs with more cores than their host, which Proxmox does not start: "MAX n vcpus
// allowed per VM on this node" (qemu-server, PVE/QemuServer.pm).
func checkCores(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	cpus := seen.cpus(s, h.Name)
	if cpus == 0 {
		return []Finding{unobservedFinding(h.Name, seen.figuresError(h.Name))}
	}
	var out []Finding
	for _, vm := range w.vmsOn(h.Name) {
		if vm.Cores > cpus {
			out = append(out, errorf(vm.Name, fmt.Sprintf("write cores: %d or less", cpus),
				"%s has %d cores in the file and %s has %d: Proxmox starts no such VM", vm.Name, vm.Cores, h.Name, cpus))
		}
	}
	return out
}

// cpus returns how many logical CPUs a host has, or 0 if that is unknown.
func (h *hostObservation) cpus(s *observation, name string) int {
	for _, host := range s.hosts.is {
		if host.Name == name && host.CPUs > 0 {
			return host.CPUs
		}
	}
	return h.status.is.CPUs
}

// memory returns how much memory a host has, or 0 if that is unknown.
func (h *hostObservation) memory(s *observation, name string) proxmox.Size {
	for _, host := range s.hosts.is {
		if host.Name == name && host.Memory > 0 {
			return host.Memory
		}
	}
	return h.status.is.Memory
}

func (h *hostObservation) figuresError(name string) error {
	if h.status.err != nil {
		return h.status.err
	}
	return fmt.Errorf("Proxmox shows no figures of %s: the token lacks Sys.Audit on /nodes/%s", name, name)
}
