package consoles

import (
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for consoles.
func Endpoints() map[string]world.Handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]world.Handler{
		"POST " + vm + "/vncproxy":       vncOfVM,
		"POST " + vm + "/termproxy":      terminalOfVM,
		"POST " + vm + "/spiceproxy":     spiceOfVM,
		"POST /nodes/{node}/termproxy":   terminalShell,
		"GET /nodes/{node}/vncwebsocket": webSocket,
		"GET " + vm + "/vncwebsocket":    webSocket,
		"POST /access/vncticket":         vncTicket,
	}
}

// consoleTimeout is how long the door to a console stays open where nobody comes. It is the
// same at any speed: who is waited for lives outside.
const consoleTimeout = 10 * time.Second

// startConsole opens the door to a console. Its port is not given out again while it is open.
func startConsole(c *world.Call, task, id string, kind world.ConsoleKind, v *world.VM, password bool) (map[string]any, error) {
	now := time.Now()
	port := 5900
	for d := c.State.Doors[port]; d != nil && !d.Free(now); d = c.State.Doors[port] {
		port++
	}
	d := &world.Door{Until: now.Add(consoleTimeout), Kind: kind, User: c.Who.ID, Node: c.Param("node"), VM: v,
		Ticket: fmt.Sprintf("PVEVNC:%08X::%s", now.Unix(), c.State.UUID()), Entry: make(chan struct{}), Exit: make(chan struct{}), End: make(chan struct{})}
	if c.State.Doors == nil {
		c.State.Doors, c.State.Consoles = map[int]*world.Door{}, map[string]string{}
	}
	c.State.Doors[port] = d
	upid, err := c.StartTask(task, id, func(w world.Worker) error { return keep(w, d) })
	if err != nil {
		return nil, err
	}
	out := map[string]any{"user": c.Who.ID, "port": strconv.Itoa(port), "upid": upid, "ticket": d.Ticket}
	if password {
		word := newPassword(c.State)
		out["password"], out["ticket"] = word, word+":"+d.Ticket
	}
	path := "/nodes/" + d.Node
	if v != nil {
		path = "/vms/" + strconv.Itoa(v.ID)
	}
	c.State.Consoles[d.Ticket] = c.Who.ID + " " + path
	return out, c.State.Wait(400*time.Millisecond, nil)
}

// newPassword is one of eight printable characters.
func newPassword(s *world.State) string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte('!' + s.Random.IntN('~'-'!'+1))
	}
	return string(b)
}

// authority is the certificate of the cluster's own authority.
func authority(s *world.State) (string, error) {
	der, err := nodes.Certificate(s)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

func vncOfVM(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	serial := strings.HasPrefix(c.State.Props("vga", v.Conf["vga"])["type"], "serial")
	password := !serial || c.Params.Bool("generate-password") || c.Params.Bool("websocket")
	out, err := startConsole(c, "vncproxy", strconv.Itoa(v.ID), world.Screen, v, password)
	if err != nil {
		return nil, err
	}
	out["cert"], err = authority(c.State)
	return out, err
}

func terminalOfVM(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	return startConsole(c, "vncproxy", strconv.Itoa(v.ID), world.Terminal, v, false)
}

// spiceOfVM asks a running QEMU for a port that only one with a QXL screen has.
func spiceOfVM(c *world.Call) (any, error) {
	v, err := c.VM()
	switch {
	case err != nil:
		return nil, err
	case !v.Running:
		return nil, answer.Die("VM %d not running", v.ID)
	case !strings.HasPrefix(c.State.Props("vga", v.Conf["vga"])["type"], "qxl"):
		return nil, answer.Die("no spice port")
	}
	ca, err := authority(c.State)
	return map[string]any{"type": "spice", "title": "VM " + strconv.Itoa(v.ID) + " - " + v.Conf["name"], "host": c.State.UUID(), "proxy": "http://" + v.Node + ":3128",
		"tls-port": 61000, "password": newPassword(c.State), "ca": ca, "delete-this-file": 1,
		"release-cursor": "Ctrl+Alt+R", "toggle-fullscreen": "Shift+F11", "secure-attention": "Ctrl+Alt+Ins"}, err
}

// shellOfHost refuses to run more than a login for anybody but root.
func shellOfHost(c *world.Call) error {
	if cmd := c.Param("cmd"); cmd != "" && cmd != "login" && c.Who.User() != "root@pam" {
		return answer.Fail(403, "Permission check failed (user != root@pam)")
	}
	return nil
}

func terminalShell(c *world.Call) (any, error) {
	if err := shellOfHost(c); err != nil {
		return nil, err
	}
	return startConsole(c, "vncshell", "", world.Terminal, nil, false)
}

// webSocket is what a browser speaks to a console through. Without a handshake, or a
// ticket that is right, there is none.
func webSocket(c *world.Call) (any, error) {
	path := "/nodes/" + c.Param("node")
	if id := c.Param("vmid"); id != "" {
		path = "/vms/" + id
	}
	ticket := c.Param("vncticket")
	if i := strings.Index(ticket, "PVEVNC:"); i > 0 {
		ticket = ticket[i:]
	}
	if _, opened, _ := strings.Cut(c.State.Consoles[ticket], " "); opened != path {
		if c.State.Wait(access.UnauthorizedDelay, nil) != nil {
			return nil, answer.ErrDropped
		}
		return nil, answer.Fail(401, "permission denied - invalid PVEVNC ticket")
	}
	if c.Param("vmid") != "" {
		if _, err := c.VM(); err != nil {
			return nil, err
		}
	}
	return map[string]any{"port": c.Param("port")}, nil
}

// vncTicket says whether a ticket lets somebody into a console.
func vncTicket(c *world.Call) (any, error) {
	if err := access.SoundPrivs(c); err != nil {
		return nil, err
	}
	who, path := c.Param("authid"), c.Param("path")
	if c.State.Consoles[c.Param("vncticket")] != who+" "+path ||
		access.NeedAll(c.State, world.Identity{ID: who}, path, schema.SplitList(c.Param("privs"))) != nil {
		if c.State.Wait(access.UnauthorizedDelay, nil) != nil {
			return nil, answer.ErrDropped
		}
		return nil, answer.Fail(401, "authentication failure")
	}
	return nil, nil
}
