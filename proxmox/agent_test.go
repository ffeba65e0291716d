package proxmox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
	"github.com/cps-gpu/homelab/sim/facts"
)

// agent is the guest agent's part of Proxmox's API in front of this machine:
// commands are real processes, and answers have Proxmox's encoding, which makes a
// character of each byte.
type agent struct {
	mu      sync.Mutex
	running map[int]*process
	next    int
	inputs  int // how many commands had input-data
	written []string
}

type process struct {
	done     chan struct{}
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// latin1 is how Proxmox's JSON shows bytes.
func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

func (a *agent) exec(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Command []string `json:"command"`
		Input   *string  `json:"input-data"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Command) == 0 {
		raw(400, "Parameter verification failed.", "")(w, r)
		return
	}
	p := &process{done: make(chan struct{}), cmd: exec.Command(in.Command[0], in.Command[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if in.Input != nil {
		if len(*in.Input) > 64<<10 {
			raw(400, "Parameter verification failed.", `{"errors":{"input-data":"value may only be 65536 characters long"}}`)(w, r)
			return
		}
		p.cmd.Stdin = bytes.NewReader([]byte(*in.Input))
	}
	if err := p.cmd.Start(); err != nil {
		// The agent's text has quotes that are not ASCII, and kills the reply.
		raw(596, "Broken pipe", "")(w, r)
		return
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.Input != nil {
		a.inputs++
	}
	a.next++
	a.running[a.next] = p
	data(map[string]any{"pid": a.next})(w, r)
}

func (a *agent) status(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pid, _ := strconv.Atoi(r.URL.Query().Get("pid"))
	p, ok := a.running[pid]
	if !ok {
		raw(500, "x", `{"data":null,"message":"Agent error: PID ld does not exist\n"}`)(w, r)
		return
	}
	select {
	case <-p.done:
	default:
		data(map[string]any{"exited": 0})(w, r)
		return
	}
	delete(a.running, pid) // the first look takes the result
	answer := map[string]any{"exited": 1, "out-data": latin1(p.out.Bytes()), "err-data": latin1(p.err.Bytes())}
	if state := p.cmd.ProcessState.Sys().(syscall.WaitStatus); state.Signaled() {
		answer["signal"] = int(state.Signal())
	} else {
		answer["exitcode"] = state.ExitStatus()
	}
	data(answer)(w, r)
}

func (a *agent) fileWrite(w http.ResponseWriter, r *http.Request) {
	var in struct {
		File    string      `json:"file"`
		Content string      `json:"content"`
		Encode  json.Number `json:"encode"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Content) > 61440 || in.Encode != "0" {
		raw(400, "Parameter verification failed.", "")(w, r)
		return
	}
	content, err := base64.StdEncoding.DecodeString(in.Content)
	if err == nil {
		a.mu.Lock()
		a.written = append(a.written, in.File)
		a.mu.Unlock()
		err = os.WriteFile(in.File, content, 0o644)
	}
	if err != nil {
		raw(500, "x", `{"data":null,"message":"Agent error\n"}`)(w, r)
		return
	}
	data(nil)(w, r)
}

func (a *agent) fileRead(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(r.URL.Query().Get("file"))
	if err != nil {
		raw(500, "x", `{"data":null,"message":"Agent error: failed to open file\n"}`)(w, r)
		return
	}
	data(map[string]any{"content": latin1(content), "bytes-read": len(content)})(w, r)
}

var guestVM = &proxmox.VM{Name: "guest", Host: "pve1", VMID: 100}

// withAgent returns a client of a host whose VM 100 is this machine.
func withAgent(t *testing.T) (*proxmox.Client, *agent) {
	a := &agent{running: map[int]*process{}, next: 1000}
	const path = " /nodes/pve1/qemu/100/agent/"
	h := serve(t, map[string]http.HandlerFunc{
		"POST" + path + "exec": a.exec, "GET" + path + "exec-status": a.status,
		"POST" + path + "file-write": a.fileWrite, "GET" + path + "file-read": a.fileRead,
	})
	return h.dial(t), a
}

