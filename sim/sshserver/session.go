package sshserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"
)

// signalNames are the signals of RFC 4254, 6.10, by their numbers on Linux.
var signalNames = map[int]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 6: "ABRT", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM",
}

// ErrSignal is the cause of the end of a command's context when the client has sent a signal.
// If the client closed the session or disconnected, the cause is another error.
var ErrSignal = errors.New("the client has sent a signal")

// session serves one session channel: one command.
func (c *connection) session(ctx context.Context, nch ssh.NewChannel) {
	select {
	case c.places <- struct{}{}:
	default:
		_ = nch.Reject(ssh.ConnectionFailed, "open failed") // as OpenSSH says it
		return
	}
	leave := func() { <-c.places }
	ch, requests, err := nch.Accept()
	if err != nil {
		leave()
		return
	}
	defer func() { _ = ch.Close() }()
	defer leave() // before the client sees the end and may open the next session
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	ended := make(chan struct{})
	running := false
	for {
		select {
		case <-ended:
			return
		case r, open := <-requests:
			if !open { // the client closed the session
				cancel(nil)
				if running {
					<-ended
				}
				return
			}
			switch {
			case r.Type == "exec" && !running:
				var exec struct{ Command string }
				if ssh.Unmarshal(r.Payload, &exec) != nil {
					reply(r, false)
					continue
				}
				running = true
				reply(r, true)
				c.work.Go(func() {
					defer close(ended)
					c.exec(ctx, exec.Command, ch)
				})
			case r.Type == "signal":
				cancel(ErrSignal)
				reply(r, true)
			default: // env, pty-req, shell, subsystem, …
				reply(r, false)
			}
		}
	}
}

func reply(r *ssh.Request, ok bool) {
	if r.WantReply {
		_ = r.Reply(ok, nil)
	}
}

// exec runs a command and reports its end.
func (c *connection) exec(ctx context.Context, command string, ch ssh.Channel) {
	status := 127
	if c.Exec != nil {
		status = c.Exec(ctx, c.user, command, ch, ch, ch.Stderr())
	} else {
		_, _ = io.WriteString(ch.Stderr(), "this machine knows no command\n")
	}
	finish(ch, status)
}

// finish reports how a session ended.
func finish(ch ssh.Channel, status int) {
	_ = ch.CloseWrite()
	if status >= 0 {
		_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(status)))
		return
	}
	name, ok := signalNames[-status]
	if !ok {
		name = "KILL"
	}
	_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
		Signal          string
		CoreDumped      bool
		Error, Language string
	}{Signal: name}))
}
