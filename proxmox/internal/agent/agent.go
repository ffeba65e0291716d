package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/remote"
)

// Agents talks to the guest agents of VMs. It is safe for concurrent use. Share one Agents, because
// it remembers which agents did not answer.
type Agents struct {
	pve    *api.Client
	silent notes[silence] // agents that did not answer
}

// VM is what is to be known of a VM to ask its agent.
type VM struct {
	Host, Name string
	VMID       int
	Networked  bool   // it has a network interface
	MAC        string // of the first
}

// String names the VM: "wk-gpu1 (VM 104 on pve1)".
func (v VM) String() string { return fmt.Sprintf("%s (VM %d on %s)", v.Name, v.VMID, v.Host) }

// New returns the Agents of a Proxmox cluster.
func New(pve *api.Client) *Agents { return &Agents{pve: pve} }

// lifePause is the time between two checks for a sign of life.
const lifePause = 3 * time.Second

// maxOff is how many times in a row a VM may be off while Wait waits for its agent: a restart looks
// like that.
const maxOff = 3

// Wait waits until the guest agent answers.
func (a *Agents) Wait(ctx context.Context, vm VM) error {
	begun, off, seen := time.Now(), 0, ""
	var away error // the host's error while it does not answer
	for {
		var info struct{}
		err := a.request(ctx, vm, "info", nil, &info)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return noAnswerError(ctx, vm, begun, seen, away)
		case converge.IsTransient(err): // the host does not answer, which says nothing about the guest
			away = err
			converge.Progressf(ctx, "waiting for the guest agent of %s: %s", vm.Name, api.ShortMessage(err))
			if converge.Pause(ctx, lifePause) != nil {
				return noAnswerError(ctx, vm, begun, seen, away)
			}
			continue
		case api.IsNotRunning(err) && off < maxOff:
			off++
		case !errors.Is(err, api.ErrAgentNotRunning):
			return fmt.Errorf("guest agent of %s: %w", vm, err)
		default:
			off = 0
		}
		away = nil
		if seen = "the guest's network is up, and it still boots or installs: "; errors.Is(err, errMute) {
			seen = "the guest has not sent anything over its network yet: "
		}
		converge.Progressf(ctx, "waiting for the guest agent of %s: %s", vm.Name, strings.TrimSuffix(seen, ": "))
		if converge.Pause(ctx, lifePause) != nil {
			return noAnswerError(ctx, vm, begun, seen, nil)
		}
	}
}

func noAnswerError(ctx context.Context, vm VM, begun time.Time, seen string, away error) error {
	if away != nil {
		return fmt.Errorf("the guest agent of %s has not answered in %s, and now %s does not answer either: %w: %w",
			vm, time.Since(begun).Round(time.Second), vm.Host, context.Cause(ctx), away)
	}
	return fmt.Errorf("the guest agent of %s has not answered in %s: %s%w", vm, time.Since(begun).Round(time.Second), seen, context.Cause(ctx))
}

// ReadFile returns a file of the guest, up to 16 MiB. It is a GET, so it changes and runs nothing.
func (a *Agents) ReadFile(ctx context.Context, vm VM, path string) ([]byte, error) {
	var answer struct {
		Content   string    `json:"content"`
		Truncated wire.Bool `json:"truncated"`
	}
	if err := a.request(ctx, vm, "file-read", url.Values{"file": {path}}, &answer); err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", path, vm, err)
	}
	if answer.Truncated {
		return nil, fmt.Errorf("read %s in %s: larger than the guest agent returns (16 MiB)", path, vm)
	}
	return octets(answer.Content), nil
}

// ErrShort means that a device of a guest has fewer bytes than were asked for, at least now.
var ErrShort = errors.New("the guest has not that much to read now")

