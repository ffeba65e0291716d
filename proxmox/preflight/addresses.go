package preflight

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
)

// observeNeighbours reads what all guests take of the network, and dials the addresses that are about
// to be taken: an address belongs to another owner if a configuration names it, and also if something
// answers there. Nobody is asked if every machine exists.
func (s *observation) observeNeighbours(ctx context.Context, g *requests, c *proxmox.Client, w *Requirements) {
	s.answers = make([]fact[string], len(w.Addresses))
	wanted := slices.ContainsFunc(w.Addresses, func(a Address) bool { return s.isFree(w, a) })
	if s.residents.err != nil || s.marked.err != nil || !wanted {
		return
	}
	fetch(g, &s.neighbours, func() ([]proxmox.Neighbour, error) { return c.Hosts.Neighbours(ctx) })
	if s.leased(w) {
		fetch(g, &s.leases, func() ([]proxmox.Lease, error) { return c.Hosts.Leases(ctx) })
	}
	if w.Dial == nil || s.restless(w) {
		return
	}
	for i, a := range w.Addresses {
		if a.First == a.Last && s.isFree(w, a) && !s.namesake(a.By) {
			fetch(g, &s.answers[i], func() (string, error) { return ProbeAddress(ctx, w.Dial, a.First), nil })
		}
	}
}

// isFree reports whether no machine that takes the address exists: it is yet to be taken.
func (s *observation) isFree(w *Requirements, a Address) bool {
	return !a.Exists && !slices.ContainsFunc(a.By, func(name string) bool { return s.machine(name) != nil })
}

// leased reports whether a machine joins a network whose addresses Proxmox keeps a list of.
func (s *observation) leased(w *Requirements) bool {
	for _, h := range s.byHost {
		if slices.ContainsFunc(h.bridges.is, func(b proxmox.Bridge) bool { return b.IPAM && w.joins(b.Name) }) {
			return true
		}
	}
	return false
}

// joins reports whether a machine joins a bridge.
func (w *Requirements) joins(bridge string) bool {
	return slices.ContainsFunc(w.VMs, func(vm VM) bool {
		return slices.ContainsFunc(vm.NICs, func(n proxmox.NIC) bool { return n.Bridge == bridge })
	})
}

// namesake reports whether a VM has the name of one of these machines. None of them exists, so it is
// a copy, which has the machine's address too, or another owner's: the check of names, or the
// machine's own step, says what to do about it.
func (s *observation) namesake(names []string) bool {
	return slices.ContainsFunc(s.residents.is, func(r proxmox.Resident) bool { return !r.Container && slices.Contains(names, r.Name) })
}

// restless reports whether a machine of ours runs that the file does not name: one that is being
// made into a template has the address of a node that does not exist yet, and one that was renamed
// still has that of its successor.
func (s *observation) restless(w *Requirements) bool {
	return slices.ContainsFunc(s.residents.is, func(r proxmox.Resident) bool {
		return r.Running && s.marked.is[r.VMID] && !slices.ContainsFunc(w.Addresses, func(a Address) bool { return slices.Contains(a.By, r.Name) }) &&
			!slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.Name == r.Name })
	})
}

// knockTime is how long something at an address may take to answer. A machine on the same network
// does within milliseconds, and a plan of a new cluster waits for silence.
const knockTime = 1500 * time.Millisecond

// ProbeAddress returns what answers at an address, or "" if nothing does. A connection that opens and
// says nothing proves nothing: some ways to a network (sshuttle, transparent proxies) accept
// everything.
func ProbeAddress(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addr netip.Addr) string {
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	said := make(chan string, len(knocks()))
	for port, listen := range knocks() {
		go func() {
			at := net.JoinHostPort(addr.String(), port)
			conn, err := dial(ctx, "tcp", at)
			switch {
			case portClosed(err, at):
				said <- fmt.Sprintf("something there refuses connections to port %s", port)
			case err != nil:
				said <- ""
			default:
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				said <- listen(ctx, conn)
				stop()
				_ = conn.Close()
			}
		}()
	}
	out := ""
	for range knocks() {
		if text := <-said; len(text) > len(out) {
			out = text
		}
	}
	return out
}

// knocks are the ports at which a machine of a cluster would answer, with what listens there.
func knocks() map[string]func(context.Context, net.Conn) string {
	return map[string]func(context.Context, net.Conn) string{"22": banner, "6443": authority}
}

// portClosed reports whether the machine at an address answered that its port is closed. A jump host or
// a proxy says that in words; if it refuses the connection itself, nothing is known of the machine.
func portClosed(err error, at string) bool {
	var dialled *net.OpError
	for rest := err; errors.As(rest, &dialled); rest = dialled.Err {
		if dialled.Op == "dial" {
			return errors.Is(dialled, syscall.ECONNREFUSED) && dialled.Addr != nil && dialled.Addr.String() == at
		}
	}
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "connection refused")
}

// banner reads the first line of an SSH server.
func banner(_ context.Context, conn net.Conn) string {
	line, _ := bufio.NewReaderSize(conn, 256).ReadSlice('\n')
	if text := strings.TrimSpace(string(line)); strings.HasPrefix(text, "SSH-") {
		return fmt.Sprintf("an SSH server answers there: %.80q", text)
	}
	return ""
}

// authority reads whose certificate an API shows. It sends nothing secret, so it need not trust it.
func authority(ctx context.Context, conn net.Conn) string {
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it only looks whose certificate it is
	if client.HandshakeContext(ctx) != nil {
		return ""
	}
	by := client.ConnectionState().PeerCertificates[0].Issuer.CommonName
	return fmt.Sprintf("an API answers there on port 6443, with a certificate of %.80q", by)
}

