package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// hostKeyFile is the path of the public host key in a guest.
const hostKeyFile = "/etc/ssh/ssh_host_ed25519_key.pub"

// guest is the way into a node.
type guest struct {
	node spec.Node
	addr string // host:port of its SSH server
	user string // the user to log in as
	ssh  *ssh.Client
	root remote.Runner // the same connection, as root
}

// via is what messages call the way to a node; "": direct.
func (s *sharedState) via(n spec.Node) string {
	if n.Jump != "" {
		return "jump host " + n.Jump
	}
	return s.Via
}

// sshConfig is how to reach a node, except for what a run knows of it.
func (s *sharedState) sshConfig(n spec.Node) ssh.Config {
	user, port := s.Spec.Access.User, "22"
	if n.External {
		port = strconv.Itoa(n.SSHPort)
		if n.SSHUser != "" {
			user = n.SSHUser
		}
	}
	host := n.Name
	if !n.DHCP() {
		host = n.Address.Addr().String()
	}
	cfg := ssh.Config{Addr: net.JoinHostPort(host, port), User: user, Signers: s.signers(), Agent: s.Agent, Via: s.via(n)}
	if key, ok := s.MachineKeys[n.Name]; ok {
		cfg.Signers, cfg.Agent = []ssh.Signer{key}, ""
	}
	return cfg
}

func (ns *Nodes) newGuest(n spec.Node) *guest {
	at := ns.sshConfig(n)
	_, port, _ := net.SplitHostPort(at.Addr)
	g := &guest{node: n, addr: at.Addr, user: at.User}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n.DHCP() {
			ip, err := ns.leasedAddress(ctx, n)
			if err != nil {
				return nil, err
			}
			addr = net.JoinHostPort(ip.String(), port)
		}
		return ns.knock(ctx, g, network, addr)
	}
	g.ssh = ns.connections[n.Name].WithDial(dial,
		func(ctx context.Context, addr string) ([]ssh.PublicKey, error) { return ns.hostKeys(ctx, n, addr) })
	g.root = g.ssh
	if g.user != "root" { // whose machine may have no sudo
		g.root = ns.sudo(n, g.user, g.ssh)
	}
	return g
}

// knockTime is how long a machine of this cluster may take to accept its first connection in
// a run: enough for two packets. A machine that boots accepts none, and a check must not wait
// for it.
const knockTime = 1500 * time.Millisecond

// errNoAnswer means that a machine neither accepts nor refuses a connection.
var errNoAnswer = fmt.Errorf("no answer within %s", knockTime)

// knock connects to a guest. Whether its SSH server accepts a connection is the cheapest sign
// of life: it costs the Proxmox host nothing.
func (ns *Nodes) knock(ctx context.Context, g *guest, network, addr string) (net.Conn, error) {
	if ns.Observation(g.node.Name).answered.Load() || g.node.External || ns.Via != "" {
		return ns.DialTo(ctx, network, addr)
	}
	limited, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := ns.DialTo(limited, network, addr)
	switch {
	case err == nil:
		ns.Observation(g.node.Name).answered.Store(true)
	case ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)):
		// The caller's deadline has not passed. The socket may report limited's slightly early.
		err = errNoAnswer
	}
	return conn, err
}

