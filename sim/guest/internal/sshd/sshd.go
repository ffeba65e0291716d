package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// Programs returns the programs of OpenSSH.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{"ssh-keygen": runSSHKeygen}
}

// HostKeyFile is the host's private key; the public one is beside it.
const HostKeyFile = "/etc/ssh/ssh_host_ed25519_key"

// Port is where sshd listens.
const Port = 22

// Listen returns what serves the port, nil while nothing does.
func Listen(s *machine.System) network.Handler {
	if s.Faulty(func(f machine.Faults) bool { return f.SSHRefuses }) || !systemd.Active(s, "ssh.service") {
		return nil
	}
	return func(ctx context.Context, conn net.Conn) { serve(ctx, s, conn) }
}

// serve is sshd on one connection.
func serve(ctx context.Context, s *machine.System, conn net.Conn) {
	data, err := s.Root().ReadFile(HostKeyFile)
	if err != nil {
		_ = conn.Close() // sshd: no hostkeys available -- exiting.
		return
	}
	key, err := sshserver.HostKey(data)
	if err != nil {
		_ = conn.Close()
		return
	}
	server := &sshserver.Server{HostKey: key, Exec: func(ctx context.Context, name, command string, stdin io.Reader, stdout, stderr io.Writer) int {
		return overSSH(ctx, s, name, command, stdin, stdout, stderr)
	}}
	authorizeBy(&server.Authorize, func(name string, wire []byte) error { return authorize(s, name, wire) })
	if n := s.Config.Network; n != nil {
		server.Forward = n.Dial // sshd allows it unless told otherwise
	}
	server.ServeConn(ctx, conn)
}

// authorizeBy sets a server's check of keys to one that knows their wire format
// only.
func authorizeBy[Key interface{ Marshal() []byte }](check *func(string, Key) error, f func(user string, wire []byte) error) {
	*check = func(user string, key Key) error { return f(user, key.Marshal()) }
}

var errDenied = errors.New("permission denied")

// authorize looks a key up in the user's authorized_keys.
func authorize(s *machine.System, name string, wire []byte) error {
	v := s.Root()
	u := disk.FindUser(v, name)
	if u == nil || strings.HasSuffix(u.Shell, "nologin") || strings.HasSuffix(u.Shell, "false") {
		return errDenied
	}
	data, err := v.ReadFile(u.Home + "/.ssh/authorized_keys")
	if err != nil {
		return errDenied
	}
	want := base64.StdEncoding.EncodeToString(wire)
	for _, line := range disk.Lines(data) {
		before, found := "", false
		for _, f := range strings.Fields(line) {
			if f == want {
				found = true
				break
			}
			before += f + " "
		}
		if found && !strings.HasPrefix(before, "#") {
			if strings.Contains(before, "command=") {
				return errDenied // disable_root's way of saying: log in as somebody else
			}
			return nil
		}
	}
	return errDenied
}

// overSSH runs a command as sshd does: a signal of the client's ends it, and so does what
// it writes when nobody reads that any more (SIGPIPE); but that the client has gone is no
// reason to end, other than for a program on a terminal.
func overSSH(ctx context.Context, s *machine.System, name, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(s.Context(), end)()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), sshserver.ErrSignal) {
			end()
		}
	})()
	caught := &atomic.Bool{}
	return s.LoginAs(living, name, command, stdin, pipeTo{stdout, end, caught}, pipeTo{stderr, end, caught}, caught)
}

// pipeTo is an output that may lose its reader, which ends the program unless it has
// caught SIGPIPE.
type pipeTo struct {
	w      io.Writer
	end    func()
	caught *atomic.Bool
}

func (p pipeTo) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err != nil && !p.caught.Load() {
		p.end()
	}
	return n, err
}

// MakeHostKey writes the host's key pair, as ssh-keygen -A does where none is.
func MakeHostKey(v *disk.View) error {
	if _, err := v.Stat(HostKeyFile); err == nil {
		return nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := v.WriteFile(HostKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	return v.WriteFile(HostKeyFile+".pub", []byte(sshPublic(public)+" root@simulated\n"), 0o644)
}

// sshPublic is a public key as authorized_keys and known_hosts hold it (RFC 8709).
func sshPublic(key ed25519.PublicKey) string {
	var wire []byte
	for _, part := range [][]byte{[]byte("ssh-ed25519"), key} {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(part)))
		wire = append(wire, part...)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(wire)
}

// runSSHKeygen is ssh-keygen -A and -l -f FILE.
func runSSHKeygen(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "f", "E", "t", "N", "C")
	switch {
	case getopt.Has(opts, "A"):
		if err := MakeHostKey(p.FS); err != nil {
			return p.Fail("%s", disk.Strerror(err))
		}
		return 0
	case getopt.Has(opts, "l"):
		file := strings.TrimSuffix(getopt.Last(opts, "f"), ".pub") + ".pub"
		data, err := p.FS.ReadFile(p.Abs(file))
		f := strings.Fields(string(data))
		if err != nil || len(f) < 2 {
			fmt.Fprintf(p.Stderr, "ssh-keygen: %s: No such file or directory\n", file)
			return 255
		}
		wire, err := base64.StdEncoding.DecodeString(f[1])
		if err != nil {
			fmt.Fprintf(p.Stderr, "%s is not a public key file.\n", file)
			return 255
		}
		sum := sha256.Sum256(wire)
		p.Printf("256 SHA256:%s root@simulated (ED25519)\n", base64.RawStdEncoding.EncodeToString(sum[:]))
		return 0
	}
	return p.Fail("only -A and -l -f are simulated")
}
