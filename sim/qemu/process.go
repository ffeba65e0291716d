package qemu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// process is a QEMU that runs.
type process struct {
	cmd     *exec.Cmd
	monitor *monitor
	agent   *agent
	stderr  bytes.Buffer // to be read when it has ended
	ended   chan struct{}

	listening atomic.Bool   // the guest's agent has opened its port
	opened    chan struct{} // something is put in whenever it does

	mu      sync.Mutex
	deleted map[string]chan struct{} // by device, closed when it is gone
}

// startTime is how long QEMU may take to say that it is there.
const startTime = 30 * time.Second

// firstCable is the number that the first of start's cables has in QEMU.
const firstCable = 5

// start runs QEMU until ctx ends. news is told what happens, from another goroutine.
// The cables stay the caller's.
func start(ctx context.Context, args []string, news func(event), cables ...*os.File) (*process, error) {
	p := &process{ended: make(chan struct{}), opened: make(chan struct{}, 1), deleted: map[string]chan struct{}{}}
	qmp, theirQMP, err := pair()
	if err != nil {
		return nil, err
	}
	qga, theirQGA, err := pair()
	if err != nil {
		return nil, errors.Join(err, qmp.Close(), theirQMP.Close())
	}
	p.agent = newAgent(qga)
	p.cmd = exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	p.cmd.ExtraFiles = append([]*os.File{theirQMP, theirQGA}, cables...) // from 3
	p.cmd.Stdout, p.cmd.Stderr = &p.stderr, &p.stderr
	dieWithUs(p.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // see dieWithUs
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended shows in what it has said
		}
		_ = qga.Close()
		close(p.ended)
	}()
	err = <-started
	_, _ = theirQMP.Close(), theirQGA.Close()
	if err != nil {
		return nil, errors.Join(err, qmp.Close())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("QEMU does not come up"))
	defer cancel()
	p.monitor, err = newMonitor(ctx, qmp, func(e event) { p.hear(e); news(e) })
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("start failed: QEMU: %s", cmp.Or(strings.TrimSpace(p.stderr.String()), err.Error()))
	}
	return p, nil
}

// kill ends it and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) hear(e event) {
	switch e.Event {
	case "VSERPORT_CHANGE":
		if p.listening.Store(e.Data.Open); e.Data.Open {
			select {
			case p.opened <- struct{}{}:
			default:
			}
		}
	case "DEVICE_DELETED":
		p.mu.Lock()
		defer p.mu.Unlock()
		if gone := p.deleted[e.Data.Device]; gone != nil {
			close(gone)
			delete(p.deleted, e.Data.Device)
		}
	}
}

// pull takes a device out, when the guest has released it.
func (p *process) pull(ctx context.Context, device string) error {
	gone := make(chan struct{})
	p.mu.Lock()
	p.deleted[device] = gone
	p.mu.Unlock()
	if _, err := p.monitor.do(ctx, "device_del", map[string]any{"id": device}); err != nil {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-p.ended:
		return errHungUp
	case <-ctx.Done():
		return fmt.Errorf("the guest does not let go of %s: %w", device, context.Cause(ctx))
	}
}

// freePort is one of this machine's that nothing listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
