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
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// hostKeyFile is where a guest keeps the public half of its host key.
const hostKeyFile = "/etc/ssh/ssh_host_ed25519_key.pub"

// guest is a node seen from inside.
type guest struct {
	node spec.Node
	addr string // host:port of its SSH server
	user string // who logs in there
	ssh  *ssh.Client
	root remote.Runner // the same, as root
}

func (ns *Nodes) newGuest(n spec.Node) *guest {
	user, port := ns.Spec.Access.User, "22"
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
	g := &guest{node: n, addr: net.JoinHostPort(host, port), user: user}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n.DHCP() {
			ip, err := ns.leased(ctx, n)
			if err != nil {
				return nil, err
			}
			addr = net.JoinHostPort(ip.String(), port)
		}
		return ns.knock(ctx, g, network, addr)
	}
	g.ssh = ssh.New(ssh.Config{
		Addr: g.addr, User: user, Signers: ns.signers(), Agent: ns.Agent,
		Dial: dial, Via: ns.Via,
		HostKeys: func(ctx context.Context, addr string) ([]ssh.PublicKey, error) { return ns.hostKeys(ctx, n, addr) },
	})
	g.root = remote.Sudo(g.ssh)
	return g
}

func (g *guest) close() { _ = g.ssh.Close() }

// knockTime is how long a machine of ours may take to accept its first connection in
// a run: time for two packets. One that boots takes none, and a look is not to wait
// for it.
const knockTime = 1500 * time.Millisecond

// errNoAnswer means that a machine does not even refuse a connection.
var errNoAnswer = fmt.Errorf("no answer within %s", knockTime)

// knock connects to a guest. Whether its SSH server is there is the cheapest sign of
// life that there is: it costs the Proxmox host nothing.
func (ns *Nodes) knock(ctx context.Context, g *guest, network, addr string) (net.Conn, error) {
	if SeenOf(ctx, g.node.Name).answered.Load() || g.node.External || ns.Via != "" {
		return ns.DialTo(ctx, network, addr)
	}
	limited, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := ns.DialTo(limited, network, addr)
	switch {
	case err == nil:
		SeenOf(ctx, g.node.Name).answered.Store(true)
	case ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)):
		// No timeout of the caller's. The socket's comes with limited's, or a hair before.
		err = errNoAnswer
	}
	return conn, err
}

