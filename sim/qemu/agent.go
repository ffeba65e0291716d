package qemu

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// agent speaks to the QEMU guest agent through the machine's serial port
// (qga/qapi-schema.json). One command at a time has the port.
type agent struct {
	conn net.Conn
	in   *bufio.Reader
	turn chan struct{}
	next int
}

const (
	pingTime   = 3 * time.Second  // Proxmox's own
	answerTime = 10 * time.Second // of anything else
)

func newAgent(conn net.Conn) *agent {
	return &agent{conn: conn, in: bufio.NewReader(conn), turn: make(chan struct{}, 1)}
}

// agentError is what the agent says no with.
type agentError struct{ desc string }

func (e *agentError) Error() string { return e.desc }

// ask has the agent do something and reads its answer into out, unless that is nil.
func (a *agent) ask(limit time.Duration, command string, args map[string]any, out any) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case a.turn <- struct{}{}:
	case <-deadline.C:
		return guest.ErrNoAgent
	}
	defer func() { <-a.turn }()
	if err := a.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return guest.ErrNoAgent
	}
	if err := a.sync(); err != nil {
		return guest.ErrNoAgent
	}
	reply, err := a.exchange(command, args)
	if err != nil {
		return guest.ErrNoAgent
	}
	if reply.Error != nil {
		return &agentError{reply.Error.Desc}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply.Return, out)
}

// sync skips the answers to what was asked earlier and not waited for.
func (a *agent) sync() error {
	a.next++
	line := fmt.Appendf(nil, "\xff{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%d}}\n", a.next)
	if _, err := a.conn.Write(line); err != nil {
		return err
	}
	for {
		if _, err := a.in.ReadBytes(0xff); err != nil {
			return err
		}
		var got struct{ Return int }
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			return err
		}
		if json.Unmarshal(line, &got) == nil && got.Return == a.next {
			return nil
		}
	}
}

func (a *agent) exchange(command string, args map[string]any) (reply, error) {
	var out reply
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	if err := json.NewEncoder(a.conn).Encode(request); err != nil {
		return out, err
	}
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(bytes.TrimPrefix(line, []byte{0xff}), &out)
}

func (a *agent) ping() bool { return a.ask(pingTime, "guest-ping", nil, nil) == nil }

func (a *agent) exec(argv []string, input []byte) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("qemu: no command")
	}
	args := map[string]any{"path": argv[0], "arg": argv[1:], "capture-output": true}
	if len(input) > 0 {
		args["input-data"] = base64.StdEncoding.EncodeToString(input)
	}
	var out struct{ PID int }
	err := a.ask(answerTime, "guest-exec", args, &out)
	return out.PID, err
}

func (a *agent) status(pid int) (guest.ExecStatus, error) {
	var out struct {
		Exited   bool
		ExitCode int
		Signal   int
		Out      []byte `json:"out-data"`
		Err      []byte `json:"err-data"`
	}
	err := a.ask(answerTime, "guest-exec-status", map[string]any{"pid": pid}, &out)
	var no *agentError
	if errors.As(err, &no) {
		return guest.ExecStatus{}, fmt.Errorf("%w: %s", guest.ErrNoProcess, no.desc)
	}
	return guest.ExecStatus{Exited: out.Exited, ExitCode: out.ExitCode, Signal: out.Signal, Out: out.Out, Err: out.Err}, err
}

// open opens a file in the guest and returns its handle.
func (a *agent) open(name, mode string) (int, error) {
	var handle int
	err := a.ask(answerTime, "guest-file-open", map[string]any{"path": name, "mode": mode}, &handle)
	var no *agentError
	if errors.As(err, &no) && strings.Contains(no.desc, "No such file or directory") {
		return 0, fmt.Errorf("%s: %w", no.desc, fs.ErrNotExist)
	}
	return handle, err
}

func (a *agent) close(handle int) error {
	return a.ask(answerTime, "guest-file-close", map[string]any{"handle": handle}, nil)
}

// maxFile is how much of a file Proxmox reads (PVE/API2/Qemu/Agent.pm).
const maxFile = 16 << 20

func (a *agent) readFile(name string) ([]byte, error) {
	handle, err := a.open(name, "r")
	if err != nil {
		return nil, err
	}
	var data []byte
	for len(data) < maxFile {
		var part struct {
			Data []byte `json:"buf-b64"`
			EOF  bool
		}
		if err = a.ask(answerTime, "guest-file-read", map[string]any{"handle": handle, "count": 1 << 20}, &part); err != nil {
			break
		}
		if data = append(data, part.Data...); part.EOF || len(part.Data) == 0 {
			break
		}
	}
	return data, errors.Join(err, a.close(handle))
}

func (a *agent) writeFile(name string, data []byte) error {
	handle, err := a.open(name, "wb")
	if err != nil {
		return err
	}
	args := map[string]any{"handle": handle, "buf-b64": base64.StdEncoding.EncodeToString(data)}
	return errors.Join(a.ask(answerTime, "guest-file-write", args, nil), a.close(handle))
}

func (a *agent) interfaces() ([]guest.Interface, error) {
	var all []struct {
		Name  string
		MAC   string `json:"hardware-address"`
		Addrs []struct {
			Address string `json:"ip-address"`
			Prefix  int
		} `json:"ip-addresses"`
	}
	if err := a.ask(answerTime, "guest-network-get-interfaces", nil, &all); err != nil {
		return nil, err
	}
	out := make([]guest.Interface, 0, len(all))
	for _, i := range all {
		iface := guest.Interface{Name: i.Name, MAC: i.MAC}
		for _, addr := range i.Addrs {
			if ip, err := netip.ParseAddr(addr.Address); err == nil {
				iface.Addrs = append(iface.Addrs, netip.PrefixFrom(ip.WithZone(""), addr.Prefix))
			}
		}
		out = append(out, iface)
	}
	return out, nil
}

// shutdown asks for a power-off. The guest does not answer that: it is gone.
func (a *agent) shutdown() error {
	err := a.ask(answerTime, "guest-shutdown", map[string]any{"mode": "powerdown"}, nil)
	if errors.Is(err, guest.ErrNoAgent) {
		return nil
	}
	return err
}
