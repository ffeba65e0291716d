package nodes

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// signers are the keys to log in with, in the order in which they are offered.
func (s *sharedState) signers() []ssh.Signer {
	if s.TokenKey == nil {
		return s.Signers
	}
	return append(slices.Clip(s.Signers), s.TokenKey)
}

//go:embed login.sh
var loginScript string

// keyChange is a machine of this cluster whose authorized_keys must change.
type keyChange struct {
	node spec.Node
	vm   string        // the VM that it is
	over remote.Runner // as root
	open bool          // it accepts our login, but lacks keys of the file
	keys []string      // the wanted authorized_keys
	gone int           // how many keys of the token's earlier secret are removed
	why  error         // why the keys cannot be added
	asks bool          // adding our keys needs consent
}

func (m keyChange) field() converge.Field {
	f := converge.Field{Path: m.node.Name, Have: "accepts no key of this run", Want: "this run's keys, through its guest agent", Effect: converge.Update}
	if m.open {
		f.Have, f.Want = "lacks keys of the file", "all of ssh.publicKeys"
	}
	if m.gone > 0 {
		f.Note = "replaces the key of this token's earlier secret"
	}
	return f
}

// logins are the nodes whose login the login step fixes, and those where it cannot.
type logins struct {
	mu      sync.Mutex
	planted map[string]bool
	shut    map[string]error // the reason
}

func (l *logins) set(all, shut []keyChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.planted, l.shut = map[string]bool{}, map[string]error{}
	for _, m := range all {
		l.planted[m.node.Name] = !m.open
	}
	for _, m := range shut {
		l.shut[m.node.Name] = m.why
	}
}

// refusal returns why a node accepts no key of this run, or nil.
func (l *logins) refusal(node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut[node]
}

// awaits reports whether a node refuses our keys until the login step has run.
func (l *logins) awaits(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.planted[node]
}

// LoginStep ensures, before anything changes, that this run can log in to the existing
// machines. A machine that a colleague made, or that was made with another secret of the
// token, gets our keys through its guest agent. So does a machine that lacks keys which were
// added to the file later. Other machines are not touched, so the step usually costs nothing.
func (ns *Nodes) LoginStep() *converge.Resource[[]keyChange] {
	return &converge.Resource[[]keyChange]{
		ID: "login",
		Observe: func(ctx context.Context) ([]keyChange, error) {
			all, others, err := ns.keyChanges(ctx)
			if err != nil {
				return nil, err
			}
			shut := slices.DeleteFunc(slices.Clone(all), func(m keyChange) bool { return m.why == nil })
			all = slices.DeleteFunc(all, func(m keyChange) bool { return m.why != nil })
			if len(shut) > 0 && len(all) == 0 && !others {
				return nil, converge.Permanent(ns.noLoginError(shut...))
			}
			for _, m := range shut { // its own step reports it; other machines go on
				converge.Progressf(ctx, "warning: %s accepts no key of this run, and its guest agent could not add one: %s", m.node.Name,
					printable.FirstLine(m.why.Error()))
			}
			ns.memory.Load().logins.set(all, shut)
			return all, nil
		},
		Diff: func(all []keyChange) converge.Diff {
			var d converge.Diff
			for _, m := range all {
				d = append(d, m.field())
			}
			return d
		},
		Apply: func(ctx context.Context, all []keyChange) error {
			for _, m := range all {
				if err := ns.checkSameMachine(ctx, m); err != nil { // the ones before took a while
					return err
				}
				converge.Progressf(ctx, "adding keys to %s", m.node.Name)
				if _, err := ns.runLoginScript(ctx, &m, "keep", strings.Join(m.keys, "\n")+"\n"); err != nil {
					return fmt.Errorf("add keys to %s: %w", m.node.Name, err)
				}
			}
			return nil
		},
		Costs:  costsOfLogin,
		Settle: time.Minute,
	}
}

// checkSameMachine returns an error if a machine is no longer the one that was looked at.
func (ns *Nodes) checkSameMachine(ctx context.Context, m keyChange) error {
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), m.node.Name)
	if err == nil && (vm == nil || vm.Identity() != m.vm) {
		err = converge.Transient(fmt.Errorf("%s is another machine since it was looked at", m.node.Name))
	}
	return err
}

// whyAsk is the reason why adding keys needs consent.
const whyAsk = "no server of the cluster knows a key of this run: the cluster was created from another folder, with another token or by another person"

// costsOfLogin asks before our keys go into machines that may belong to someone else. Otherwise
// anyone with a token for the hosts and the cluster's name in a file would get in.
func costsOfLogin(_ context.Context, all []keyChange, _ converge.Diff) (out []converge.Cost) {
	for _, m := range all {
		if m.asks {
			out = append(out, converge.Cost{Machine: m.node.Name, Identity: m.vm, Kind: converge.CostLogin, Reason: whyAsk})
		}
	}
	return out
}

