package consoles

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/hostshell"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// serveScreen is a VNC server up to the login (RFC 6143, 7.1 and 7.2): there are no
// screens here, so nobody is let in.
func serveScreen(stream io.ReadWriter) error {
	const version = "RFB 003.008\n"
	if _, err := io.WriteString(stream, version); err != nil {
		return err
	}
	theirs := make([]byte, len(version))
	if _, err := io.ReadFull(stream, theirs); err != nil {
		return err
	}
	const password = 2
	if _, err := stream.Write([]byte{1, password}); err != nil {
		return err
	}
	chosen := make([]byte, 1)
	if _, err := io.ReadFull(stream, chosen); err != nil {
		return err
	}
	challenge := make([]byte, 16)
	_, _ = rand.Read(challenge) // never fails
	if _, err := stream.Write(challenge); err != nil {
		return err
	}
	if _, err := io.ReadFull(stream, challenge); err != nil {
		return err
	}
	const why = "a simulated machine has no screen"
	out := binary.BigEndian.AppendUint32(nil, 1) // failed
	_, err := stream.Write(append(binary.BigEndian.AppendUint32(out, uint32(len(why))), why...))
	return err
}

var errConsole = errors.New("this is not what termproxy speaks")

// serveTerminal is Proxmox's termproxy: a line with user and ticket, answered with OK; then
// what is typed comes as 0:LENGTH:TEXT, the window's size as 1:COLUMNS:ROWS:, a sign of
// life as 2, and what is shown goes back as it is.
func serveTerminal(s *world.State, ctx context.Context, d *world.Door, stream io.ReadWriter) error {
	in := bufio.NewReader(stream)
	login, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if login != d.User+":"+d.Ticket+"\n" {
		return errConsole
	}
	if _, err := io.WriteString(stream, "OK"); err != nil {
		return err
	}
	t := &console{s: s, d: d, out: stream}
	if !t.begin() {
		return nil
	}
	for {
		text, err := readTyped(in)
		if err != nil {
			return err
		}
		if !t.typed(ctx, text) {
			return nil
		}
	}
}

// maxTyped is how much may be typed at once.
const maxTyped = 128 << 10

// readTyped is the next that was typed; nothing for the messages that say something else.
func readTyped(in *bufio.Reader) (string, error) {
	kind, err := in.ReadByte()
	if err != nil {
		return "", err
	}
	if kind == '2' {
		return "", nil
	}
	if colon, err := in.ReadByte(); err != nil || colon != ':' {
		return "", errors.Join(errConsole, err)
	}
	number, err := in.ReadString(':')
	if err != nil {
		return "", err
	}
	switch kind {
	case '0':
		n, err := strconv.Atoi(strings.TrimSuffix(number, ":"))
		if err != nil || n < 0 || n > maxTyped {
			return "", errConsole
		}
		text := make([]byte, n)
		_, err = io.ReadFull(in, text)
		return string(text), err
	case '1': // clients without a window say -1
		_, err := in.ReadString(':')
		return "", err
	}
	return "", errConsole
}

// console is one session at a terminal: a shell of the node, or a machine's serial port.
type console struct {
	s      *world.State
	d      *world.Door
	out    io.Writer
	line   string
	prompt string
}

func (t *console) show(text string) {
	_, _ = io.WriteString(t.out, strings.ReplaceAll(text, "\n", "\r\n")) // the next read knows of an end
}

// begin greets; false where the session is over at once.
func (t *console) begin() bool {
	v := t.d.VM
	if v == nil {
		t.prompt = "root@" + t.d.Node + ":~# "
		t.show("Linux " + t.d.Node + ", a simulated Proxmox VE\n" + t.prompt)
		return true
	}
	t.s.Mu.Lock()
	serial, name, lives := "", v.Conf["name"], v.Running && v.Machine != nil
	for i := 3; i >= 0; i-- {
		if key := "serial" + strconv.Itoa(i); v.Conf[key] != "" {
			serial = key
		}
	}
	t.s.Mu.Unlock()
	if serial == "" {
		t.show("unable to find a serial interface\n")
		return false
	}
	t.show("starting serial terminal on interface " + serial + "\n")
	if lives {
		t.prompt = name + " login: "
		t.show("\n" + t.prompt)
	}
	return true
}

// typed echoes what was typed, and does what a line of it says; false where that is to go.
func (t *console) typed(ctx context.Context, text string) bool {
	for _, char := range strings.ReplaceAll(text, "\r", "\n") {
		if t.d.VM != nil && t.prompt == "" {
			continue // nobody listens at the other end
		}
		if char != '\n' {
			t.line += string(char)
			t.show(string(char))
			continue
		}
		line := strings.TrimSpace(t.line)
		t.line = ""
		t.show("\n")
		switch {
		case t.d.VM != nil && line != "":
			t.show("Password: \n\nLogin incorrect\n")
		case t.d.VM == nil && (line == "exit" || line == "logout"):
			t.show("logout\n")
			return false
		case t.d.VM == nil && line != "":
			t.run(ctx, line)
		}
		t.show(t.prompt)
	}
	return true
}

// run is a line for the node's shell; each has one of its own.
func (t *console) run(ctx context.Context, line string) {
	shell, err := hostshell.Login(t.s, ctx, t.d.Node)
	if err != nil {
		t.show(fmt.Sprintln(err))
		return
	}
	out := &strings.Builder{}
	shell.Machine.Run(ctx, "root", line, out)
	t.show(out.String())
}