// leasedAddress returns the address that a node has from a DHCP server. Its guest agent reports the
// address.
func (ns *Nodes) leasedAddress(ctx context.Context, n spec.Node) (netip.Addr, error) {
	vm, err := ns.vm(ctx, n, "address")
	if err != nil {
		return netip.Addr{}, err
	}
	if !ns.Proxmox.Agents.HasSent(ctx, vm) {
		return netip.Addr{}, fmt.Errorf("%s has no address from a DHCP server yet: it has not sent a network packet", n.Name)
	}
	addrs, err := askAgent(ctx, ns, vm, func(ctx context.Context) ([]netip.Addr, error) { return ns.Proxmox.Agents.Addresses(ctx, vm) })
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if a.Is4() && !ns.Spec.K3s.PodCIDR.Contains(a) && a != ns.Spec.K3s.VIP {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address from a DHCP server yet", n.Name)
}

// vm returns the VM of a node, which Proxmox is asked for something of.
func (ns *Nodes) vm(ctx context.Context, n spec.Node, of string) (*proxmox.VM, error) {
	if ns.Proxmox == nil {
		return nil, fmt.Errorf("the %s of %s is not known here: only Proxmox could say it", of, n.Name)
	}
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name)
	if err == nil && vm == nil {
		err = missingVM(n.Name)
	}
	return vm, err
}

// ReadStart reads the first bytes of a file of a machine by its guest agent; proxmox.ErrShort: it has fewer.
func (ns *Nodes) ReadStart(ctx context.Context, machine, file string, count int) ([]byte, error) {
	vm, err := ns.vm(ctx, ns.guests[machine].node, "contents")
	if err != nil {
		return nil, err
	}
	return askAgent(ctx, ns, vm, func(ctx context.Context) ([]byte, error) { return ns.Proxmox.Agents.ReadStart(ctx, vm, file, count) })
}

// missingVM is the error about a VM that does not exist. It is an fs.ErrNotExist.
type missingVM string

func (m missingVM) Error() string   { return "there is no VM " + string(m) }
func (missingVM) Is(err error) bool { return err == fs.ErrNotExist }

// Root returns a runner that runs commands as root on a node.
func (ns *Nodes) Root(node string) remote.Runner { return ns.guests[node].root }

