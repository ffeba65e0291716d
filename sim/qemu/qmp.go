package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// event is news from QEMU.
type event struct {
	Event string
	Data  struct {
		Device string
		ID     string
		Open   bool
		Guest  bool
		Reason string
	}
}

// monitor is the way to talk to a QEMU (docs/interop/qmp-spec.txt).
type monitor struct {
	conn    net.Conn
	replies chan reply
	ended   chan struct{} // closed when QEMU has hung up
	turn    sync.Mutex    // one command at a time
}

type reply struct {
	Return json.RawMessage
	Error  *struct{ Desc string }
}

// errHungUp is a QEMU that ended.
var errHungUp = errors.New("qemu: it has ended")

// newMonitor greets QEMU and tells news until it has ended.
func newMonitor(ctx context.Context, conn net.Conn, news func(event)) (*monitor, error) {
	m := &monitor{conn: conn, replies: make(chan reply, 1), ended: make(chan struct{})}
	in := bufio.NewReader(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err := in.ReadBytes('\n')
	stop()
	if err != nil {
		return nil, errHungUp
	}
	go m.listen(in, news)
	_, err = m.do(ctx, "qmp_capabilities", nil)
	return m, err
}

func (m *monitor) listen(in io.Reader, news func(event)) {
	defer close(m.ended)
	for dec := json.NewDecoder(in); ; {
		var line struct {
			event
			reply
		}
		if dec.Decode(&line) != nil {
			return
		}
		if line.Event != "" {
			news(line.event)
			continue
		}
		m.replies <- line.reply
	}
}

// do has QEMU do something.
func (m *monitor) do(ctx context.Context, command string, args map[string]any) (json.RawMessage, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return nil, errHungUp
	}
	select {
	case r := <-m.replies:
		if r.Error != nil {
			return nil, fmt.Errorf("qemu: %s: %s", command, r.Error.Desc)
		}
		return r.Return, nil
	case <-m.ended:
		return nil, errHungUp
	case <-ctx.Done():
		_ = m.conn.Close() // an answer that comes later would be taken for another's
		return nil, fmt.Errorf("qemu: no answer to %s: %w", command, context.Cause(ctx))
	}
}

// line has QEMU's monitor for people do something. What it says is why not.
func (m *monitor) line(ctx context.Context, format string, args ...any) error {
	command := fmt.Sprintf(format, args...)
	out, err := m.do(ctx, "human-monitor-command", map[string]any{"command-line": command})
	if err != nil {
		return err
	}
	var said string
	if err := json.Unmarshal(out, &said); err != nil {
		return err
	}
	if said = strings.TrimSpace(said); said != "" {
		return fmt.Errorf("qemu: %s: %s", command, said)
	}
	return nil
}

// raw is do with arguments as JSON.
func (m *monitor) raw(ctx context.Context, command, args string) error {
	var values map[string]any
	if err := json.Unmarshal([]byte(args), &values); err != nil {
		return err
	}
	_, err := m.do(ctx, command, values)
	return err
}