// ReadStart returns the first count bytes of a file of the guest, at most 16 MiB. A device that has fewer at the moment is
// ErrShort: qemu-ga opens files without blocking, and gives nothing of a read that fails midway
// (guest_file_read_unsafe, qga/commands-posix.c). Proxmox VE before 9.2 does not know count.
func (a *Agents) ReadStart(ctx context.Context, vm VM, path string, count int) ([]byte, error) {
	var answer struct {
		Content string `json:"content"`
	}
	err := a.request(ctx, vm, "file-read", url.Values{"file": {path}, "count": {strconv.Itoa(count)}}, &answer)
	switch {
	case err != nil && strings.Contains(err.Error(), "failed to read file"):
		err = ErrShort
	case err == nil:
		return octets(answer.Content), nil
	}
	return nil, fmt.Errorf("read %d bytes of %s in %s: %w", count, path, vm, err)
}

// Runner returns a Runner that runs commands in vm as root, through the guest agent. It needs no
// network and no login in the guest. It is slow: each command takes at least two requests, and
// output arrives at the end, at most 16 MiB.
func (a *Agents) Runner(vm VM) remote.Runner {
	g := &guest{pve: a.pve, host: vm.Host, vmid: vm.VMID, name: vm.String()}
	return remote.RunnerFunc(g.run)
}

type guest struct {
	pve  *api.Client
	host string
	vmid int
	name string
}

func (g *guest) path(verb string) string { return api.VMPath(g.host, g.vmid, "agent", verb) }

// maxInput is the largest input that exec takes. Larger input, or input that is not plain ASCII,
// goes through a file in the guest.
const maxInput = 64 << 10

func (g *guest) run(ctx context.Context, cmd remote.Cmd) error {
	if len(cmd.Args) == 0 {
		return errors.New("guest agent: no command")
	}
	input, err := slurp(ctx, cmd.Stdin)
	if err != nil {
		return err
	}
	args := cmd.Args
	var direct *string
	switch {
	case cmd.Stdin == nil:
	case len(input) <= maxInput && isASCII(input):
		text := string(input)
		direct = &text
	default:
		var done func()
		if args, done, err = g.stage(ctx, args, input); err != nil {
			return err
		}
		defer done()
	}
	result, err := g.exec(ctx, args, direct)
	if err != nil {
		return err
	}
	return g.deliver(cmd, result)
}

// slurp reads a command's input, and stops when ctx ends, even if the reader does not.
func slurp(ctx context.Context, r interface{ Read([]byte) (int, error) }) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		var b bytes.Buffer
		_, err := b.ReadFrom(r)
		done <- read{b.Bytes(), err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-done:
		if got.err != nil {
			return nil, fmt.Errorf("input of the command: %w", got.err)
		}
		return got.data, nil
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// execResult is the answer of exec-status.
type execResult struct {
	Exited       wire.Bool `json:"exited"`
	Code         wire.Int  `json:"exitcode"`
	Signal       wire.Int  `json:"signal"`
	Out          string    `json:"out-data"`
	Err          string    `json:"err-data"`
	OutTruncated wire.Bool `json:"out-truncated"`
	ErrTruncated wire.Bool `json:"err-truncated"`
}

// firstStatus and lastStatus bound the time between two checks of a command.
const (
	firstStatus = 50 * time.Millisecond
	lastStatus  = time.Second
)

// busyFor is how long an agent that has started a command may fail to answer before exec stops
// waiting for the command. Proxmox pings the agent before each request, for 3 s, which is short for
// a busy guest; a request that was not sent costs nothing.
const busyFor = time.Minute

// exec runs a command and waits until it ends. If ctx ends first, the command continues: the agent
// has no way to stop it.
func (g *guest) exec(ctx context.Context, args []string, input *string) (execResult, error) {
	pid, err := g.start(ctx, args, input)
	if err != nil {
		return execResult{}, err
	}
	pause, heard := firstStatus, time.Now()
	for {
		var result execResult
		err := g.pve.Get(ctx, g.path("exec-status"), url.Values{"pid": {strconv.Itoa(pid)}}, &result)
		switch {
		case ctx.Err() != nil:
			return execResult{}, fmt.Errorf("%s in %s: %w", args[0], g.name, ctx.Err())
		case errors.Is(err, api.ErrAgentNotRunning) && time.Since(heard) < busyFor:
			converge.Progressf(ctx, "the agent of %s does not answer; asking again", g.name)
		case err != nil:
			return execResult{}, g.lostResultError(args, err)
		case bool(result.Exited):
			return result, nil
		default:
			heard = time.Now()
		}
		if converge.Pause(ctx, pause) != nil {
			return execResult{}, fmt.Errorf("%s in %s: %w", args[0], g.name, ctx.Err())
		}
		pause = min(pause*3/2, lastStatus)
	}
}

// lostResultError explains why the result of a command is unknown.
func (g *guest) lostResultError(args []string, err error) error {
	if api.IsUnknownPID(err) {
		return fmt.Errorf("%s in %s: its result was lost in an earlier answer, so it is not known whether it succeeded: %w", args[0], g.name, err)
	}
	return fmt.Errorf("%s in %s: %w", args[0], g.name, err)
}

// start starts a command and returns its process id.
func (g *guest) start(ctx context.Context, args []string, input *string) (int, error) {
	p := api.Params{"command": args}
	if input != nil {
		p["input-data"] = *input
	}
	var answer struct {
		PID *wire.Int `json:"pid"`
	}
	err := g.pve.Call(ctx, http.MethodPost, g.path("exec"), p, &answer)
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%s in %s: %w", args[0], g.name, ctx.Err())
	}
	if err != nil && g.programMissing(ctx, args[0], err) {
		return 0, &remote.ExitError{Args: args, Code: 127, Stderr: args[0] + ": not found"}
	}
	if err != nil {
		return 0, fmt.Errorf("%s in %s: %w", args[0], g.name, err)
	}
	if answer.PID == nil {
		return 0, fmt.Errorf("%s in %s: the guest agent's answer names no process", args[0], g.name)
	}
	return int(*answer.PID), nil
}