// keyChanges finds the machines that we cannot log in to, and what to do about each. others
// reports whether there are also machines that let us in, or boot and may do so. A machine that
// accepts a connection and says nothing is neither. If all servers that answer let us in, no
// consent is needed: through Kubernetes we are root on the nodes anyway. The same holds for a
// machine that has an earlier key of this token. Every other machine needs consent.
func (ns *Nodes) keyChanges(ctx context.Context) (out []keyChange, others bool, err error) {
	all, err := ns.Proxmox.VMs.List(ctx, names.Tag(ns.Spec))
	if err != nil {
		return nil, false, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	known, refusing := false, false // by a server
	for _, n := range ns.Spec.Machines() {
		runs := slices.ContainsFunc(all, func(vm proxmox.Summary) bool { return vm.Name == n.Name && vm.Running })
		if !n.OnProxmox() || n.Boot != nil || !runs {
			continue
		}
		wg.Go(func() {
			m, is, err := ns.tryLogin(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			knows := is == open || m != nil && (m.open || m.gone > 0)
			known = known || n.Role == spec.Server && knows
			refusing = refusing || n.Role == spec.Server && m != nil && !knows // beside a server that this run's file added
			if m != nil {
				out = append(out, *m)
			} else if is != silent {
				others = true
			}
		})
	}
	wg.Wait()
	for i := range out {
		out[i].asks = (!known || refusing) && !out[i].open && out[i].gone == 0
	}
	slices.SortFunc(out, func(a, b keyChange) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return out, others, errors.Join(errs...)
}

// agentGrace is how long an agent may take to answer after the SSH server does: both
// start at the end of a boot. One that is silent long after that is not started.
const agentGrace = 15 * time.Second

// requiredKeyChange reads which keys may log in to a machine, and returns which keys must.
func (ns *Nodes) requiredKeyChange(ctx context.Context, n spec.Node, vm *proxmox.VM) (*keyChange, error) {
	m := &keyChange{node: n, vm: vm.Identity(), over: ns.Proxmox.Agents.Runner(vm)}
	deadline := time.Now().Add(agentGrace)
	var have []string
	for {
		have, m.why = askAgent(ctx, ns, vm, func(ctx context.Context) ([]string, error) { return ns.keysInside(ctx, vm, ns.guests[n.Name].user) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(m.why, proxmox.ErrAgentNotRunning) || time.Now().After(deadline) || ns.Proxmox.Agents.Uptime(ctx, vm) > BootTime {
			break
		}
		converge.Progressf(ctx, "%s accepts no key of this run; waiting for its guest agent", n.Name)
		if err := converge.Pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
	}
	if errors.Is(m.why, errFirstBoot) {
		return nil, nil // the first boot has not created the login yet
	}
	if m.why != nil {
		return m, nil
	}
	left := slices.DeleteFunc(slices.Clone(have), ns.outdated)
	m.keys, m.gone = appendMissing(left, ns.Seeds.AuthorizedKeys()), len(have)-len(left)
	if slices.Equal(m.keys, have) {
		m.why = errors.New("its authorized_keys has all keys of this run, but its SSH server accepts none of them: check its log (journalctl -u ssh) and sshd_config")
	}
	return m, nil
}

// errFirstBoot means that a machine's first boot is not over.
var errFirstBoot = errors.New("its first boot is not over")

// keysInside reads which keys may log in as user. It reads them through the agent and runs
// nothing in the guest.
func (ns *Nodes) keysInside(ctx context.Context, vm *proxmox.VM, user string) ([]string, error) {
	read := func(path string) (string, bool, error) {
		b, err := ns.Proxmox.Agents.ReadFile(ctx, vm, path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		return string(b), err == nil, err
	}
	if _, done, err := read(cloudinit.ResultFile); err != nil {
		return nil, err
	} else if !done {
		if _, started, err := read(firstboot.UserDataFile); started || err != nil {
			return nil, cmp.Or(err, errFirstBoot)
		}
	}
	passwd, _, err := read("/etc/passwd")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(passwd) {
		if f := strings.Split(line, ":"); f[0] == user && len(f) > 5 {
			keys, _, err := read(f[5] + "/.ssh/authorized_keys")
			return keyLines(keys), err
		}
	}
	return nil, fmt.Errorf("there is no user %s", user)
}

// keyLines are the lines of authorized_keys that are not empty.
func keyLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// outdated reports whether a line of authorized_keys is the key of an earlier secret of the
// token.
func (ns *Nodes) outdated(line string) bool {
	return ns.TokenKey != nil && strings.HasSuffix(line, " "+firstboot.TokenNote(ns.Spec)) && firstboot.KeyBlob(line) != firstboot.KeyBlob(ssh.AuthorizedKey(ns.TokenKey.PublicKey()))
}

// appendMissing appends to have the keys of more that it lacks.
func appendMissing(have, more []string) []string {
	out := slices.Clone(have)
	for _, k := range firstboot.Distinct(more) {
		// A line may begin with options, so the key is not always the second word.
		if !slices.ContainsFunc(have, func(line string) bool { return slices.Contains(strings.Fields(line), firstboot.KeyBlob(k)) }) {
			out = append(out, k)
		}
	}
	return out
}

// runLoginScript runs the authorized_keys script in a machine and returns its output lines.
func (ns *Nodes) runLoginScript(ctx context.Context, m *keyChange, do, input string) (lines []string, err error) {
	var out strings.Builder
	cmd := remote.Cmd{Args: []string{"sh", "-c", loginScript, "sh", ns.guests[m.node.Name].user, do}, Stdout: &out}
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	err = m.over.Run(ctx, cmd)
	return keyLines(out.String()), err
}

// noLoginError is the error for machines that this run cannot log in to.
func (ns *Nodes) noLoginError(shut ...keyChange) error {
	var text strings.Builder
	var errs []error
	for _, m := range shut {
		fmt.Fprintf(&text, "\n  %s: %s", m.node.Name, printable.FirstLine(m.why.Error()))
		errs = append(errs, m.why)
	}
	return &lockedOutError{text: "these machines of the cluster accept no key of this run, and their guest agents cannot add one:" + text.String() +
		"\nName a key that they accept (ssh.privateKey, with its public half in ssh.publicKeys), " +
		"run this in the folder with .homelab/" + ns.Spec.Name + "/id_ed25519, or start qemu-guest-agent on their consoles", errs: errs}
}

// lockedOutError is an error that also keeps its causes.
type lockedOutError struct {
	text string
	errs []error
}

func (e *lockedOutError) Error() string   { return e.text }
func (e *lockedOutError) Unwrap() []error { return e.errs }