// leased returns the address that a node has from a DHCP server: its guest agent
// knows it.
func (ns *Nodes) leased(ctx context.Context, n spec.Node) (netip.Addr, error) {
	vm, err := ns.Proxmox.VM(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil {
		return netip.Addr{}, err
	}
	if vm == nil {
		return netip.Addr{}, fmt.Errorf("there is no VM %s", n.Name)
	}
	addrs, err := run.InAgentTime(ctx, func(ctx context.Context) ([]netip.Addr, error) { return ns.Proxmox.AgentAddresses(ctx, vm) })
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

// Root returns the runner that is root on a node.
func (ns *Nodes) Root(node string) remote.Runner { return ns.guests[node].root }

// hostKeys returns the host keys of a node. They are read through the guest agent,
// over the authenticated API, and kept in known_hosts, which is a cache and nothing
// more: it is forgotten when the VM is made, and when a key does not fit.
func (ns *Nodes) hostKeys(ctx context.Context, n spec.Node, addr string) ([]ssh.PublicKey, error) {
	keys, err := ns.Hosts.Lookup(addr)
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	if n.External {
		return ns.keysOfOthers(n, addr)
	}
	vm, err := ns.Proxmox.VM(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		return nil, fmt.Errorf("there is no VM %s", n.Name)
	}
	b, err := run.InAgentTime(ctx, func(ctx context.Context) ([]byte, error) { return ns.Proxmox.AgentReadFile(ctx, vm, hostKeyFile) })
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParseAuthorizedKey(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", hostKeyFile, n.Name, err)
	}
	return []ssh.PublicKey{key}, ns.Hosts.Store(addr, key)
}

// inside is what a guest says of itself.
type inside struct {
	status  cloudinit.Status
	problem string // why it could not be asked yet
	doing   string // what its first boot does, while that goes on
}

// GuestStep waits until a node can be logged in to and its first boot is over.
func (ns *Nodes) GuestStep(n spec.Node) *converge.Resource[inside] {
	return &converge.Resource[inside]{
		ID:      "guest/" + n.Name,
		Observe: func(ctx context.Context) (inside, error) { return ns.lookInside(ctx, n) },
		Diff: func(s inside) drift.Diff {
			if s.problem != "" {
				return drift.Diff{{Have: s.problem, Want: "a login over SSH", Effect: drift.Create}}
			}
			if s.status.State != cloudinit.Done {
				return drift.Diff{{Path: "first boot", Have: string(s.status.State), Want: "done", Effect: drift.Create, Note: s.doing}}
			}
			return nil
		},
		Settle: BootTime,
		Poll:   run.LookEvery,
		Hint: "check on the machine's console (in Proxmox's web interface, or qm terminal on the host) that it boots and has its address, " +
			"and check the route to it (gateway, VLAN, ssh.jump). A repeated run continues from here",
	}
}

// BootTime is how long a machine may take from power-on to the end of its first
// boot. Servers with much memory pass it through to the guest page by page first.
const BootTime = 10 * time.Minute

// lookInside asks a guest for its state. An unreachable guest is an answer; a wrong
// host key, a refused login or a failed first boot are permanent errors.
func (ns *Nodes) lookInside(ctx context.Context, n spec.Node) (inside, error) {
	g := ns.guests[n.Name]
	if !SeenOf(ctx, n.Name).looked.Swap(true) && ns.inFirstBoot(ctx, n) {
		return inside{problem: "booting, it has not sent a network packet yet"}, nil
	}
	out, err := CloudInitStatus(ctx, g.ssh)
	var wrong *ssh.HostKeyError
	if errors.As(err, &wrong) && wrong.Got != "" && !n.External {
		// The machine may have been recreated since the key was stored.
		if err := ns.Hosts.Store(g.addr); err != nil {
			return inside{}, err
		}
		out, err = CloudInitStatus(ctx, g.ssh)
	}
	var auth *ssh.AuthError
	switch {
	case err == nil:
	case wait.IsPermanent(err):
		return inside{}, err
	case ctx.Err() != nil:
		return inside{}, ctx.Err()
	case ofThisMachine(err):
		return inside{}, converge.Permanent(err)
	case ns.logins.closed(n.Name) != nil && (errors.As(err, &auth) || errors.Is(err, proxmox.ErrAgentNotRunning)):
		return inside{}, converge.Permanent(ns.noLoginError(locked{node: n, why: ns.logins.closed(n.Name)}))
	case errors.As(err, &auth) && ns.logins.awaits(n.Name):
		return inside{problem: "its SSH server answers, and step login adds the key of this run"}, nil
	case errors.As(err, &auth) && SeenOf(ctx, n.Name).refusedFor() < loginGrace:
		return inside{problem: "its SSH server answers, the first boot has not created the login yet"}, nil
	case errors.As(err, &auth):
		if _, failed := ns.withoutLogin(ctx, n, err); failed != nil {
			return inside{}, failed
		}
		return inside{}, converge.Permanent(fmt.Errorf("%w%s", err, ns.agentHint(ctx, n)))
	case errors.As(err, &wrong):
		return inside{}, converge.Permanent(fmt.Errorf("%w%s", err, ns.agentHint(ctx, n)))
	default:
		progress.Say(ctx, "%s", printable.FirstLine(err.Error()))
		return ns.withoutLogin(ctx, n, err)
	}
	status, err := cloudinit.ParseStatus(out)
	if err != nil {
		return inside{}, err
	}
	if err := status.Err(); err != nil && !errors.Is(err, cloudinit.ErrNotDone) {
		return inside{}, converge.Permanent(fmt.Errorf("first boot of %s failed: %w%s", n.Name, err, BootCause(ctx, g.root)))
	}
	if status.State == cloudinit.Done {
		if err := ns.checkIdentity(ctx, n); err != nil {
			return inside{}, err
		}
		return inside{status: status}, nil
	}
	return inside{status: status, doing: bootDoes(ctx, g.root, status)}, nil
}

// WaitBooted waits until a node can be logged in to again.
func (ns *Nodes) WaitBooted(ctx context.Context, n spec.Node) error {
	rule := wait.Rule{What: "waiting for " + n.Name + " to boot", Limit: BootTime, Late: n.Name + " did not come back", Strict: true}
	return run.Until(ctx, ns.Spec, rule, func(ctx context.Context) (string, error) {
		seen, err := ns.lookInside(ctx, n)
		if err != nil || seen.problem == "" && seen.status.State == cloudinit.Done {
			return "", err
		}
		return cmp.Or(seen.problem, "first boot: "+string(seen.status.State)), nil
	})
}

// ofThisMachine reports whether a file of ours is what an error is about, such as
// known_hosts on a full disk.
func ofThisMachine(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

// inFirstBoot reports whether a machine of ours is in its first boot and cannot be reached
// yet. A first look sees that in what it has asked Proxmox already, where a knock takes
// its time; a repeated check knocks, which costs the host nothing.
func (ns *Nodes) inFirstBoot(ctx context.Context, n spec.Node) bool {
	if n.External || ns.Proxmox == nil {
		return false
	}
	if keys, err := ns.Hosts.Lookup(ns.guests[n.Name].addr); err != nil || len(keys) > 0 {
		return false // it has been met, so its first boot is over
	}
	vm, err := ns.Proxmox.VM(ctx, names.Tag(ns.Spec), n.Name)
	return err == nil && vm != nil && vm.Running && !ns.Proxmox.ShowsLife(ctx, vm)
}

// bootOutput is where cloud-init keeps what its commands said.
const bootOutput = "/var/log/cloud-init-output.log"

// BootCause is commandsSaid of a machine that we can log in to.
func BootCause(ctx context.Context, root remote.Runner) string {
	out, err := remote.Output(ctx, root, "tail", "-n", strconv.Itoa(causeLines), bootOutput)
	if err != nil {
		return ""
	}
	return commandOutput(string(out))
}

// maxShown limits how much of a line is shown, in bytes.
const maxShown = 160

// bootDoes is what a first boot that goes on has said last, or the stage that it is in.
func bootDoes(ctx context.Context, root remote.Runner, status cloudinit.Status) string {
	out, err := remote.Output(ctx, root, "tail", "-n", "1", bootOutput)
	said := strings.TrimSpace(string(out))
	if err == nil && said != "" {
		return strings.ToValidUTF8(said[:min(len(said), maxShown)], "")
	}
	if strings.HasPrefix(status.Detail, "DataSource") { // which is not what it does
		return ""
	}
	return status.Detail
}

// loginGrace is how long a login may be refused before that is an error.
const loginGrace = time.Minute

// refusedFor says since when the login was refused, and begins to count.
func (m *Seen) refusedFor() time.Duration {
	now := time.Now().UnixNano()
	m.refused.CompareAndSwap(0, now)
	return time.Duration(now - m.refused.Load())
}

// CloudInitStatus reads the status, whose exit code repeats what it says.
func CloudInitStatus(ctx context.Context, r remote.Runner) ([]byte, error) {
	out, err := remote.Output(ctx, r, "cloud-init", "status", "--format", "json")
	var exit *remote.ExitError
	if errors.As(err, &exit) && len(out) > 0 {
		return out, nil
	}
	return out, err
}

// agentHint says whether the guest at least lives, for an error about its login.
func (ns *Nodes) agentHint(ctx context.Context, n spec.Node) string {
	if n.External {
		return ""
	}
	vm, err := ns.Proxmox.VM(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil || vm == nil {
		return ""
	}
	return fmt.Sprintf("; the VM is %d on %s: it may not have read its seed, check its console", vm.VMID, vm.Host)
}

// notYet names the stage that a guest which cannot be logged in to is in.
func notYet(err error) string {
	if errors.Is(err, proxmox.ErrAgentNotRunning) {
		return "booting, the guest agent does not answer yet"
	}
	if errors.Is(err, errNoAnswer) {
		return "booting, its SSH server does not answer yet: " + printable.FirstLine(err.Error())
	}
	return printable.FirstLine(err.Error())
}