// programMissing reports whether a command could not start because the guest has no such program. The
// agent's message has quotes that are not ASCII, so Proxmox drops the whole answer (596 Broken
// pipe); then missing asks the guest.
func (g *guest) programMissing(ctx context.Context, program string, err error) bool {
	if api.IsProgramMissing(err) {
		return true
	}
	if api.ClassOf(err) != api.Unknown || program == "sh" {
		return false
	}
	result, err := g.exec(ctx, []string{"sh", "-c", `command -v -- "$1"`, "sh", program}, nil)
	return err == nil && result.Code != 0
}

// deliver writes the output and turns the exit status into an error. A Windows
// exception code aside, signal is the number of a signal.
func (g *guest) deliver(cmd remote.Cmd, result execResult) error {
	out, errs := octets(result.Out), octets(result.Err)
	if cmd.Stdout != nil {
		if _, err := cmd.Stdout.Write(out); err != nil {
			return err
		}
	}
	if cmd.Stderr != nil {
		if _, err := cmd.Stderr.Write(errs); err != nil {
			return err
		}
	}
	if result.Code != 0 || result.Signal != 0 {
		exit := &remote.ExitError{Args: cmd.Args, Code: int(result.Code), Stderr: string(errs[max(0, len(errs)-remote.TailSize):])}
		if result.Signal != 0 {
			exit.Code, exit.Signal = 128+int(result.Signal), signalName(int(result.Signal))
		}
		return exit
	}
	if result.OutTruncated || result.ErrTruncated {
		return fmt.Errorf("%s in %s: its output is larger than the guest agent returns (16 MiB) and was cut off", cmd.Args[0], g.name)
	}
	return nil
}

// octets returns the bytes that Proxmox decoded from the agent's base64 and then wrote as JSON
// text, one character for each byte (its strings have no encoding). Text with characters above 255
// was not made that way and is returned unchanged.
func octets(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		out = append(out, byte(r))
	}
	return out
}

func signalName(n int) string {
	names := map[int]string{1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 14: "ALRM", 15: "TERM"}
	if name, ok := names[n]; ok {
		return name
	}
	return strings.TrimSpace(strconv.Itoa(n))
}