// hostKeys returns the host keys of a node. It reads them through the guest agent, or what else its source has, over
// the authenticated API, and caches them in known_hosts. A cached key is removed when the VM is
// made, and when it does not match.
func (ns *Nodes) hostKeys(ctx context.Context, n spec.Node, addr string) ([]ssh.PublicKey, error) {
	keys, err := ns.Hosts.Lookup(addr)
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	switch {
	case n.External:
		return ns.keysOfOthers(n, addr)
	case !n.OnProxmox():
		keys, err := ns.HostKeys(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		return keys, ns.Hosts.Store(addr, keys...)
	}
	vm, err := ns.vm(ctx, n, "host key")
	if err != nil {
		return nil, err
	}
	b, err := askAgent(ctx, ns, vm, func(ctx context.Context) ([]byte, error) { return ns.Proxmox.Agents.ReadFile(ctx, vm, hostKeyFile) })
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParseAuthorizedKey(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", hostKeyFile, n.Name, err)
	}
	return []ssh.PublicKey{key}, ns.Hosts.Store(addr, key)
}

// guestState is what a guest reports about itself.
type guestState struct {
	status  cloudinit.Status
	problem string // why the guest cannot be asked yet
	doing   string // what its first boot does, until it ends
}

// GuestStep waits until its first boot is over and this run can log in to a node.
func (ns *Nodes) GuestStep(n spec.Node) *converge.Resource[guestState] {
	return &converge.Resource[guestState]{
		ID:      "guest/" + n.Name,
		Observe: func(ctx context.Context) (guestState, error) { return ns.observeGuest(ctx, n) },
		Diff: func(s guestState) converge.Diff {
			if s.problem != "" {
				return converge.Diff{{Have: s.problem, Want: "a login over SSH", Effect: converge.Create}}
			}
			if s.status.State != cloudinit.Done {
				return converge.Diff{{Path: "first boot", Have: string(s.status.State), Want: "done", Effect: converge.Create, Note: s.doing}}
			}
			return nil
		},
		Settle: BootTime,
		Poll:   run.PollInterval,
		Hint: "check on the machine's console (in Proxmox's web interface, or qm terminal on the host) that it boots and has its address, " +
			"and check the route to it (gateway, VLAN, ssh.jump). A repeated run continues from here",
	}
}

// BootTime is how long a machine may take from power-on to the end of its first boot. A
// host with much memory first pins it for the guest page by page.
const BootTime = 10 * time.Minute

// observeGuest reads the state of a guest. An unreachable guest is a valid state; a wrong host
// key, a refused login or a failed first boot are permanent errors.
func (ns *Nodes) observeGuest(ctx context.Context, n spec.Node) (guestState, error) {
	g := ns.guests[n.Name]
	if !ns.Observation(n.Name).looked.Swap(true) && ns.inFirstBoot(ctx, n) {
		return guestState{problem: "booting, it has not sent a network packet yet"}, nil
	}
	out, err := CloudInitStatus(ctx, g.ssh)
	var wrong *ssh.HostKeyError
	if errors.As(err, &wrong) && wrong.Got != "" && !n.External {
		// The machine may have been recreated since the key was stored.
		if err := ns.Hosts.Store(g.addr); err != nil {
			return guestState{}, err
		}
		out, err = CloudInitStatus(ctx, g.ssh)
	}
	var auth *ssh.AuthError
	switch {
	case err == nil:
	case converge.IsPermanent(err):
		return guestState{}, err
	case ctx.Err() != nil:
		return guestState{}, ctx.Err()
	case isLocalFileError(err):
		return guestState{}, converge.Permanent(err)
	case ns.memory.Load().logins.refusal(n.Name) != nil && (errors.As(err, &auth) || errors.Is(err, proxmox.ErrAgentNotRunning)):
		return guestState{}, converge.Permanent(ns.noLoginError(keyChange{node: n, why: ns.memory.Load().logins.refusal(n.Name)}))
	case errors.As(err, &auth) && ns.memory.Load().logins.awaits(n.Name):
		return guestState{problem: "its SSH server answers, and step login adds the key of this run"}, nil
	case errors.As(err, &auth) && ns.Observation(n.Name).refusalTime() < loginGrace:
		return guestState{problem: "its SSH server answers, the first boot has not created the login yet"}, nil
	case errors.As(err, &auth):
		if _, failed := ns.stateByAgent(ctx, n, err); failed != nil {
			return guestState{}, failed
		}
		return guestState{}, converge.Permanent(fmt.Errorf("%w%s", err, ns.agentHint(ctx, n)))
	case errors.As(err, &wrong):
		return guestState{}, converge.Permanent(fmt.Errorf("%w%s", err, ns.agentHint(ctx, n)))
	default:
		converge.Progressf(ctx, "%s", printable.FirstLine(err.Error()))
		return ns.stateByAgent(ctx, n, err)
	}
	status, err := cloudinit.ParseStatus(out)
	if err != nil {
		return guestState{}, err
	}
	if err := status.Err(); err != nil && !errors.Is(err, cloudinit.ErrNotDone) {
		return guestState{}, converge.Permanent(fmt.Errorf("first boot of %s failed: %w%s", n.Name, err, BootCause(ctx, g.root)))
	}
	if status.State == cloudinit.Done {
		if err := ns.checkIdentity(ctx, n); err != nil {
			return guestState{}, err
		}
		return guestState{status: status}, nil
	}
	return guestState{status: status, doing: bootDoes(ctx, g.root, status)}, nil
}

// WaitBooted waits until this run can log in to a node again.
func (ns *Nodes) WaitBooted(ctx context.Context, n spec.Node) error {
	rule := converge.WaitRule{What: "waiting for " + n.Name + " to boot", Limit: BootTime, TimeoutText: n.Name + " did not come back",
		Strict: true}
	return run.Until(ctx, ns.Spec, rule, func(ctx context.Context) (string, error) {
		seen, err := ns.observeGuest(ctx, n)
		if err != nil || seen.problem == "" && seen.status.State == cloudinit.Done {
			return "", err
		}
		return cmp.Or(seen.problem, "first boot: "+string(seen.status.State)), nil
	})
}

// isLocalFileError reports whether an error is about a file on the local machine, such as
// known_hosts on a full disk.
func isLocalFileError(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

// inFirstBoot reports whether a machine of this cluster is in its first boot and cannot be
// reached yet. The first check sees that in data that Proxmox has already returned, which is
// faster than a knock. Repeated checks knock, which costs the host nothing.
func (ns *Nodes) inFirstBoot(ctx context.Context, n spec.Node) bool {
	if !n.OnProxmox() || ns.Proxmox == nil {
		return false
	}
	if keys, err := ns.Hosts.Lookup(ns.guests[n.Name].addr); err != nil || len(keys) > 0 {
		return false // an earlier run has connected to it, so its first boot is over
	}
	all, err := ns.Proxmox.VMs.List(ctx, names.Tag(ns.Spec)) // a list that other steps have read too: no request for each machine
	i := slices.IndexFunc(all, func(vm proxmox.Summary) bool { return vm.Name == n.Name && vm.Running })
	if err != nil || i < 0 {
		return false
	}
	vm := &proxmox.VM{VMID: all[i].VMID, Host: all[i].Host, NICs: make([]proxmox.NIC, 1)} // each node has an interface
	return !ns.Proxmox.Agents.IsAlive(ctx, vm)
}

// bootOutput is the file where cloud-init stores the output of its commands.
const bootOutput = "/var/log/cloud-init-output.log"

// BootCause returns the output of a first boot's failed commands, read through root.
func BootCause(ctx context.Context, root remote.Runner) string {
	out, err := remote.Output(ctx, root, "tail", "-n", strconv.Itoa(causeLines), bootOutput)
	if err != nil {
		return ""
	}
	return commandOutput(string(out))
}

// maxShown limits how much of a line is shown, in bytes.
const maxShown = 160

// bootDoes returns the last line of output of a running first boot, or the stage that it is in.
func bootDoes(ctx context.Context, root remote.Runner, status cloudinit.Status) string {
	out, err := remote.Output(ctx, root, "tail", "-n", "1", bootOutput)
	said := strings.TrimSpace(string(out))
	if err == nil && said != "" {
		return strings.ToValidUTF8(said[:min(len(said), maxShown)], "")
	}
	if strings.HasPrefix(status.Detail, "DataSource") { // this does not say what the boot does
		return ""
	}
	return status.Detail
}

// loginGrace is how long the guest may refuse a login before that is an error.
const loginGrace = time.Minute

// refusalTime returns how long the guest has refused the login, counted from the first call.
func (m *Observation) refusalTime() time.Duration {
	now := time.Now().UnixNano()
	m.refused.CompareAndSwap(0, now)
	return time.Duration(now - m.refused.Load())
}

// CloudInitStatus reads the status. It ignores the exit code, which only repeats the status.
func CloudInitStatus(ctx context.Context, r remote.Runner) ([]byte, error) {
	out, err := remote.Output(ctx, r, "cloud-init", "status", "--format", "json")
	var exit *remote.ExitError
	if errors.As(err, &exit) && len(out) > 0 {
		return out, nil
	}
	return out, err
}

// agentHint says, for an error about a login, whether at least the guest agent answers.
func (ns *Nodes) agentHint(ctx context.Context, n spec.Node) string {
	if !n.OnProxmox() {
		return ""
	}
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil || vm == nil {
		return ""
	}
	return fmt.Sprintf("; the VM is %d on %s: it may not have read its seed, check its console", vm.VMID, vm.Host)
}

// bootStage names the boot stage of a guest that does not accept a login yet.
func bootStage(err error) string {
	if errors.Is(err, proxmox.ErrAgentNotRunning) {
		return "booting, the guest agent does not answer yet"
	}
	if errors.Is(err, errNoAnswer) {
		return "booting, its SSH server does not answer yet: " + printable.FirstLine(err.Error())
	}
	return printable.FirstLine(err.Error())
}