// checkAddresses checks whether a host, another guest or another cluster has an address that is
// meant for us, or a MAC.
func checkAddresses(w *Requirements, s *observation) []Finding {
	out := eachHost(w, s, func(h Host, seen *hostObservation) []Finding {
		if seen.bridges.err != nil {
			return []Finding{unobservedFinding(h.Name, seen.bridges.err)}
		}
		var out []Finding
		for _, b := range seen.bridges.is {
			at, err := netip.ParsePrefix(b.CIDR)
			if err != nil {
				continue // the host has no address
			}
			for _, a := range w.Addresses {
				if a.Overlaps(proxmox.Range{First: at.Addr(), Last: at.Addr()}) {
					out = append(out, errorf(a.Owner, "give it another address", "%s is taken: host %s has %s on %s", a, h.Name, at.Addr(), b.Name))
				}
			}
		}
		return out
	})
	if s.neighbours.err != nil {
		return append(out, unobservedFinding("", s.neighbours.err))
	}
	if s.leases.err != nil {
		out = append(out, unobservedFinding("", s.leases.err))
	}
	return slices.Concat(out, s.takenAddresses(w), s.takenMACs(w))
}

// takenAddresses are the addresses that others have. Those of machines that exist are ours. If the
// cluster exists, its own addresses are no reason to refuse anything else, and only a warning.
func (s *observation) takenAddresses(w *Requirements) []Finding {
	var out []Finding
	for i, a := range w.Addresses {
		free := s.isFree(w, a)
		if a.Exists || !free && !a.Shared {
			continue
		}
		who, found := s.addressUser(a)
		finding := errorf
		if !free || proxmox.HasOwnerTag(w.Owner, who.Tags) { // a stray, which stops nothing else
			finding = warnf
		}
		switch {
		case found:
			out = append(out, finding(a.Owner, w.cureOf(who), "%s is taken: %s has it", a, w.describe(who)))
		case s.keeper(w, a) != "":
			out = append(out, finding(a.Owner, "give it another address, or take it off the list: Datacenter, SDN, IPAM in the web interface",
				"%s is taken: Proxmox's IPAM keeps it for %s", a, s.keeper(w, a)))
		case s.answers[i].is != "":
			out = append(out, finding(a.Owner, "give it another address, or switch off what has it", "%s is taken: %s", a, s.answers[i].is))
		}
	}
	return out
}

// addressUser returns the guest that takes an address, if it is not a machine of ours; see namesake.
func (s *observation) addressUser(a Address) (proxmox.Neighbour, bool) {
	i := slices.IndexFunc(s.neighbours.is, func(n proxmox.Neighbour) bool {
		return !s.marked.is[n.VMID] && !slices.Contains(a.By, n.Name) && n.UsesRange(a.Range)
	})
	if i < 0 {
		return proxmox.Neighbour{}, false
	}
	return s.neighbours.is[i], true
}

// keeper says for whom Proxmox's IPAM keeps an address in a network of ours; "": nobody, or us. Every
// machine of ours in a zone with DHCP has an entry too, with an address that it never asks for.
func (s *observation) keeper(w *Requirements, a Address) string {
	for _, l := range s.leases.is {
		ours := s.marked.is[l.VMID] || slices.ContainsFunc(w.VMs, func(vm VM) bool {
			return slices.Contains(a.By, vm.Name) && slices.ContainsFunc(vm.NICs, func(n proxmox.NIC) bool { return sameMAC(n.MAC)(l.MAC) })
		})
		if !ours && w.joins(l.VNet) && a.Overlaps(proxmox.Range{First: l.Addr, Last: l.Addr}) {
			return l.Owner()
		}
	}
	return ""
}

// takenMACs are the MACs that others have, of machines that do not exist yet.
func (s *observation) takenMACs(w *Requirements) []Finding {
	var out []Finding
	for _, vm := range w.VMs {
		if s.machine(vm.Name) != nil {
			continue
		}
		for _, n := range s.neighbours.is {
			if n.Name != vm.Name && !s.marked.is[n.VMID] && slices.ContainsFunc(vm.NICs, func(nic proxmox.NIC) bool { return slices.ContainsFunc(n.MACs, sameMAC(nic.MAC)) }) {
				out = append(out, errorf(vm.Name, "write another mac: for it, or remove the other: two machines with one MAC disturb each other",
					"the MAC of %s is taken: %s has it", vm.Name, w.describe(n)))
			}
		}
	}
	return out
}

func sameMAC(mac string) func(string) bool {
	return func(other string) bool { return mac != "" && strings.EqualFold(mac, other) }
}

// describe names a guest, and the cluster that it belongs to.
func (w *Requirements) describe(n proxmox.Neighbour) string {
	kind := "VM"
	if n.Container {
		kind = "container"
	}
	text := fmt.Sprintf("%s (%s %d on %s)", n.Name, kind, n.VMID, n.Host)
	switch of := clusterOf(n); {
	case proxmox.HasOwnerTag(w.Owner, n.Tags):
		text += ", which has this cluster's tag but is not its machine,"
	case of != "":
		text += " of cluster " + of
	}
	return text
}

func (w *Requirements) cureOf(n proxmox.Neighbour) string {
	if clusterOf(n) != "" && !proxmox.HasOwnerTag(w.Owner, n.Tags) {
		return "give it another address, or remove that cluster with its own file: cluster:down"
	}
	return "give it another address, or remove that machine, or its address in Proxmox"
}

// clusterOf returns the cluster in a guest's tags, or "".
func clusterOf(n proxmox.Neighbour) string {
	for _, tag := range n.Tags {
		if name, found := strings.CutPrefix(tag, "homelab-"); found {
			name, _, _ = strings.Cut(name, "_") // of a mark
			return name
		}
	}
	return ""
}
