package pvesim

import (
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func consoleHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]handler{
		"POST " + vm + "/vncproxy":       (*call).vncOfVM,
		"POST " + vm + "/termproxy":      (*call).terminalOfVM,
		"POST " + vm + "/spiceproxy":     (*call).spiceOfVM,
		"POST /nodes/{node}/vncshell":    (*call).vncShell,
		"POST /nodes/{node}/termproxy":   (*call).terminalShell,
		"POST /nodes/{node}/spiceshell":  (*call).spiceShell,
		"GET /nodes/{node}/vncwebsocket": (*call).webSocket,
		"GET " + vm + "/vncwebsocket":    (*call).webSocket,
		"POST /access/vncticket":         (*call).vncTicket,
	}
}

// consoleTimeout is how long the door to a console stays open where nobody comes. It is the
// same at any speed: who is waited for lives outside.
const consoleTimeout = 10 * time.Second

// console opens the door to a console. Its port is not given out again while it is open.
func (c *call) console(task, id string, kind consoleKind, v *vm, password bool) (map[string]any, error) {
	now := time.Now()
	port := 5900
	for d := c.s.doors[port]; d != nil && !d.free(now); d = c.s.doors[port] {
		port++
	}
	d := &door{until: now.Add(consoleTimeout), kind: kind, user: c.who.id, node: c.param("node"), vm: v,
		ticket: fmt.Sprintf("PVEVNC:%08X::%s", now.Unix(), c.s.uuid()), entry: make(chan struct{}), exit: make(chan struct{}), end: make(chan struct{})}
	if c.s.doors == nil {
		c.s.doors, c.s.consoles = map[int]*door{}, map[string]string{}
	}
	c.s.doors[port] = d
	upid, err := c.startTask(task, id, func(w worker) error { return w.keep(d) })
	if err != nil {
		return nil, err
	}
	out := map[string]any{"user": c.who.id, "port": strconv.Itoa(port), "upid": upid, "ticket": d.ticket}
	if password {
		word := c.s.password()
		out["password"], out["ticket"] = word, word+":"+d.ticket
	}
	path := "/nodes/" + d.node
	if v != nil {
		path = "/vms/" + strconv.Itoa(v.id)
	}
	c.s.consoles[d.ticket] = c.who.id + " " + path
	return out, c.s.wait(400*time.Millisecond, nil)
}

// password is one of eight printable characters.
func (s *state) password() string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte('!' + s.random.IntN('~'-'!'+1))
	}
	return string(b)
}

// authority is the certificate of the cluster's own authority.
func (s *state) authority() (string, error) {
	der, err := s.certificate()
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

func (c *call) vncOfVM() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	serial := strings.HasPrefix(c.s.props("vga", v.conf["vga"])["type"], "serial")
	out, err := c.console("vncproxy", strconv.Itoa(v.id), screen, v, !serial || c.p.bool("generate-password") || c.p.bool("websocket"))
	if err != nil {
		return nil, err
	}
	out["cert"], err = c.s.authority()
	return out, err
}

func (c *call) terminalOfVM() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return c.console("vncproxy", strconv.Itoa(v.id), terminal, v, false)
}

// spiceOfVM asks a running QEMU for a port that only one with a QXL screen has.
func (c *call) spiceOfVM() (any, error) {
	v, err := c.vm()
	switch {
	case err != nil:
		return nil, err
	case !v.running:
		return nil, die("VM %d not running", v.id)
	case !strings.HasPrefix(c.s.props("vga", v.conf["vga"])["type"], "qxl"):
		return nil, die("no spice port")
	}
	ca, err := c.s.authority()
	return map[string]any{"type": "spice", "title": "VM " + strconv.Itoa(v.id) + " - " + v.conf["name"], "host": c.s.uuid(), "proxy": "http://" + v.node + ":3128",
		"tls-port": 61000, "password": c.s.password(), "ca": ca, "delete-this-file": 1,
		"release-cursor": "Ctrl+Alt+R", "toggle-fullscreen": "Shift+F11", "secure-attention": "Ctrl+Alt+Ins"}, err
}

// shellOfHost refuses to run more than a login for anybody but root.
func (c *call) shellOfHost() error {
	if cmd := c.param("cmd"); cmd != "" && cmd != "login" && c.who.user() != "root@pam" {
		return fail(403, "Permission check failed (user != root@pam)")
	}
	return nil
}

func (c *call) vncShell() (any, error) {
	if err := c.shellOfHost(); err != nil {
		return nil, err
	}
	out, err := c.console("vncshell", "", screen, nil, c.p.bool("websocket"))
	if err != nil {
		return nil, err
	}
	out["cert"], err = c.s.authority()
	return out, err
}

func (c *call) terminalShell() (any, error) {
	if err := c.shellOfHost(); err != nil {
		return nil, err
	}
	return c.console("vncshell", "", terminal, nil, false)
}

func (c *call) spiceShell() (any, error) {
	return nil, die("there is no SPICE server for shells here")
}

// webSocket is what a browser speaks to a console through. Without a handshake, or a
// ticket that is right, there is none.
func (c *call) webSocket() (any, error) {
	path := "/nodes/" + c.param("node")
	if id := c.param("vmid"); id != "" {
		path = "/vms/" + id
	}
	ticket := c.param("vncticket")
	if i := strings.Index(ticket, "PVEVNC:"); i > 0 {
		ticket = ticket[i:]
	}
	if _, opened, _ := strings.Cut(c.s.consoles[ticket], " "); opened != path {
		if c.s.wait(unauthorizedDelay, nil) != nil {
			return nil, errDropped
		}
		return nil, fail(401, "permission denied - invalid PVEVNC ticket")
	}
	if c.param("vmid") != "" {
		if _, err := c.vm(); err != nil {
			return nil, err
		}
	}
	return map[string]any{"port": c.param("port")}, nil
}

// vncTicket says whether a ticket lets somebody into a console.
func (c *call) vncTicket() (any, error) {
	who, path := c.param("authid"), c.param("path")
	if c.s.consoles[c.param("vncticket")] != who+" "+path || c.s.needAll(identity{who}, path, splitList(c.param("privs"))) != nil {
		if c.s.wait(unauthorizedDelay, nil) != nil {
			return nil, errDropped
		}
		return nil, fail(401, "authentication failure")
	}
	return nil, nil
}