func TestGuestContract(t *testing.T) {
	facts.Root(t, "the guest agent is")
	c, _ := withAgent(t)
	remotetest.Contract(t, func(*testing.T) remote.Runner { return c.Agents.Runner(guestVM) })
}

func TestGuestSmallInputIsOneRequest(t *testing.T) {
	c, a := withAgent(t)
	var out bytes.Buffer
	require.NoError(t, c.Agents.Runner(guestVM).Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader([]byte("plain")), Stdout: &out}))
	assert.Equal(t, "plain", out.String())
	assert.Equal(t, 1, a.inputs)
}

func TestGuestBigInput(t *testing.T) {
	facts.Root(t, "the guest agent is")
	c, a := withAgent(t)
	input := bytes.Repeat([]byte("0123456789abcde\xff"), 12_345)
	var out bytes.Buffer
	require.NoError(t, c.Agents.Runner(guestVM).Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(input), Stdout: &out}))
	assert.True(t, bytes.Equal(input, out.Bytes()))
	require.Greater(t, len(a.written), 1)
	for _, file := range a.written {
		assert.NoDirExists(t, filepath.Dir(file))
	}
}

func TestGuestSignal(t *testing.T) {
	c, _ := withAgent(t)
	err := remote.Run(t.Context(), c.Agents.Runner(guestVM), "sh", "-c", "kill -9 $$")
	var exit *remote.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, "KILL", exit.Signal)
	assert.Equal(t, 137, exit.Code)
}

// A reader that never ends must not keep a cancelled command.
func TestGuestCancelWhileInputIsRead(t *testing.T) {
	c, _ := withAgent(t)
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := c.Agents.Runner(guestVM).Run(ctx, remote.Cmd{Args: []string{"cat"}, Stdin: r})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTruncatedOutputIsAnError(t *testing.T) {
	const path = " /nodes/pve1/qemu/100/agent/"
	h := serve(t, map[string]http.HandlerFunc{
		"POST" + path + "exec":       data(map[string]any{"pid": 7}),
		"GET" + path + "exec-status": data(map[string]any{"exited": 1, "exitcode": 0, "out-data": "half", "out-truncated": true, "err-truncated": 0, "signal": nil}),
		"GET" + path + "file-read":   data(map[string]any{"content": "half", "truncated": 1}),
	})
	c := h.dial(t)
	assert.ErrorContains(t, remote.Run(t.Context(), c.Agents.Runner(guestVM), "cat", "/big"), "was cut off")
	_, err := c.Agents.ReadFile(t.Context(), guestVM, "/big")
	assert.ErrorContains(t, err, "larger than the guest agent returns")
}

// go-proxmox answers a refused exec with "no pid returned".
func TestAgentNotRunning(t *testing.T) {
	const path = " /nodes/pve1/qemu/100/agent/"
	down := raw(500, "x", `{"data":null,"message":"QEMU guest agent is not running\n"}`)
	h := serve(t, map[string]http.HandlerFunc{"POST" + path + "exec": down, "GET" + path + "file-read": down, "GET" + path + "info": down})
	c := h.dial(t)
	assert.ErrorIs(t, remote.Run(t.Context(), c.Agents.Runner(guestVM), "true"), proxmox.ErrAgentNotRunning)
	_, err := c.Agents.ReadFile(t.Context(), guestVM, "/etc/hostname")
	assert.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err = c.Agents.Wait(ctx, guestVM)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "the guest agent of guest (VM 100 on pve1) has not answered")
}

func TestLostResultSaysSo(t *testing.T) {
	const path = " /nodes/pve1/qemu/100/agent/"
	h := serve(t, map[string]http.HandlerFunc{
		"POST" + path + "exec":       data(map[string]any{"pid": 7}),
		"GET" + path + "exec-status": raw(500, "x", `{"data":null,"message":"Agent error: PID ld does not exist\n"}`),
	})
	err := remote.Run(t.Context(), h.dial(t).Agents.Runner(guestVM), "true")
	assert.ErrorContains(t, err, "it is not known whether it succeeded")
	var exit *remote.ExitError
	assert.False(t, errors.As(err, &exit))
}
